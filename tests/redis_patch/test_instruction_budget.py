"""What sampling adds to a command on a key that is not sampled, in instructions."""

from __future__ import annotations

import pytest

from workloads.bench.sampling.costs import available
from workloads.bench.sampling.instruction_table import Count, count, variants
from workloads.local_server import BUILD

# The same command on the same server never differs by more; other compilers may need some more.
NOISE = 2
SLACK = 10
BUDGETS = {
    "stock again": NOISE,
    "patch off": 10 + NOISE,
    "patch R=0": 60 + SLACK,
    "module R=0": 160 + SLACK,
}


def is_budgeted(one: Count) -> bool:
    """Not what the server itself adds to a module: some 200 instructions each time that it waits
    for commands, and some 600 for telling a module of Redis 7.0 about a miss."""
    is_module = one.variant.startswith("module")
    return not (is_module and (one.pipeline == 1 or one.command == "get, miss"))


@pytest.mark.skipif(available() is not None, reason=available() or "")
def test_a_command_that_is_not_sampled_stays_within_its_budget() -> None:
    for name in ("bin/redis-server", "bin/redis-server-stock", "lib/spreds.so", "lib/empty.so"):
        if not (BUILD / name).exists():
            pytest.skip(f"build/{name} is not built")
    chosen = [one for one in variants("redis", (0.0,)) if one.name in {"stock", *BUDGETS}]
    counts = count(chosen, keys=512)
    over = [
        f"{one.variant}, {one.command}, pipeline of {one.pipeline}: {one.added:+.1f}"
        for one in counts
        if is_budgeted(one) and one.added > BUDGETS.get(one.variant, 0)
    ]
    assert not over, "\n".join(over)
    assert {one.variant for one in counts} == {"stock", *BUDGETS}

"""The whole way of a load that does not change, from its samples to plans: noise moves nothing.

Of the 18,000 reads in a cycle about 1,000 are sampled, with their fills, of all servers together.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from workloads.experiment.gain import simulation
from workloads.experiment.gain.loads import ZipfLoad
from workloads.experiment.gain.mix import Mix, MixServer, Phase, Requests, Targets, record
from workloads.experiment.gain.oracle import Oracle
from workloads.experiment.gain.spreds_division import SpredsDivision

CYCLES = 24
BUDGET_BYTES = 12 << 20
RATE = 0.055
STEPS_A_CYCLE = 12


def server(
    name: str, requests: int, keys: int, skew: float, latency: float, weight: float
) -> MixServer:
    load = ZipfLoad(keys, skew, mean_bytes=800)
    return MixServer(name, weight, latency, (Phase(1, (requests,), load),))


EQUAL = tuple(server(name, 6000, 10_000, 0.9, 0.03, 1.0) for name in ("a", "b", "c"))
UNEQUAL = (
    server("a", 9000, 7_500, 0.7, 0.03, 1.0),
    server("b", 6000, 10_000, 0.9, 0.005, 1.0),
    server("c", 3000, 12_500, 1.1, 0.02, 2.0),
)


def changes(mix: Mix, requests: Sequence[Requests], start: list[int], salt: int) -> int:
    """Return how many plans change sizes; the first one does not count if what it led to gains."""
    division = SpredsDivision(RATE, salt)
    outcome = simulation.simulate(mix, requests, division, start)
    planned = [start, *([s.maxmemory_bytes for s in plan.servers] for plan in division.plans)]
    count = sum(before != after for before, after in pairwise(planned))
    if count < 2:
        return count
    stayed = simulation.simulate(mix, requests, simulation.Division(), start)
    return count - (outcome.access_seconds() < stayed.access_seconds())


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set as many steps as the forecast has: it takes a fifth of the time."""
    monkeypatch.setattr(simulation, "STEPS_A_CYCLE", STEPS_A_CYCLE)


@pytest.mark.parametrize(
    ("servers", "at_best", "seed"),
    [
        pytest.param(EQUAL, False, 1, id="equal servers"),
        pytest.param(EQUAL, False, 2, id="equal servers again", marks=pytest.mark.experiment),
        pytest.param(
            UNEQUAL,
            True,
            1,
            id="unequal servers at their best sizes",
            # Of eight seeds, three move 6 to 18 times since the simulated servers tell evictions,
            # as real ones do, and evict by samples.
            marks=(
                pytest.mark.xfail(reason="so few samples are taken for gain", strict=True),
                pytest.mark.experiment,
            ),
        ),
    ],
)
def test_a_stationary_load_of_few_samples_changes_at_most_twice_in_24_cycles(
    servers: tuple[MixServer, ...], at_best: bool, seed: int
) -> None:
    mix = Mix(
        name="stationary",
        description="",
        budget_bytes=BUDGET_BYTES,
        cycles=CYCLES,
        cycle_seconds=3600.0,
        changes=False,
        targets=Targets(),
        servers=servers,
    )
    requests = record(mix, seed)
    # The best without the cycles in which the caches fill.
    start = Oracle(mix, requests).best_bytes(4) if at_best else [BUDGET_BYTES // 3] * 3
    # A plan that was wrong, and the way back. One change is what one would like.
    assert changes(mix, requests, start, salt=seed * 7919 + 1) <= 2

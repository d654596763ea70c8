"""Which share of the possible gain the demonstration kept, by the exact curves of its load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.demo.half import HalfResult, mean_access_time_seconds
from workloads.demo.scenario import DemoServer
from workloads.experiment.gain.mix import Mix, MixServer, Requests, Targets
from workloads.experiment.gain.oracle import Oracle
from workloads.load import Load
from workloads.table import percent


def kept_gain(
    servers: list[DemoServer], budget_bytes: int, static: HalfResult, spreds: HalfResult
) -> dict[str, Any]:
    """Of the whole load, and of its second half (``late``).

    What was kept is the measured difference to equal shares. What was possible is that of exact
    LRU between equal shares and the best sizes for each half of the load.

    Returns:
        ``possible_ms`` and ``kept_ratio``, ``late_possible_ms`` and ``late_kept_ratio``; a ratio is
        ``None`` where nothing could be gained. ``has_drawn_load``: what was possible is that of a
        load drawn as YCSB draws.
    """
    mix = mix_of_halves(
        "demo",
        budget_bytes,
        [MixServer(one.name, one.weight, one.backend_latency_seconds, ()) for one in servers],
    )
    oracle = Oracle(mix, [requests_of(one.load) for one in servers])
    equal = oracle.outcome(np.full((2, len(servers)), budget_bytes // len(servers)))
    best = oracle.best_of_each_window()
    result: dict[str, Any] = {"has_drawn_load": any(one.ycsb for one in servers)}
    for prefix, first, before, after in (
        ("", 0, static.tallies, spreds.tallies),
        ("late_", 1, static.late_tallies, spreds.late_tallies),
    ):
        possible = equal.access_seconds(first) - best.access_seconds(first)
        kept = mean_access_time_seconds(servers, before) - mean_access_time_seconds(servers, after)
        result[f"{prefix}possible_ms"] = possible * 1000
        result[f"{prefix}kept_ratio"] = kept / possible if possible > 0 else None
    return result


def kept_in_words(kept: dict[str, Any]) -> str:
    """A sentence without its full stop."""
    if kept["kept_ratio"] is None or kept["late_kept_ratio"] is None:
        return "Other sizes than equal ones could have gained nothing"
    ratios = kept["kept_ratio"], kept["late_kept_ratio"]
    words = (
        f"SPREDS kept {percent(ratios[0])} of what the best sizes for each half of the "
        f"load would have gained, and {percent(ratios[1])} in the second half"
    )
    if kept["has_drawn_load"]:
        words += (
            "; the best sizes are those of a load drawn as YCSB draws, which does not tell its "
            "keys, so that it can be more than 100 %"
        )
    elif max(ratios) > 1:
        words += (
            "; more than 100 %, for what was kept is measured, and what the best sizes would have "
            "gained is computed, for exact LRU"
        )
    return words


def mix_of_halves(name: str, budget_bytes: int, servers: Sequence[MixServer]) -> Mix:
    """For an oracle that knows the requests of two halves, as ``requests_of`` has them."""
    return Mix(
        name=name,
        description="",
        budget_bytes=budget_bytes,
        cycles=2,
        cycle_seconds=1.0,
        changes=True,
        targets=Targets(),
        servers=tuple(servers),
    )


def requests_of(load: Load) -> Requests:
    """The two halves of a load, with what its objects take in a server."""
    _, places, keys = np.unique(load.keys, return_index=True, return_inverse=True)
    sizes = allocated_bytes(np.array(load.sizes_bytes)[places])
    return Requests(np.array_split(keys.astype(np.int64), 2), sizes.astype(np.uint32))


def allocated_bytes(sizes_bytes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """What the servers' allocator gives for sizes: it has four of them between powers of two.

    Without it the exact curves would promise a tenth more room than there is.
    """
    exponents = np.ceil(np.log2(np.maximum(8, sizes_bytes))).astype(np.int64)
    steps = np.left_shift(1, exponents - 3)
    return -(-sizes_bytes // steps) * steps

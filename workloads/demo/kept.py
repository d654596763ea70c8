"""Which share of the possible gain the demonstration kept, by the exact curves of its load."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.demo.half import HalfResult, mean_access_time_seconds
from workloads.demo.scenario import DemoServer
from workloads.experiment.gain.mix import Mix, MixServer
from workloads.experiment.gain.oracle import Oracle
from workloads.experiment.gain.recorded_mix import Requests
from workloads.experiment.gain.targets import Targets
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
        ``None`` where nothing could be gained.
    """
    mix = Mix(
        name="demo",
        description="",
        budget_bytes=budget_bytes,
        cycles=2,
        cycle_seconds=1.0,
        changes=True,
        targets=Targets(),
        servers=tuple(
            MixServer(one.name, one.weight, one.backend_latency_seconds, ()) for one in servers
        ),
    )
    oracle = Oracle(mix, [_requests(one.load) for one in servers])
    equal = oracle.outcome(np.full((2, len(servers)), budget_bytes // len(servers)))
    best = oracle.best_of_each_window()
    result: dict[str, Any] = {}
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
    return (
        f"SPREDS kept {percent(kept['kept_ratio'])} of what the best sizes for each half of the "
        f"load would have gained, and {percent(kept['late_kept_ratio'])} in the second half"
    )


def _requests(load: Load) -> Requests:
    """The two halves of a load."""
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

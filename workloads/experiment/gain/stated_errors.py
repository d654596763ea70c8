"""Whether curves were as right as they claimed to be, on what came after them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from solver_lambda.documents.observation import Observation
from workloads.experiment.gain.mix import Mix
from workloads.experiment.gain.oracle import Oracle
from workloads.experiment.gain.spreds_division import START_SECONDS

# Compared at so many sizes, from this share of the size in force to the whole budget.
_SIZES = 8
_LEAST_SHARE = 0.1
# Of a cycle, in which times are told apart.
_PARTS = 720
# A miss ratio of fewer reads is not known well enough to be compared with.
_FEWEST_READS = 100


class StatedErrors(NamedTuple):
    """Shares of what was compared: errors within the stated one, and within twice of it."""

    within_ratio: float
    within_twice_ratio: float


def stated_errors(
    mix: Mix, oracle: Oracle, observations: Sequence[Observation]
) -> StatedErrors | None:
    """Of the curves that may be used, each against the exact one of as long a time as a cycle has;
    ``None`` if there is none to compare. Exact curves are those of cycles, or between two of them.
    """
    ratios: list[float] = []
    for observation in observations:
        cycle = (observation.made_at_seconds - START_SECONDS) / mix.cycle_seconds
        first, part = divmod(round(cycle * _PARTS), _PARTS)
        if first + bool(part) < mix.cycles:
            ratios += _ratios(mix, oracle, observation, first, part / _PARTS)
    if not ratios:
        return None
    return StatedErrors(*(float(np.mean(np.array(ratios) <= times)) for times in (1, 2)))


def _ratios(
    mix: Mix, oracle: Oracle, observation: Observation, cycle: int, part: float
) -> list[float]:
    """Errors over stated errors; such a part of the time that counts lies in the next cycle."""
    found: list[float] = []
    last = cycle + bool(part)
    all_reads = (1 - part) * oracle.reads[cycle] + part * oracle.reads[last]
    all_misses = (1 - part) * oracle.misses[cycle] + part * oracle.misses[last]
    places = {server.name: place for place, server in enumerate(mix.servers)}
    for server in observation.servers:
        place = places[server.name]
        reads = all_reads[place]
        least = max(_LEAST_SHARE * server.maxmemory_bytes, oracle.sizes_bytes[0])
        # An error of 1 says that nothing is known.
        if server.keep_reason or server.curve_error_ratio == 1 or reads < _FEWEST_READS:
            continue
        sizes = np.geomspace(least, observation.budget_bytes, _SIZES)
        exact = np.interp(sizes, oracle.sizes_bytes, all_misses[place]) / reads
        errors = np.abs(server.curve.miss_ratio(sizes) - exact)
        found += (errors / max(1e-9, server.curve_error_ratio)).tolist()
    return found

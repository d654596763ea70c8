"""The second goal: bounds on mean access times, which come first where they can be met."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from solver_lambda.effective_access_time import EffectiveAccessTime
from solver_lambda.observation import Observation, ServerObservation
from solver_lambda.problem import IntArray, PartitionProblem
from solver_lambda.step_limits import is_quiet


class Reserved(NamedTuple):
    """What bounds take.

    Attributes:
        sizes_bytes: by name, of each server whose bound is met.
        unmet: by name, why a bound takes nothing, for people.
    """

    sizes_bytes: dict[str, int]
    unmet: dict[str, str]


def reserve_for_bounds(problem: PartitionProblem, observation: Observation) -> Reserved:
    """The least size with which each bounded server meets its bound.

    Lexicographic: what a bound takes comes before the objective, which divides the rest. But
    memory is taken from others only for a bound that is met by it. One that no size meets, or
    whose server is quiet, takes nothing: then the objective alone gives the server its share.
    Where all cannot be met together, those that take the least go first, so that as many as
    possible are met.
    """
    needed: dict[str, tuple[int, int]] = {}
    unmet: dict[str, str] = {}
    servers = {server.name: server for server in observation.servers}
    for row, name in enumerate(problem.names):
        server = servers[name]
        bound = server.latency_bound_seconds
        if bound is None:
            continue
        if is_quiet(server, observation):
            unmet[name] = "takes no memory while it has hardly any reads"
            continue
        sizes = problem.bases_bytes[row] + problem.unit_bytes * np.arange(problem.limits[row] + 1)
        met = np.flatnonzero(EffectiveAccessTime.of(server).seconds(sizes) <= bound)
        if len(met):
            needed[name] = (int(met[0]), int(sizes[met[0]]))
        else:
            unmet[name] = _why_not(server, bound)
    left = problem.capacity
    reserved: dict[str, int] = {}
    for name, (units, size_bytes) in sorted(needed.items(), key=lambda item: (item[1][0], item[0])):
        if units <= left:
            left -= units
            reserved[name] = size_bytes
        else:
            unmet[name] = "cannot be met beside the bounds that take less"
    return Reserved(reserved, unmet)


def _why_not(server: ServerObservation, bound_seconds: float) -> str:
    cache, backend = server.cache_latency_seconds, server.backend_latency_seconds
    if bound_seconds < min(cache, backend):
        return "cannot be met: it is below the time of its cache itself"
    return "cannot be met by any size that it may have now"


def with_reserved(problem: PartitionProblem, sizes_bytes: Mapping[str, int]) -> PartitionProblem:
    """The problem that is left above the reserved sizes, or above as much as is in reach.

    Where it is too little for all, those that take the least go first.
    """
    wanted = {
        row: min(
            int(problem.limits[row]),
            max(0, -(-(sizes_bytes[name] - problem.bases_bytes[row]) // problem.unit_bytes)),
        )
        for row, name in enumerate(problem.names)
        if name in sizes_bytes
    }
    least: IntArray = np.zeros(len(problem.names), dtype=np.int64)
    left = problem.capacity
    for row, units in sorted(wanted.items(), key=lambda item: (item[1], item[0])):
        least[row] = min(units, left)
        left -= int(least[row])
    return problem.with_least(least) if wanted else problem

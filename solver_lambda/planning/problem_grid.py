"""Makes a partition problem from an observation: a grid of utilities over units of memory."""

from __future__ import annotations

import numpy as np

from solver_lambda.documents.curve import FloatArray
from solver_lambda.documents.observation import Observation, ServerObservation
from solver_lambda.planning.cost_of_moving import moving_seconds_at
from solver_lambda.planning.effective_access_time import EffectiveAccessTime
from solver_lambda.planning.size_ranges import SizeRange
from solver_lambda.solvers.partition_problem import PartitionProblem

# A finer grid is made coarser: 65,536 units are 1 MiB steps on 64 GiB, and the cells of all
# servers together (8 bytes each) must fit a small function beside the copies that solvers make.
MAX_UNITS = 65_536
MAX_CELLS = 1 << 22


def shares(servers: tuple[ServerObservation, ...]) -> dict[str, float]:
    """Return wᵢfᵢ / Σ wᵢfᵢ by name: each server's part in the weighted mean access time.

    As in the thesis' equation (8.1) and table; its text speaks of weighing by the inverse of f.
    All 0 if nobody reads, or nobody has a weight.
    """
    # Rounded, so that weights scaled by a common factor give the very same shares.
    heaviest = max(server.weight for server in servers) or 1.0
    demand = {
        server.name: round(server.weight / heaviest, 12) * server.request_rate_per_second
        for server in sorted(servers, key=lambda server: server.name)
    }
    total = sum(demand.values()) or 1.0
    return {name: value / total for name, value in demand.items()}


def build_problem(
    observation: Observation,
    ranges: dict[str, SizeRange],
    *,
    budget_bytes: int,
    moving: bool,
) -> PartitionProblem:
    """Return the grid of an observation.

    ``ranges`` by name; their least sizes fit ``budget_bytes``. With ``moving`` the utilities
    include the cost of leaving the sizes in force, spread over the horizon.

    A server's grid starts at its least size, or less than a unit above. So it meets the size in
    force (or the greatest size, if that is less): to stay is a choice, and not one of the next
    sizes below and above.
    """
    servers = sorted(observation.servers, key=lambda server: server.name)
    share = shares(observation.servers)
    lows = [ranges[server.name].low_bytes for server in servers]
    spans = [ranges[server.name].high_bytes - ranges[server.name].low_bytes for server in servers]
    unit = _grid_unit(observation.unit_bytes, spans, budget_bytes - sum(lows))
    bases = []
    spare = budget_bytes - sum(lows)
    for server, low, span in zip(servers, lows, spans, strict=True):
        shift = min(max(0, server.maxmemory_bytes - low), span) % unit
        shift = shift if shift <= spare else 0
        spare -= shift
        bases.append(low + shift)
    highs = [ranges[server.name].high_bytes for server in servers]
    limits = np.array(
        [min(spare, high - base) // unit for high, base in zip(highs, bases, strict=True)],
        dtype=np.int64,
    )
    utilities = np.full((len(servers), int(limits.max()) + 1), -np.inf)
    steps = np.arange(utilities.shape[1]) * unit
    horizon_seconds = observation.planning.horizon_seconds if moving else None
    for row, server in enumerate(servers):
        sizes = np.asarray(bases[row] + steps[: limits[row] + 1], dtype=np.float64)
        utilities[row, : len(sizes)] = -share[server.name] * _seconds(
            server, sizes, horizon_seconds
        )
    return PartitionProblem(
        names=tuple(server.name for server in servers),
        bases_bytes=tuple(bases),
        unit_bytes=unit,
        capacity=min(spare // unit, int(limits.sum())),
        limits=limits,
        utilities=utilities,
    )


def _seconds(
    server: ServerObservation, sizes: FloatArray, horizon_seconds: float | None
) -> FloatArray:
    """Return the mean access time at each size, with the cost of moving spread over a horizon."""
    ratios = server.curve.miss_ratio(sizes)
    seconds = EffectiveAccessTime.of(server).at_miss_ratios(ratios)
    if horizon_seconds is not None:
        seconds += moving_seconds_at(server, sizes, ratios, horizon_seconds)
    return seconds


def _grid_unit(unit_bytes: int, spans_bytes: list[int], spare_bytes: int) -> int:
    """Return the observation's unit, or the multiple of it that keeps the grid within its
    limits."""
    most = max(min(span, spare_bytes) for span in spans_bytes) // unit_bytes
    total = min(sum(spans_bytes), spare_bytes) // unit_bytes
    coarser = max(-(-total // MAX_UNITS), -(-most * len(spans_bytes) // MAX_CELLS))
    return unit_bytes * max(1, coarser)

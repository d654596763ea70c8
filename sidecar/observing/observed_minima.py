"""Works out the minima in an observation: what each server keeps, whatever others need."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np

from sidecar.config.node import ServerConfig
from sidecar.servers.connection.server_reading import ServerReading
from solver_lambda.documents.curve import MissRatioCurve
from solver_lambda.documents.observation import Observation, ServerObservation
from solver_lambda.planning.size_ranges import attainable_minima, useful_bytes


def giving_unused(
    server: ServerObservation, enough_bytes: int | None, most_error_ratio: float
) -> ServerObservation:
    """A server whose curve is off by more than a plan may go by can still give. If it does not fill
    its memory (``enough_bytes``, see ``UnfilledMemory``), it gives the half of what it does not
    use. Down to there its curve is level, which its counters show. The other half is for what it
    uses to grow."""
    # A server that is hardly read may never send enough samples for a curve.
    has_few = (server.keep_reason or "").startswith("few_samples:")
    is_known = server.curve_error_ratio <= most_error_ratio and not has_few
    if enough_bytes is None or is_known:
        return server
    size_bytes = server.maxmemory_bytes
    spare_bytes = max(0, size_bytes - max(server.minimum_bytes, enough_bytes))
    return replace(
        server,
        minimum_bytes=size_bytes - spare_bytes // 2,
        curve_error_ratio=most_error_ratio,
        keep_reason=None if has_few else server.keep_reason,
    )


class _Seen(Protocol):
    @property
    def reading(self) -> ServerReading: ...
    @property
    def unevictable_bytes(self) -> int: ...
    @property
    def was_replica(self) -> bool: ...
    @property
    def installed_bytes(self) -> int | None: ...


def needed_bytes(seen: _Seen) -> int:
    """Return the most that a server could not do without in the window, as far as it is for the
    others to mind. A quarter counts of a replica, or one whose keys came as it was one, so that one
    with an equal share is no need. Nothing counts of one that keeps its size anyway, and had that
    when SPREDS came: keys that are never evicted are clients' like all other needs."""
    held_bytes = seen.reading.counted_bytes
    if seen.was_replica:  # also emptied it keeps what is planned for it, until its curve is known
        held_bytes = max(held_bytes, seen.reading.maxmemory_bytes)
    if seen.reading.ignores_maxmemory or seen.was_replica:
        return held_bytes // 4
    size_bytes = seen.reading.maxmemory_bytes
    own_bytes = min(size_bytes, seen.installed_bytes or size_bytes)
    is_kept = not seen.reading.evicts and seen.unevictable_bytes <= own_bytes
    return 0 if is_kept else seen.unevictable_bytes


# Of all reads: who hits less often by no more than this hits as often.
_SAME_RATIO = 0.001


def floor_bytes(curve: MissRatioCurve, installed_bytes: int) -> int:
    """Return the least size with which a server hits as often as with ``installed_bytes``, what it
    had before SPREDS, by its curve."""
    sizes, ratios = curve.from_zero
    most = float(curve.miss_ratio(installed_bytes)) + _SAME_RATIO
    first = int(np.argmax(ratios <= most))
    if not first:
        return 0
    share = (ratios[first - 1] - most) / (ratios[first - 1] - ratios[first])
    size = sizes[first - 1] + share * (sizes[first] - sizes[first - 1])
    return min(installed_bytes, math.ceil(float(size)))


def with_floors(
    servers: tuple[ServerObservation, ...], configs: Iterable[ServerConfig], budget_bytes: int
) -> tuple[ServerObservation, ...]:
    """Raise minima to the floors of servers that are to hit as often as before SPREDS. Where these
    do not fit beside the minima, each gets a part, in proportion."""
    with_floor = {config.name for config in configs if config.floor == "before"}
    more = {
        one.name: max(0, _floor_of(one) - one.minimum_bytes)
        for one in servers
        if one.name in with_floor and one.keep_reason is None
    }
    left_bytes = max(0, budget_bytes - sum(one.minimum_bytes for one in servers))
    share = min(1.0, left_bytes / max(1, sum(more.values())))
    return tuple(
        replace(one, minimum_bytes=one.minimum_bytes + int(share * more.get(one.name, 0)))
        for one in servers
    )


def _floor_of(server: ServerObservation) -> int:
    if not server.installed_bytes:  # it had no limit, or nobody knows what it had
        return 0
    size_bytes = floor_bytes(server.curve, server.installed_bytes)
    return min(size_bytes, server.maximum_bytes or size_bytes)


def beside_needs(
    servers: tuple[ServerObservation, ...],
    configured_bytes: Mapping[str, int],
    held_bytes: Mapping[str, int],
    half_bytes: int,
    *,
    is_beside_unread: bool,
) -> tuple[ServerObservation, ...]:
    """Let each other one keep what it has, up to half of an equal share, where one is in need. That
    one needs more than is planned for what it cannot evict, or much for it, or does not answer. Any
    client may bring about a need or a silence: it is no reason to empty the others."""
    in_need = {*_needed_more_bytes(servers, configured_bytes)}
    # Also once it is planned for: with less for all others, what is best for them may be nothing.
    in_need |= needing_much(configured_bytes, held_bytes, half_bytes)
    if not in_need and not is_beside_unread:
        return servers
    return tuple(
        server if server.name in in_need else _keeping_half(server, half_bytes)
        for server in servers
    )


def beside_wishes(
    servers: tuple[ServerObservation, ...], immodest: Collection[str], half_bytes: int
) -> tuple[ServerObservation, ...]:
    """No team's wish takes what another server has below half of an equal share, as far as that
    brings it hits. ``immodest``: whose wishes count for that much."""
    return tuple(
        _keeping_half(one, min(half_bytes, useful_bytes(one))) if {*immodest} - {one.name} else one
        for one in servers
    )


def _keeping_half(server: ServerObservation, half_bytes: int) -> ServerObservation:
    """Let it keep what it has, up to half of an equal share."""
    kept_bytes = min(server.maxmemory_bytes, half_bytes, server.maximum_bytes or half_bytes)
    return replace(server, minimum_bytes=max(server.minimum_bytes, kept_bytes))


def needing_much(
    configured_bytes: Mapping[str, int], held_bytes: Mapping[str, int], half_bytes: int
) -> set[str]:
    """Name those that could not evict more than a quarter of an equal share, and more than people
    want for them."""
    return {
        name
        for name, size in held_bytes.items()
        if size > max(half_bytes // 2, configured_bytes[name])
    }


def with_needs_that_fit(
    servers: tuple[ServerObservation, ...],
    configured_bytes: Mapping[str, int],
    budget_bytes: int,
) -> tuple[ServerObservation, ...]:
    """What some need beside what the others keep may be more than there is: then the needs get
    less, each in proportion, and not the others. Where that is not enough the minima that people
    set must do."""
    excess_bytes = sum(server.minimum_bytes for server in servers) - budget_bytes
    if excess_bytes <= 0:
        return servers
    more = _needed_more_bytes(servers, configured_bytes)
    total = sum(more.values())
    if total < excess_bytes:
        return tuple(replace(one, minimum_bytes=configured_bytes[one.name]) for one in servers)
    cut = {name: -(-size * excess_bytes // total) for name, size in more.items()}
    return tuple(
        replace(one, minimum_bytes=one.minimum_bytes - cut.get(one.name, 0)) for one in servers
    )


def _needed_more_bytes(
    servers: tuple[ServerObservation, ...], configured_bytes: Mapping[str, int]
) -> dict[str, int]:
    """Return how much more some need than is planned for them and than people want."""
    more = {
        one.name: one.minimum_bytes - max(one.maxmemory_bytes, configured_bytes[one.name])
        for one in servers
    }
    return {name: size for name, size in more.items() if size > 0}


def with_minima_that_fit(observation: Observation) -> Observation:
    """Lower minima where they do not fit. Beside servers that do not answer, or cannot be given
    another size, the others cannot always have what people want. Then the plan has to make do with
    less, for it may not take memory that others have; with none at all it is refused."""
    if sum(server.minimum_bytes for server in observation.servers) > observation.budget_bytes:
        minima = attainable_minima(observation)
        servers = tuple(
            replace(
                server,
                minimum_bytes=min(minima[server.name], server.maxmemory_bytes)
                if server.keep_reason
                else minima[server.name],
            )
            for server in observation.servers
        )
        observation = replace(observation, servers=servers)
    least = sum(server.minimum_bytes for server in observation.servers)
    return replace(observation, budget_bytes=max(observation.budget_bytes, least))

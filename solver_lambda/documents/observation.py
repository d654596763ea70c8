"""The observation says what a sidecar saw of its servers, and asks a plan for.

``VERSION`` counts up when a key changes its meaning or a new one must be there. Other new keys are
optional, with a default that means "not known", so that a newer function reads what older sidecars
write. An older function refuses a key that it does not know, so the function is upgraded first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from solver_lambda.documents.curve import MissRatioCurve
from solver_lambda.documents.json_text import check_kind, parse_json
from solver_lambda.documents.keys import MOST_CYCLE, read_node, read_server
from solver_lambda.documents.planning_settings import PlanningSettings
from solver_lambda.documents.reader import MOST_BYTES, DocumentError, Fields
from solver_lambda.documents.server_settings import MAX_VERSION, read_bounds

KIND = "spreds.observation"
VERSION = 1
MAX_OBSERVATION_BYTES = 16 * 1024 * 1024
# Characters: with reasons of this length, a plan for the most servers that an observation may have
# can still be read.
MAX_REASON = 300
# Each takes a fifth of a plan's time.
MOST_BUDGET_RATIOS = 32
BUDGET_RATIO_BOUNDS = 0.05, 20.0


@dataclass(frozen=True)
class ServerObservation:
    """Tells of one server in one window.

    Attributes:
        maxmemory_bytes: in force now, or already planned while memory is being handed over; 0 is
            Redis' "no limit".
        minimum_bytes, maximum_bytes: bounds for the plan (``None``: no upper bound). A minimum of 0
            lets a plan give the server next to nothing; see ``size_ranges``.
        weight: w, >= 0.
        request_rate_per_second: f, reads only.
        cache_latency_seconds, backend_latency_seconds: cd and bd of (8.2).
        backend_latency_source: ``team``, ``configured`` or ``measured``.
        measured_backend_latency_seconds: also when another source goes before it; ``None`` if too
            few misses were filled. From a miss to the fill of the same key, clients' queues
            included; misses that are never filled are left out.
        fill_ratio: share of the misses that were filled, ``None`` if unknown: far below 1, the
            measured latency says little of the others.
        miss_ratio: that the server itself reported for the window, ``None`` if it had no reads.
        inserted_per_read: objects that came in and were not deleted, for each read of the window,
            by the server's own count of keys and evictions; ``None`` if not known.
        curve: miss ratio over ``maxmemory``.
        curve_error_ratio: expected absolute error of the curve's miss ratio.
        sampled_objects: live in the SHARDS stack.
        mean_object_bytes: memory a key takes, all overheads included (for the cost of moving).
        changed_at_seconds: Unix time of the last change of ``maxmemory`` by a plan, or ``None``.
        keep_reason: if not ``None``, this server's size must not change, and why.
        settings_version: of the team's settings in force, or ``None``.
        installed_bytes: ``maxmemory`` as found, before SPREDS set any; 0 is Redis' "no limit",
            ``None`` not known. A sidecar that tells it reads plans that carry demand.
        bounds: at most so much of something, by the setting's name, see ``server_settings``. They
            come before the other servers where they can be met at a small price, and count for
            nothing where they cannot: see ``planning/reservations.py``.
    """

    name: str
    maxmemory_bytes: int
    minimum_bytes: int
    weight: float
    request_rate_per_second: float
    cache_latency_seconds: float
    backend_latency_seconds: float
    curve: MissRatioCurve
    maximum_bytes: int | None = None
    backend_latency_source: str = "configured"
    measured_backend_latency_seconds: float | None = None
    fill_ratio: float | None = None
    miss_ratio: float | None = None
    inserted_per_read: float | None = None
    curve_error_ratio: float = 0.0
    sampled_objects: int = 0
    mean_object_bytes: float | None = None
    changed_at_seconds: float | None = None
    keep_reason: str | None = None
    settings_version: str | None = None
    installed_bytes: int | None = None
    bounds: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        table = {**self.__dict__, **self.bounds, "curve": self.curve.to_json()}
        del table["bounds"]
        return table

    @classmethod
    def from_json(cls, fields: Fields) -> ServerObservation:
        """Read a server's part of it. Raises DocumentError."""
        server = cls(
            name=read_server(fields),
            maxmemory_bytes=fields.integer("maxmemory_bytes", low=0),
            minimum_bytes=fields.integer("minimum_bytes", low=0, high=MOST_BYTES),
            maximum_bytes=(
                fields.integer("maximum_bytes", low=1, high=MOST_BYTES)
                if fields.has("maximum_bytes")
                else None
            ),
            weight=fields.number("weight", low=0),
            request_rate_per_second=fields.number("request_rate_per_second", low=0),
            cache_latency_seconds=fields.number("cache_latency_seconds", low=0),
            backend_latency_seconds=fields.number("backend_latency_seconds", low=0),
            backend_latency_source=fields.text(
                "backend_latency_source", "configured", ("team", "configured", "measured")
            ),
            measured_backend_latency_seconds=fields.optional_number(
                "measured_backend_latency_seconds", low=0
            ),
            fill_ratio=fields.optional_number("fill_ratio", low=0, high=1),
            miss_ratio=fields.optional_number("miss_ratio", low=0, high=1),
            inserted_per_read=fields.optional_number("inserted_per_read", low=0),
            curve=MissRatioCurve.from_json(fields.table("curve")),
            curve_error_ratio=fields.number("curve_error_ratio", 0.0, low=0, high=1),
            sampled_objects=fields.integer("sampled_objects", 0, low=0),
            mean_object_bytes=fields.optional_number("mean_object_bytes", above=0),
            changed_at_seconds=fields.optional_number("changed_at_seconds", low=0),
            keep_reason=(
                fields.text("keep_reason", most=MAX_REASON) if fields.has("keep_reason") else None
            ),
            settings_version=(
                fields.text("settings_version", most=MAX_VERSION)
                if fields.has("settings_version")
                else None
            ),
            installed_bytes=(
                fields.integer("installed_bytes", low=0) if fields.has("installed_bytes") else None
            ),
            bounds=read_bounds(fields),
        )
        fields.done()
        if server.maximum_bytes is not None and server.maximum_bytes < server.minimum_bytes:
            raise fields.refuse(
                "maximum_bytes", f"{server.maximum_bytes} is below minimum {server.minimum_bytes}"
            )
        return server


@dataclass(frozen=True)
class Observation:
    """Tells of all servers of one node in one window.

    Attributes:
        node: name of the machine, also in the S3 keys.
        cycle: counts up for each observation of the node, across restarts of the sidecar.
        made_at_seconds: Unix time.
        window_seconds: length of the window that rates and ratios cover.
        cycle_seconds: the longest window between two plans, in which a quiet server may lose what a
            cycle's step is; of a shorter one, as much less. 0: any window is a cycle.
        budget_bytes: M.
        unit_bytes: step of the planner's grid, which meets the size in force or the nearest that
            a server may have; a grid that would be too large takes a multiple of it.
        chance_ratio: so much of a plan's gain, relative to the mean access time, may be chance,
            because the curves are known by a few sampled objects.
        goes_back: the bounds are the sizes that the servers had before there were plans, as far as
            teams leave the choice: the plans since have cost more.
        budget_ratios: the plan is to tell what these budgets would bring, in parts of M: see
            ``planning/budget_curve.py``. Who writes it reads all that ``WhatIf`` has.
    """

    node: str
    cycle: int
    made_at_seconds: float
    window_seconds: float
    budget_bytes: int
    servers: tuple[ServerObservation, ...]
    unit_bytes: int = 65536
    planning: PlanningSettings = field(default_factory=PlanningSettings)
    chance_ratio: float = 0.0
    goes_back: bool = False
    cycle_seconds: float = 0.0
    budget_ratios: tuple[float, ...] = ()

    @property
    def cycle_share(self) -> float:
        """Return the part of a cycle that the window is, 1 at most."""
        return self.window_seconds / max(self.cycle_seconds, self.window_seconds)

    @property
    def in_force_bytes(self) -> dict[str, int]:
        """Return ``maxmemory`` of each server now, by name."""
        return {server.name: server.maxmemory_bytes for server in self.servers}

    def to_json(self) -> dict[str, Any]:
        return {
            **self.__dict__,
            "kind": KIND,
            "version": VERSION,
            "servers": [server.to_json() for server in self.servers],
            "planning": self.planning.to_json(),
        }

    def dumps(self) -> bytes:
        """Return the document as it is stored."""
        return json.dumps(self.to_json(), separators=(",", ":"), allow_nan=False).encode()

    @classmethod
    def loads(cls, text: bytes | str, source: str) -> Observation:
        """Read and check a document; ``source`` names it in errors.

        Raises:
            DocumentError: with the key and value at fault.
        """
        fields = parse_json(text, source, MAX_OBSERVATION_BYTES)
        check_kind(fields, KIND, VERSION)
        observation = cls(
            node=read_node(fields),
            cycle=fields.integer("cycle", low=0, high=MOST_CYCLE),
            made_at_seconds=fields.number("made_at_seconds", low=0),
            window_seconds=fields.number("window_seconds", above=0),
            cycle_seconds=fields.number("cycle_seconds", cls.cycle_seconds, low=0),
            budget_bytes=fields.integer("budget_bytes", low=1, high=MOST_BYTES),
            unit_bytes=fields.integer("unit_bytes", cls.unit_bytes, low=1, high=MOST_BYTES),
            chance_ratio=fields.number("chance_ratio", cls.chance_ratio, low=0, high=1),
            goes_back=fields.boolean("goes_back", cls.goes_back),
            budget_ratios=_read_ratios(fields),
            servers=tuple(ServerObservation.from_json(t) for t in fields.tables("servers")),
            planning=PlanningSettings.from_json(fields.table("planning", {})),
        )
        fields.done()
        fields.check_distinct("servers", (server.name for server in observation.servers))
        minima = sum(server.minimum_bytes for server in observation.servers)
        if minima > observation.budget_bytes:
            raise DocumentError(
                f"{source}: the minima sum to {minima} bytes, "
                f"more than budget_bytes {observation.budget_bytes}"
            )
        return observation


def _read_ratios(fields: Fields) -> tuple[float, ...]:
    if not fields.has("budget_ratios"):
        return ()
    ratios = fields.numbers("budget_ratios", most=MOST_BUDGET_RATIOS)
    low, high = BUDGET_RATIO_BOUNDS
    if wrong := [ratio for ratio in ratios if not low <= ratio <= high]:
        raise fields.refuse("budget_ratios", f"has {wrong[0]:g}, not from {low:g} to {high:g}")
    return tuple(ratios)

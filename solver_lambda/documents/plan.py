"""The adaptation plan says which memory each server of a node is to have, and why."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from solver_lambda.documents.json_text import check_kind, parse_json
from solver_lambda.documents.keys import MOST_CYCLE, read_node, read_server
from solver_lambda.documents.reader import DocumentError, Fields
from solver_lambda.documents.server_settings import MAX_VERSION

KIND = "spreds.plan"
VERSION = 1
# Enough for the most servers that an observation may have, each with the longest reason.
MAX_PLAN_BYTES = 4 * 1024 * 1024
NOTHING_PROVEN = 1.0
# Left out where nothing is known: a sidecar that does not tell ``installed_bytes`` may be of a time
# when a plan with these keys was refused.
_DEMAND = (
    "window_seconds",
    "weight",
    "request_rate_per_second",
    "installed_bytes",
    "eat_installed_seconds",
)


def _without_unknown(table: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if value is not None or key not in keys}


@dataclass(frozen=True)
class ServerPlan:
    """Says what happens to one server, and what its planner predicts, ``None`` where it does not.

    Attributes:
        maxmemory_before_bytes, maxmemory_bytes: in force when observed, and planned. 0 is Redis'
            "no limit", which only a plan that keeps all sizes may have.
        hit_ratio_before, hit_ratio: predicted, at those sizes.
        eat_before_seconds, eat_seconds: effective access time by (8.2), at those sizes.
        marginal_gain_seconds_per_mebibyte: fall of the node's weighted mean access time if this
            server had one more MiB.
        reason: why it changes or not, for people; starts with a code such as ``grows:``.
        settings_version: of the team's settings that the plan used, or ``None``.
        weight, request_rate_per_second: as observed.
        installed_bytes: as observed: ``maxmemory`` before SPREDS set any.
        eat_installed_seconds: effective access time at that size.
    """

    name: str
    maxmemory_before_bytes: int
    maxmemory_bytes: int
    hit_ratio_before: float | None
    hit_ratio: float | None
    eat_before_seconds: float | None
    eat_seconds: float | None
    marginal_gain_seconds_per_mebibyte: float | None
    reason: str
    settings_version: str | None = None
    weight: float | None = None
    request_rate_per_second: float | None = None
    installed_bytes: int | None = None
    eat_installed_seconds: float | None = None

    def to_json(self) -> dict[str, Any]:
        return _without_unknown(self.__dict__, _DEMAND)

    @classmethod
    def from_json(cls, fields: Fields) -> ServerPlan:
        """Read a server's part of a plan. Raises DocumentError."""
        server = cls(
            name=read_server(fields),
            maxmemory_before_bytes=fields.integer("maxmemory_before_bytes", low=0),
            maxmemory_bytes=fields.integer("maxmemory_bytes", low=0),
            hit_ratio_before=fields.optional_number("hit_ratio_before", low=0, high=1),
            hit_ratio=fields.optional_number("hit_ratio", low=0, high=1),
            eat_before_seconds=fields.optional_number("eat_before_seconds", low=0),
            eat_seconds=fields.optional_number("eat_seconds", low=0),
            marginal_gain_seconds_per_mebibyte=fields.optional_number(
                "marginal_gain_seconds_per_mebibyte"
            ),
            reason=fields.text("reason"),
            settings_version=(
                fields.text("settings_version", most=MAX_VERSION)
                if fields.has("settings_version")
                else None
            ),
            weight=fields.optional_number("weight", low=0),
            request_rate_per_second=fields.optional_number("request_rate_per_second", low=0),
            installed_bytes=(
                fields.integer("installed_bytes", low=0) if fields.has("installed_bytes") else None
            ),
            eat_installed_seconds=fields.optional_number("eat_installed_seconds", low=0),
        )
        fields.done()
        return server


@dataclass(frozen=True)
class WhatIf:
    """Says what the best division of another budget brings by the curves, without the cost of
    moving.

    Attributes:
        mean_access_time_seconds: weighted, of all servers.
        hit_ratio: of all reads, each counted once.
        misses_per_second: of all servers.
        optimality_gap: as in ``AdaptationPlan``.
        equal_sizes_seconds, equal_sizes_misses_per_second: what equal sizes would bring.

    All but the first two are ``None`` where the observation did not ask for budgets.
    """

    budget_bytes: int
    mean_access_time_seconds: float
    hit_ratio: float | None = None
    misses_per_second: float | None = None
    optimality_gap: float | None = None
    equal_sizes_seconds: float | None = None
    equal_sizes_misses_per_second: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Write it without what was not asked for: see ``_DEMAND``."""
        return {key: value for key, value in self.__dict__.items() if value is not None}

    @classmethod
    def from_json(cls, fields: Fields) -> WhatIf:
        """Read what another budget would bring. Raises DocumentError."""
        what_if = cls(
            budget_bytes=fields.integer("budget_bytes", low=1),
            mean_access_time_seconds=fields.number("mean_access_time_seconds", low=0),
            hit_ratio=fields.optional_number("hit_ratio", low=0, high=1),
            misses_per_second=fields.optional_number("misses_per_second", low=0),
            optimality_gap=fields.optional_number("optimality_gap", low=0),
            equal_sizes_seconds=fields.optional_number("equal_sizes_seconds", low=0),
            equal_sizes_misses_per_second=fields.optional_number(
                "equal_sizes_misses_per_second", low=0
            ),
        )
        fields.done()
        return what_if


@dataclass(frozen=True)
class AdaptationPlan:
    """Answers one observation, by whoever plans: see ``docs/develop/documents.md``.

    Attributes:
        node, cycle, observation_made_at_seconds: of the observation it answers.
        made_at_seconds: Unix time.
        budget_bytes: M, as observed.
        method: the solver whose solution it is: of ours ``dirichlet``, ``hill_climbing`` or
            ``certified``; ``none`` if no split keeps the rules.
        decision: ``apply``, or ``keep``: all sizes stay, and ``reason`` says why.
        optimality_gap: a better split may undercut the objective of the split found by this part of
            it: 0 is proven optimal, 1 is nothing proven. The objective is the mean access time, the
            cost of moving included. Hysteresis may still hold the split back. It is of the grid of
            the observation's unit; where that was made coarser, of all finer sizes, with no cost of
            moving.
        mean_access_time_before_seconds, mean_access_time_seconds: weighted, predicted;
            ``None`` if the planner predicts none.
        servers: in the observation's order.
        what_if: other budgets, and with ``Observation.budget_ratios`` this one.
        run_seconds: time the planner took.
        run_memory_bytes: the process' peak resident memory.
        window_seconds: of the observation: what its rates cover.
    """

    node: str
    cycle: int
    observation_made_at_seconds: float
    made_at_seconds: float
    budget_bytes: int
    method: str
    decision: str
    reason: str
    optimality_gap: float
    mean_access_time_before_seconds: float | None
    mean_access_time_seconds: float | None
    servers: tuple[ServerPlan, ...]
    what_if: tuple[WhatIf, ...] = ()
    run_seconds: float = 0.0
    run_memory_bytes: int = 0
    window_seconds: float | None = None

    @property
    def predicted_gain_ratio(self) -> float | None:
        """Return by which share of itself the mean access time falls. It is 0 if there is nothing
        to fall, and ``None`` if nothing is predicted."""
        before, after = self.mean_access_time_before_seconds, self.mean_access_time_seconds
        if before is None or after is None:
            return None
        return 1 - after / before if before > 0 else 0.0

    @property
    def own_budget(self) -> WhatIf | None:
        """Return the best division of this plan's own budget; ``None`` where it was not asked
        for."""
        own = (one for one in self.what_if if one.budget_bytes == self.budget_bytes)
        return next(own, None)

    def to_json(self) -> dict[str, Any]:
        return {
            **_without_unknown(self.__dict__, _DEMAND),
            "kind": KIND,
            "version": VERSION,
            "servers": [server.to_json() for server in self.servers],
            "what_if": [what_if.to_json() for what_if in self.what_if],
        }

    def dumps(self) -> bytes:
        """Return the document as it is stored."""
        return json.dumps(self.to_json(), separators=(",", ":"), allow_nan=False).encode()

    @classmethod
    def loads(cls, text: bytes | str, source: str) -> AdaptationPlan:
        """Read and check a document; ``source`` names it in errors.

        Raises:
            DocumentError: with the key and value at fault, or if the sizes exceed the budget.
        """
        fields = parse_json(text, source, MAX_PLAN_BYTES)
        check_kind(fields, KIND, VERSION)
        plan = cls(
            node=read_node(fields),
            cycle=fields.integer("cycle", low=0, high=MOST_CYCLE),
            observation_made_at_seconds=fields.number("observation_made_at_seconds", low=0),
            made_at_seconds=fields.number("made_at_seconds", low=0),
            budget_bytes=fields.integer("budget_bytes", low=1),
            method=fields.text("method"),
            decision=fields.text("decision", choices=("apply", "keep")),
            reason=fields.text("reason"),
            optimality_gap=fields.number("optimality_gap", NOTHING_PROVEN, low=0),
            mean_access_time_before_seconds=fields.optional_number(
                "mean_access_time_before_seconds", low=0
            ),
            mean_access_time_seconds=fields.optional_number("mean_access_time_seconds", low=0),
            servers=tuple(ServerPlan.from_json(t) for t in fields.tables("servers")),
            what_if=(
                tuple(WhatIf.from_json(t) for t in fields.tables("what_if", least=0))
                if fields.has("what_if")
                else ()
            ),
            run_seconds=fields.number("run_seconds", 0.0, low=0),
            run_memory_bytes=fields.integer("run_memory_bytes", 0, low=0),
            window_seconds=fields.optional_number("window_seconds", low=0),
        )
        fields.done()
        fields.check_distinct("servers", (server.name for server in plan.servers))
        if plan.decision == "keep":
            return plan
        for server in plan.servers:
            if not server.maxmemory_bytes:
                raise fields.refuse("servers", f"has no maxmemory_bytes for {server.name!r}")
        total = sum(server.maxmemory_bytes for server in plan.servers)
        if total > plan.budget_bytes:
            raise DocumentError(
                f"{source}: the sizes sum to {total} bytes, "
                f"more than budget_bytes {plan.budget_bytes}"
            )
        return plan

"""The JSON documents: of planners, teams, people, and the sidecar's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from sidecar.control.history_entry import read_entry
from sidecar.control.order import Order
from sidecar.settings.team_settings import TeamSettings
from sidecar.state.control_state import ControlState
from sidecar.state.sidecar_state import SidecarState
from sidecar.state.state_store import MAX_STATE_BYTES
from solver_lambda.documents.json_text import parse_json
from solver_lambda.documents.observation import Observation
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.documents.reader import DocumentError
from workloads.experiment.fuzz.json_mutator import JsonMutator
from workloads.experiment.fuzz.parser import Parser
from workloads.experiment.fuzz.seeds import (
    CONTROL,
    ENTRIES,
    OBSERVATION,
    ORDERS,
    PLANS,
    SETTINGS,
    STATE,
)


class _UnreadableError(Exception):
    """A line of the history that is left out."""


def document_parsers(extra: dict[str, list[bytes]] | None = None) -> list[Parser]:
    """``extra``: more well-formed documents, by the parser's name."""
    extra = extra or {}

    def parser(
        name: str,
        documents: list[dict[str, Any]],
        read: Callable[[bytes], object],
        share: float = 1,
    ) -> Parser:
        seeds = [json.dumps(document).encode() for document in documents] + extra.get(name, [])
        documented = _UnreadableError if name == "history" else DocumentError
        return Parser(name, seeds, JsonMutator(seeds).changed, read, (documented,), share)

    return [
        parser("plan", PLANS, _plan),
        parser("observation", [OBSERVATION], _observation),
        parser("settings", [SETTINGS], _settings),
        parser("state", [STATE], _state),
        parser("control", [CONTROL], _control),
        parser("order", ORDERS, _order),
        parser("history", ENTRIES, _history),
    ]


def _plan(data: bytes) -> None:
    plan = AdaptationPlan.loads(data, "plan")
    assert AdaptationPlan.loads(plan.dumps(), "the same") == plan
    if plan.decision == "apply":
        sizes = [server.maxmemory_bytes for server in plan.servers]
        assert all(sizes)
        assert sum(sizes) <= plan.budget_bytes


def _observation(data: bytes) -> None:
    written = Observation.loads(data, "observation").dumps()
    assert Observation.loads(written, "the same").dumps() == written


def _settings(data: bytes) -> None:
    settings = TeamSettings.loads(data, "settings")
    assert TeamSettings.loads(settings.dumps(), "the same") == settings
    assert settings.version.isprintable()


def _state(data: bytes) -> None:
    state = SidecarState.from_json(parse_json(data, "state", MAX_STATE_BYTES))
    text = json.dumps(state.to_json(), allow_nan=False)
    assert SidecarState.from_json(parse_json(text, "the same", MAX_STATE_BYTES)) == state


def _control(data: bytes) -> None:
    control = ControlState.from_json(parse_json(data, "control", MAX_STATE_BYTES))
    text = json.dumps(control.to_json(), allow_nan=False)
    assert ControlState.from_json(parse_json(text, "the same", MAX_STATE_BYTES)) == control
    control.objection(None, 0.0)


def _order(data: bytes) -> None:
    order = Order.from_json(parse_json(data, "order", 16 * 1024))
    text = json.dumps(order.to_json(), allow_nan=False)
    assert Order.from_json(parse_json(text, "the same", 32 * 1024)) == order


def _history(data: bytes) -> None:
    entry = read_entry(data)
    if entry is None:
        raise _UnreadableError("left out")
    # It is sent to browsers, and printed.
    json.dumps(entry, allow_nan=False)
    entry["words"].encode()

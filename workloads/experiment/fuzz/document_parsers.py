"""What people write and programs pass on: the JSON documents, and the node's file in TOML."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sidecar.config.node import load_config
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
from workloads.experiment.fuzz.mutators import JsonMutator, Parser, changed_bytes
from workloads.experiment.fuzz.seeds import (
    CONTROL,
    ENTRIES,
    NODE,
    OBSERVATION,
    ORDERS,
    PLANS,
    SETTINGS,
    STATE,
)

_ODD_VALUES = [
    value.encode()
    for value in (
        *('""', "0", "-1", "1.5", "nan", "inf", "-inf", "1e400", "true", "[]", "{}", "[[1]]"),
        *("9" * 30, "9" * 5000, "0x10", "2026-11-22", "2026-11-22T06:40:00Z", "06:40:00"),
        *('"0"', '"1"', '"-1mb"', '"1e9mb"', f'"{"9" * 400}mb"', '"0.5b"', '"99999tb"', '"1 KB"'),
        *('"0%"', '"100%"', '"101%"', '"1e-9%"', '"75.5%"', '"0s"', '"1us"', f'"{"9" * 400}d"'),
        *('"\\u0000"', '"\\n"', '"\\uD7FF"', '"é"', '"a/../b"', f'"{"a" * 200}"', "'''x'''"),
        *('"unix://"', '"unix:///a%00b"', '"redis://[::1"', '"redis://:0"', '"redis://h:99999"'),
        *('"redis://u:p@h"', '"rediss://h?ssl_cert_reqs=none"', '"redis://h?x=1"', '"redis://é"'),
        *(
            '"redis://h:６３７９"',
            '"tcp://*:1"',
            '"tcp://h:x"',
            '"tcp://:::5"',
            '"ipc://@"',
            '"ipc:///"',
        ),
        *('"last"', '"hold"', '"cloud"', '"lambda"', '"sqs"', '"apply"', '"0.0.0.0:1"', '":::"'),
        *("1" + "_0" * 50, "[" * 2000, "{a={a={a=1}}}", '"', "'", "#", "", "1 1", "\ufeff"),
    )
]


class _UnreadableError(Exception):
    """A line of the history that is left out."""


def document_parsers(extra: dict[str, list[bytes]] | None = None) -> list[Parser]:
    """``extra``: more well-formed documents, by the parser's name."""
    extra = extra or {}

    def parser(
        name: str,
        documents: list[dict[str, Any]],
        read: Callable[[bytes], object],
    ) -> Parser:
        seeds = [json.dumps(document).encode() for document in documents] + extra.get(name, [])
        documented = _UnreadableError if name == "history" else DocumentError
        return Parser(name, seeds, JsonMutator(seeds).changed, read, (documented,))

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


def node_parser() -> Parser:
    folder = tempfile.TemporaryDirectory(prefix="spreds-fuzz-")
    path = Path(folder.name) / "node.toml"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        config = load_config(path)
        assert folder.name  # lives as long as this function
        minima = sum(server.minimum_bytes for server in config.servers)
        assert minima <= config.memory.budget_bytes or config.memory.budget_share is not None

    return Parser("node", [NODE.encode()], _changed, read, (DocumentError,), 0.15)


def _changed(draw: random.Random) -> bytes:
    lines = NODE.encode().splitlines()
    if draw.random() < 0.2:
        return changed_bytes(NODE.encode(), draw)
    for _ in range(draw.choice((1, 1, 2))):
        place, kind = draw.randrange(len(lines)), draw.randrange(8)
        key, sign, value = lines[place].partition(b" = ")
        if kind < 4 and sign:
            lines[place] = key + sign + draw.choice(_ODD_VALUES)
        elif kind == 4:
            del lines[place]
        elif kind == 5:
            lines.insert(draw.randrange(len(lines)), lines[place])
        elif kind == 6 and sign:
            lines[place] = changed_bytes(key, draw) + sign + value
        else:
            lines[place] = changed_bytes(lines[place], draw, lines)
        lines = lines or [b""]
    return b"\n".join(lines) + b"\n"

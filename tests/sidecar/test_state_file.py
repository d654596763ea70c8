"""The state file: read back as it was written, or left aside with a word in the log."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from sidecar.state import Asked, Replaced, SeenLatency, SidecarState, load_state, save_state


@pytest.fixture
def state() -> SidecarState:
    made = SidecarState(
        last_cycle=7,
        applied_cycle=6,
        targets_bytes={"a": 5, "b": 0},
        settled=False,
        changed_at_seconds={"a": 1.5},
        replaced={"a": Replaced("0" * 40, {"hz": "10"})},
        before_shrink={"a": {"hz": "10"}, "b": {"hz": "25"}},
        latencies={"a": SeenLatency(0.1, "team", None, 0.5)},
    )
    made.ask(Asked(8, 1.0, 100, {"a": (1, None), "b": (1, 50)}))
    return made


def test_it_is_read_back_as_it_was_written(state: SidecarState, tmp_path: Path) -> None:
    save_state(tmp_path / "state", state)
    assert load_state(tmp_path / "state") == state


def test_one_of_another_version_keeps_what_is_known(state: SidecarState, tmp_path: Path) -> None:
    document = {**json.loads(json.dumps(state.to_json())), "a key of tomorrow": 5}
    del document["latencies"]
    (tmp_path / "state").write_text(json.dumps(document))
    read = load_state(tmp_path / "state")
    assert (read.targets_bytes, read.latencies) == (state.targets_bytes, {})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("last_cycle", "1e999"),
        ("last_cycle", "NaN"),
        ("applied_cycle", "1" + "0" * 400),
        ("targets_bytes", '{"a": 1e999}'),
        ("changed_at_seconds", '{"a": 1e999}'),
        ("asked", "[" * 100_000),
        ("asked", '[{"cycle": 1, "bounds_bytes": {"a": 5}}]'),
        ("replaced", "[]"),
        ("before_shrink", '{"a": {"hz": 10}}'),
        ("settled", "null"),
    ],
)
def test_one_that_is_unusable_is_left_aside(
    key: str,
    value: str,
    state: SidecarState,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    text = json.dumps({**state.to_json(), key: "the place"})
    (tmp_path / "state").write_text(text.replace('"the place"', value))
    with caplog.at_level(logging.WARNING):
        assert load_state(tmp_path / "state") == SidecarState()
    (record,) = caplog.records
    assert str(tmp_path / "state") in record.getMessage()
    assert "starting without it" in record.getMessage()

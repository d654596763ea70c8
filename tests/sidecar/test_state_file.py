"""The state file: read back as it was written, or left aside with a word in the log."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path

import pytest

from sidecar.state.sidecar_state import (
    ObservedLatency,
    PendingRequest,
    SavedSettings,
    SidecarState,
    SizeChange,
)
from sidecar.state.state_store import StateStore, load_state
from sidecar.storage.store import remove_halves, write_whole


@pytest.fixture
def state() -> SidecarState:
    made = SidecarState(
        last_cycle=7,
        applied_cycle=6,
        targets_bytes={"a": 5, "b": 0},
        settled=False,
        changed_at_seconds={"a": 1.5},
        replaced={"a": SavedSettings("0" * 40, {"hz": "10"})},
        before_shrink={"a": {"hz": "10"}, "b": {"hz": "25"}},
        latencies={"a": ObservedLatency(0.1, "team", None, 0.5)},
        first_bytes={"a": 3, "b": 2},
        last_changes={
            "a": SizeChange(2.5, 3, 5, 6, "why"),
            "b": SizeChange(2.5, 2, 0, None, "given back"),
        },
    )
    made.ask(PendingRequest(8, 1.0, 100, {"a": (1, None), "b": (1, 50)}))
    return made


def test_it_is_read_back_as_it_was_written(state: SidecarState, tmp_path: Path) -> None:
    store = StateStore(tmp_path / "state")
    with store.update() as made:
        made.__dict__.update(state.__dict__)
    assert store.now == StateStore(tmp_path / "state").now == state


def test_a_change_that_fails_half_way_changes_nothing(tmp_path: Path) -> None:
    store = StateStore(tmp_path / "state")
    with store.update() as state:
        state.targets_bytes = {"a": 5}
    before = store.now

    def fail_half_way() -> None:
        with store.update() as state:
            state.targets_bytes = {"a": 6}
            raise KeyError

    with pytest.raises(KeyError):
        fail_half_way()
    assert store.now is before
    assert load_state(tmp_path / "state") == before


def test_what_could_not_be_read_again_is_not_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = StateStore(tmp_path / "state")
    with store.update() as state:
        state.targets_bytes = {"a": 5}
    good = (tmp_path / "state").read_bytes()
    with store.update() as state:
        state.before_shrink = {"a": {"hz": "10\x01"}}
    assert not store.is_saved
    assert "what would be in it" in caplog.text
    assert (tmp_path / "state").read_bytes() == good
    with store.update() as state:
        state.before_shrink = {}
    assert store.is_saved


def test_what_could_not_be_written_is_written_with_the_next_change(tmp_path: Path) -> None:
    store = StateStore(tmp_path / "folder" / "state")
    (tmp_path / "folder").write_text("in the way")
    with store.update() as state:
        state.targets_bytes = {"a": 5}
    assert (store.is_saved, store.now.targets_bytes) == (False, {"a": 5})
    (tmp_path / "folder").unlink()
    with store.update():
        pass
    assert store.is_saved
    assert load_state(tmp_path / "folder" / "state") == store.now


def test_what_a_killed_writer_left_is_removed_at_a_start(tmp_path: Path) -> None:
    halves = [".state.json.abcd_123", ".state.json.history.zz00zz00"]
    others = [
        ".state.json.notes",
        "state.json.abcd_123",
        ".state2.json.abcd_123",
        ".state.json.lock",
    ]
    for name in (*halves, *others):
        (tmp_path / name).write_text("half")
    (tmp_path / ".state.json.folder__").mkdir()
    store = StateStore(tmp_path / "state.json")
    with store.update() as state:
        state.targets_bytes = {"a": 5}
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {*others, ".state.json.folder__", "state.json"}


def test_a_half_written_file_has_a_name_that_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``kill -9`` leaves it: nothing is replaced, nothing removed."""
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("killed")))
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)
    with pytest.raises(OSError, match="killed"):
        write_whole(tmp_path / "state.json", b"half")
    monkeypatch.undo()
    assert len(list(tmp_path.iterdir())) == 1
    assert remove_halves(tmp_path / "state.json") == 1
    assert list(tmp_path.iterdir()) == []


def test_changes_by_many_threads_are_all_kept(tmp_path: Path) -> None:
    store = StateStore(tmp_path / "state")

    def change(name: str) -> None:
        for size in range(20):
            with store.update() as state:
                state.targets_bytes = {**state.targets_bytes, name: size}

    threads = [threading.Thread(target=change, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert load_state(tmp_path / "state") == store.now
    assert store.now.targets_bytes == dict.fromkeys("abcd", 19)


@pytest.mark.parametrize("text", ["", "[]", '{"asked": 1}', "\0"])
def test_a_damaged_one_is_started_without(text: str, tmp_path: Path) -> None:
    (tmp_path / "state").write_text(text)
    assert load_state(tmp_path / "state") == SidecarState()


def test_one_of_another_version_keeps_what_is_known(state: SidecarState, tmp_path: Path) -> None:
    document = {**json.loads(json.dumps(state.to_json())), "a key of tomorrow": 5}
    del document["latencies"], document["first_bytes"]
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

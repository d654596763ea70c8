"""The state file: read back as it was written, or left aside with a word in the log."""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.state.asked_observations import AskedObservations, asked_path
from sidecar.state.control_state import MODES, ControlState, Hold, OrderOrigin, Pause, Wait
from sidecar.state.gain_since_installation import GainSinceInstallation
from sidecar.state.sidecar_state import (
    ObservedLatency,
    PendingRequest,
    SavedSettings,
    SidecarState,
    SizeChange,
)
from sidecar.state.state_store import StateStore, load_state
from sidecar.storage.store import remove_halves, write_whole
from solver_lambda.documents.reader import Fields
from tests.sidecar.plan_messages import observation


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
        taking_commands={"b": ("lpop", "xack")},
        caches=("a",),
        gain=GainSinceInstallation(1.5, {"a": (9.5, 2.5, 3.5)}, {"a": (4.5, 0.5)}, {"a": 6.5}),
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


# --- Orders are kept as they were given, and decide what may be done.


TEXT = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=20)
TIMES = st.floats(1, 1e10)
SIZES = st.dictionaries(TEXT, st.integers(0, 1 << 40), max_size=3)
WAITS = st.builds(Wait, TIMES, TEXT, st.integers(0, 9))
STATES = st.builds(
    ControlState,
    mode=st.none() | st.sampled_from(MODES),
    mode_by=st.none() | st.builds(OrderOrigin, TEXT, TIMES, st.just("") | TEXT),
    file_mode=st.none() | st.sampled_from(MODES),
    engaged=st.booleans(),
    pause=st.none() | st.builds(Pause, TEXT, TIMES, st.just("") | TEXT, st.none() | TIMES),
    wait=st.none() | WAITS,
    server_waits=st.dictionaries(TEXT, WAITS, max_size=3),
    held=st.dictionaries(TEXT, st.builds(Hold, st.integers(1, 1 << 40), TIMES), max_size=3),
    installed_bytes=SIZES,
    before_plan_bytes=SIZES,
)


@given(STATES)
def test_orders_are_read_back_as_they_were_written(control: ControlState) -> None:
    assert ControlState.from_json(Fields(control.to_json(), "state")) == control


@given(STATES)
def test_a_file_from_before_servers_waited_is_read(control: ControlState) -> None:
    old = {key: value for key, value in control.to_json().items() if key != "server_waits"}
    assert ControlState.from_json(Fields(old, "state")) == replace(control, server_waits={})


@given(STATES, st.none() | st.sampled_from(MODES), TIMES)
def test_who_objects_has_a_reason_and_nobody_else(
    control: ControlState, file_mode: str | None, now_seconds: float
) -> None:
    objection = control.objection(file_mode, now_seconds)
    waits = control.wait is not None and now_seconds < control.wait.until_seconds
    free = control.pause is None and control.mode_with(file_mode) == "apply" and not waits
    assert (objection is None) == free


def test_a_new_installation_recommends() -> None:
    assert ControlState().mode_with(None) == "recommend"
    assert not ControlState().sets_sizes


def test_an_order_holds_until_the_line_in_the_file_is_edited() -> None:
    ordered = ControlState().ordered("apply", "recommend", OrderOrigin("ann", 1.0))
    assert ordered.mode_with("recommend") == "apply"
    assert ordered.mode_with("apply") == "apply"
    back = ControlState().ordered("recommend", "apply", OrderOrigin("ann", 1.0))
    assert back.mode_with("apply") == "recommend"
    assert back.mode_with(None) == "recommend"


def test_a_sidecar_that_knew_no_modes_goes_on_with_carrying_out_plans() -> None:
    table = SidecarState(last_cycle=7).to_json()
    del table["control"]
    control = SidecarState.from_json(Fields(table, "state")).control
    assert (control.mode_with(None), control.sets_sizes) == ("apply", True)
    assert replace(control, engaged=False).mode_with("recommend") == "recommend"


# --- What was seen when plans were asked for is kept for the answers, over a restart, too.


def test_those_that_wait_are_kept_and_the_last_one_over_a_restart(tmp_path: Path) -> None:
    path = asked_path(tmp_path / "state.json")
    assert path == tmp_path / "state.json.asked"
    asked = AskedObservations(path)
    for cycle in (1, 2, 3):
        asked.keep(observation(cycle), {2, cycle})
    known = [asked.get(cycle) for cycle in (1, 2, 3)]
    assert [one and one.cycle for one in known] == [None, 2, 3]
    again = AskedObservations(path)
    last = again.get(3)
    assert last is not None
    assert last.dumps() == known[2].dumps()  # type: ignore[union-attr]
    assert again.get(2) is None
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("text", [b"", b"{}", b"\xff" * 10])
def test_what_cannot_be_read_is_left_out(
    tmp_path: Path, text: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "state.json.asked"
    path.write_bytes(text)
    asked = AskedObservations(path)
    assert "the last observation is left out" in caplog.text
    asked.keep(observation(1), ())
    assert AskedObservations(path).get(1) is not None


def test_what_cannot_be_written_is_said_and_written_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "not-there" / "asked"
    asked = AskedObservations(path)
    asked.keep(observation(1), ())
    assert "the observation cannot be kept" in caplog.text
    assert asked.get(1) is not None
    path.parent.mkdir()
    asked.write_again()
    assert AskedObservations(path).get(1) is not None


def test_without_a_state_file_nothing_is_on_file() -> None:
    asked = AskedObservations(asked_path(None))
    asked.keep(observation(1), ())
    assert asked.get(1) is not None

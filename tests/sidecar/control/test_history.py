"""The history is kept whole, whatever becomes of its file."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.base.time_of_day import time_of_day
from sidecar.commands.history import _folded
from sidecar.control import entries_by_kind
from sidecar.control import history as history_module
from sidecar.control.history import History, read_history
from sidecar.control.history_entry import read_entry


def words(path: Path, limit: int = 100) -> list[str]:
    return [entry["words"] for entry in read_history(path, limit)]


def test_entries_are_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "history"
    made = History(path)
    made.add("plan", "the first", cycle=7)
    made.add("order", "the second", by="ann")
    again = History(path)
    again.add("plan", "the third")
    assert words(path) == ["the first", "the second", "the third"]
    assert [entry["by"] for entry in again.tail(2)] == ["ann", "spreds"]
    assert words(path, 1) == ["the third"]
    assert again.tail(0) == []


def test_half_a_line_and_what_was_not_written_here_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "history"
    History(path).add("plan", "whole")
    with path.open("ab") as file:
        file.write(b'{"kind": "unknown"}\n[1]\n\xff\xfe\n{"at_seconds": 1.0, "kind": "plan", "wor')
    assert words(path) == ["whole"]
    History(path).add("plan", "after it")
    assert words(path) == ["whole", "after it"]


def test_the_oldest_go_by_number_and_by_age(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history"
    monkeypatch.setitem(entries_by_kind.MOST, "plan", 3)
    old = {"at_seconds": 1.0, "kind": "plan", "by": "spreds", "words": "long ago"}
    path.write_text(json.dumps(old) + "\n")
    made = History(path)
    assert made.tail(9) == []
    for number in range(5):
        made.add("plan", str(number))
    assert [entry["words"] for entry in History(path).tail(9)] == ["2", "3", "4"]
    assert len(path.read_text().splitlines()) == 3


def test_a_file_is_pruned_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history"
    monkeypatch.setattr(entries_by_kind, "MOST_OF_OTHERS", 5)
    monkeypatch.setattr(history_module, "LEAST_PRUNED", 5)
    made = History(path)
    for number in range(100):
        made.add("hand", str(number), server="a")
        assert len(path.read_text().splitlines()) < 10
        assert words(path)[-5:] == [str(n) for n in range(max(0, number - 4), number + 1)]


def test_sizes_that_one_server_is_given_push_out_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history"
    monkeypatch.setattr(entries_by_kind, "MOST_OF_OTHERS", 5)
    monkeypatch.setattr(history_module, "LEAST_PRUNED", 5)
    made = History(path)
    made.add("hand", "sessions was given 5 MiB", server="sessions")
    for number in range(40):
        made.add("hand", str(number), server="pages")
    assert words(path)[0] == "sessions was given 5 MiB"


PLAN = {
    "at_seconds": 1.7e9,
    "kind": "plan",
    "by": "spreds",
    "words": "a plan",
    "cycle": 7,
    "decision": "apply",
    "carried_out": True,
    "reason": "gain",
    "predicted_gain_ratio": 0.1,
    "mean_access_time_seconds": None,
    "sizes_before_bytes": {"a": 1, "b": 3},
    "sizes_bytes": {"a": 2, "b": 2},
    "reasons": {"a": "it gains", "b": "it loses little"},
}


@pytest.mark.parametrize(
    ("change", "left_out"),
    [
        ({"cycle": ...}, None),
        ({"cycle": "7"}, None),
        ({"at_seconds": 1e30}, None),
        ({"at_seconds": True}, None),
        ({"kind": ["plan"]}, None),
        ({"words": "half \ud800"}, None),
        ({"reasons": ["it gains"]}, "reasons"),
        ({"reasons": None}, "reasons"),
        ({"sizes_bytes": {"a": "2"}}, "sizes_bytes"),
        ({"sizes_before_bytes": 7}, "sizes_before_bytes"),
        ({"predicted_gain_ratio": 1e999}, "predicted_gain_ratio"),
        ({"later": [1e999]}, "later"),
        ({"later": {"x": 1}}, ""),
        ({"by": 7}, "by"),
    ],
    ids=str,
)
def test_what_somebody_made_of_an_entry_is_left_out(
    tmp_path: Path, change: dict[str, Any], left_out: str | None
) -> None:
    path = tmp_path / "history"
    changed = {key: value for key, value in {**PLAN, **change}.items() if value is not ...}
    path.write_text(json.dumps(changed) + "\n")
    expected = {key: value for key, value in changed.items() if key != left_out}
    assert read_history(path) == ([] if left_out is None else [expected])


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["a", "b", "\ud800"]), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from([*PLAN, "order", "server"]), ODD, max_size=4))
def test_no_entry_keeps_a_sidecar_from_starting_or_a_command_from_telling(
    odd: dict[str, Any],
) -> None:
    entry = read_entry(json.dumps({**PLAN, **odd}).encode())
    if entry is None:
        return
    json.dumps(entry, allow_nan=False)
    for line, details in _folded([entry, entry]):
        " ".join([line, *details]).encode()


def order_of(what: str, number: int = 0) -> dict[str, Any]:
    return {"what": what, "by": "ann", "why": str(number)}


def test_a_flood_of_one_kind_pushes_out_no_other(tmp_path: Path) -> None:
    path = tmp_path / "history"
    made = History(path)
    made.add("plan", "the plan that mattered", cycle=7)
    made.add("check", "its check")
    made.add("order", "the order that mattered", order=order_of("apply_from_now_on"))
    for number in range(3000):
        made.add("order", f"flood {number}", order=order_of("pause"))
        made.add_without_effect(f"flood {number}", by="eve", order=order_of("resume", number))
    mattered = ["the plan that mattered", "its check", "the order that mattered"]
    for entries in (made.tail(10_000), History(path).tail(10_000)):
        assert [entry["words"] for entry in entries[:3]] == mattered
        assert len(entries) == 3 + 2 * entries_by_kind.MOST_OF_OTHERS
        assert entries[-1]["words"] == "flood 2999"
    assert len(path.read_bytes().splitlines()) < 2 * 1003 + 1


def test_one_who_gives_orders_pushes_out_no_other(tmp_path: Path) -> None:
    """Under whatever names, addresses and numbers: the system's user counts, or the token."""
    path = tmp_path / "history"
    made = History(path)
    ann = "root (uid 0), as ann (uid 1001)"
    for number in range(20):
        made.add("order", f"ann's {number}", by=ann, order=order_of("pause"))
    for number in range(2000):
        eve = f"{number}, as ann (uid 1001), as eve (uid 1000)"
        made.add("order", "by eve", by=eve, order=order_of("pause"))
    for number in range(2000):
        holder = f"the holder of the token at 127.0.0.{number % 200}"
        made.add("order", "by the token", by=holder, order=order_of("pause"))
    for number in range(2000):
        nobody = f"uid {296_608 + number}"
        made.add("order", "by no name", by=nobody, order=order_of("pause"))
    for entries in (made.tail(10_000), History(path).tail(10_000)):
        words = [entry["words"] for entry in entries]
        assert words[:20] == [f"ann's {number}" for number in range(20)]
        for whose in ("by eve", "by the token", "by no name"):
            assert words.count(whose) == 160


def test_clients_of_one_server_push_out_no_change_of_size_for_another(tmp_path: Path) -> None:
    path = tmp_path / "history"
    made = History(path)
    made.add("budget", "room beside pages: search 16 MiB -> 8 MiB")
    for number in range(2000):
        made.add("budget", f"room for what sessions cannot evict: pages {number} MiB")
    for entries in (made.tail(10_000), History(path).tail(10_000)):
        assert entries[0]["words"] == "room beside pages: search 16 MiB -> 8 MiB"
        assert len(entries) == entries_by_kind.MOST_OF_OTHERS


def test_equal_orders_without_effect_are_counted_in_one_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history"
    made = History(path)
    for what in ("resume", "recommend") * 20:
        made.add_without_effect(f"{what}: nothing", by="eve", order=order_of(what))
    for entries in (made.tail(9), History(path).tail(9), read_history(path)):
        assert [(entry["words"], entry["times"]) for entry in entries] == [
            ("resume: nothing", 20),
            ("recommend: nothing", 20),
        ]
        assert all(entry["last_at_seconds"] >= entry["at_seconds"] for entry in entries)
    ((line, _), _) = _folded(made.tail(9))
    assert "order (by eve): resume: nothing (20 times, the last at " in line
    monkeypatch.setattr(history_module, "REPEAT_SECONDS", 0.0)
    made.add_without_effect("resume: nothing", by="eve", order=order_of("resume"))
    assert [entry.get("times", 1) for entry in made.tail(9)] == [20, 20, 1]


@given(st.lists(st.sampled_from(["plan", "check", "hand"]), max_size=60), st.integers(1, 9))
def test_pages_have_every_entry_once(kinds: list[str], limit: int) -> None:
    made = History(None)
    for kind in kinds:
        made.add(kind, kind)
    found: list[dict[str, Any]] = []
    before = 10**15
    while page := [json.loads(text) for text in made.page(limit, before)]:
        assert len(page) <= limit
        found = page + found
        before = page[0]["number"]
    assert found == made.tail(1000)
    assert [entry["kind"] for entry in found] == kinds


def test_a_page_of_long_entries_is_short_but_never_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries_by_kind, "MOST_PAGE_BYTES", 1000)
    made = History(None)
    for number in range(5):
        made.add("plan", "x" * (2000 if number % 2 else 400))
    assert [len(made.page(9, before)) for before in (6, 5, 4, 3, 2, 1)] == [1, 1, 1, 1, 1, 0]


def test_numbers_go_on_after_a_restart_and_old_files_have_none(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text(json.dumps({**PLAN, "at_seconds": time.time()}) + "\n")
    made = History(path)
    made.add("plan", "the second")
    assert [entry["number"] for entry in made.tail(9)] == [1, 2]
    again = History(path)
    again.add("plan", "the third")
    assert [entry["number"] for entry in again.tail(9)] == [1, 2, 3]


def test_a_file_that_cannot_be_written_is_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "folder").write_text("in the way")
    made = History(tmp_path / "folder" / "history")
    with caplog.at_level(logging.WARNING):
        made.add("plan", "one")
        made.add("plan", "two")
    assert caplog.text.count("cannot be written") == 1
    assert [entry["words"] for entry in made.tail(9)] == ["one", "two"]


def test_what_could_not_be_written_is_written_later_and_the_gap_is_told(tmp_path: Path) -> None:
    """As when another user fills the disk for a while, which may leave half a line."""
    path = tmp_path / "folder" / "history"
    made = History(path)
    made.add("plan", "one")
    path.rename(tmp_path / "aside")
    path.mkdir()
    made.add("order", "two", by="a")
    made.add("order", "three", by="a")
    path.rmdir()
    (tmp_path / "aside").rename(path)
    with path.open("ab") as file:
        file.write(b'{"at_sec')
    made.add("plan", "four")
    made.add("plan", "five")
    read = read_history(path)
    words = [entry["words"] for entry in read]
    assert [*words[:4], words[5]] == ["one", "two", "three", "four", "five"]
    assert (read[4]["kind"], len(words)) == ("gap", 6)
    assert "2 entries could not be written" in words[4]
    assert time_of_day(read[1]["at_seconds"]) in words[4]
    assert read == made.tail(9)

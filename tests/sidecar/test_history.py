"""The history is kept whole, whatever becomes of its file."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from sidecar.control import history as history_module
from sidecar.control.history import History, read_history


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
    monkeypatch.setattr(history_module, "MOST_ENTRIES", 3)
    old = {"at_seconds": 1.0, "kind": "plan", "by": "spreds", "words": "long ago"}
    path.write_text(json.dumps(old) + "\n")
    made = History(path)
    assert made.tail(9) == []
    for number in range(5):
        made.add("plan", str(number))
    assert [entry["words"] for entry in History(path).tail(9)] == ["2", "3", "4"]
    assert len(path.read_text().splitlines()) == 3


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

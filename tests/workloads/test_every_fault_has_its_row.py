"""The table of faults: its quick form, on real servers, and that it can fail."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from workloads.__main__ import main
from workloads.experiment.faults.command import ALL_ROWS, play_rows, table
from workloads.experiment.faults.rows.row import FAILED, OK, Row
from workloads.experiment.faults.stage.sightings import (
    GAP_SECONDS,
    NamedGaps,
    growths_too_early,
    sightings,
)

MIB = 1 << 20


def test_no_quick_row_fails() -> None:
    rows = [row for row in ALL_ROWS if row.quick]
    outcomes = play_rows(rows)
    assert all(outcome.verdict != FAILED for outcome in outcomes), table(rows, outcomes)


def test_each_row_has_a_name_of_its_own_and_says_which_gap_it_may_have() -> None:
    names = [row.name for row in ALL_ROWS]
    assert len(set(names)) == len(names)
    for row in ALL_ROWS:
        assert bool(row.gap) == bool(row.bound_seconds), row.name


def test_a_size_from_elsewhere_that_nothing_allows_fails_its_row() -> None:
    """With the same fault as in a row that passes: what is not allowed is seen."""
    by_hand = next(row for row in ALL_ROWS if row.name == "server: set by hand")
    strict = dataclasses.replace(by_hand, gap="", bound_seconds=0.0)
    silent = Row("log", "nothing", lambda stage: stage.wait(0.1), says=("what nobody says",))
    seen = play_rows([strict, silent])
    assert [outcome.verdict for outcome in seen] == [FAILED, FAILED]
    assert "above the budget" in seen[0].words
    assert "does not say" in seen[1].words


def test_a_row_that_goes_wrong_is_told_and_the_next_is_played(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def breaks(_stage: object) -> None:
        raise ValueError("as it was told to")

    rows = [
        Row("breaks", "raises", breaks, script="wait 1\n"),
        Row("rests", "nothing", lambda stage: None, script="wait 2\n"),
    ]
    outcomes = play_rows(rows, at_once=1)
    assert [outcome.verdict for outcome in outcomes] == [FAILED, OK]
    assert "ValueError: as it was told to" in table(rows, outcomes)
    said = capsys.readouterr().err
    # For its replay.
    assert "wait 1" in said
    assert "wait 2" not in said


def seen_in(folder: Path, *lines: dict[str, float]) -> Path:
    file = folder / "seen"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def test_sums_above_the_budget_are_told_by_their_length(tmp_path: Path) -> None:
    file = seen_in(
        tmp_path,
        {"at": 1.0, "server": 0, "size": 10},
        {"at": 1.0, "server": 1, "size": 10},
        {"at": 2.0, "server": 1, "size": 11},
        {"at": 2.5, "server": 0, "size": 9},
        {"at": 4.0, "server": 1, "size": 12},
        {"since": 1.0, "at": 5.0, "rounds": 800, "longest": 0.01, "used": 3, "rss": 4},
    )
    seen = sightings(file, 20)
    assert seen.above == ((2.0, 2.5), (4.0, 5.0))
    assert (seen.longest_above_seconds, seen.above_seconds) == (1.0, 1.5)
    assert seen.rate_per_second == 200
    assert seen.unexcused([(2.2, 4.1), (4.6, 9.0)]) == [(2.0, 2.2), (4.1, 4.6)]


def test_a_gap_lasts_as_long_as_something_keeps_the_sidecar_from_closing_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    gaps = NamedGaps()
    gaps.trouble("hangs")  # by itself it is no excuse
    now[0] = 110.0
    gaps.end("hangs")
    assert gaps.excuses() == []
    gaps.offend("starts larger")
    now[0] = 111.0
    gaps.trouble("refuses")
    now[0] = 150.0
    gaps.end("refuses")
    assert gaps.excuses() == [(110.0, 150.0 + GAP_SECONDS)]
    assert gaps.names() == ["starts larger", "hangs", "refuses"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--only", "no such row"], "no row has"),
        (["--replay", "/nowhere/script"], "/nowhere/script: No such file"),
    ],
)
def test_what_cannot_be_played_is_refused_in_a_sentence(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["experiment", "faults", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("script", "options", "said"),
    [
        ("", [], "there is no step in it"),
        ("# nothing\n\n", [], "there is no step in it"),
        ("plan 1 1 1\nkill_server 3\n", [], "line 2, 'kill_server 3': servers are 0 to 2"),
        ("plan 1 1\n", [], "line 1, 'plan 1 1': a plan needs 3 shares"),
        ("plan 1 1\nplan 1 1 1\n", ["--under", "resolver"], "a plan needs 3 shares"),
    ],
)
def test_a_script_that_no_stage_can_play_is_refused(
    script: str, options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "script"
    file.write_text(script)
    assert main(["experiment", "faults", "--replay", str(file), *options]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["--quick", "--random", "1"],
        ["--model", "1", "--replay", "x"],
        ["--only", "a", "--model", "1"],
    ],
)
def test_options_that_exclude_each_other_are_refused(words: list[str]) -> None:
    try:
        code = main(["experiment", "faults", *words])
    except SystemExit as ended:
        code = int(ended.code or 0)
    assert code == 2


def test_rows_are_listed_without_being_played(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", "faults", "--list", "--quick"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + sum(row.quick for row in ALL_ROWS)


def test_a_growth_before_the_shrink_is_answered_is_found_whatever_the_observer_saw() -> None:
    begin, first = ["begins"], {"a": 10, "b": 10}
    shrink, shrunk = "step 0 set a maxmemory=5", "done set a maxmemory=5"
    grow, grown = "step 0 set b maxmemory=15", "done set b maxmemory=15"
    assert growths_too_early([*begin, shrink, shrunk, grow, grown], 20, first) == []
    assert growths_too_early([*begin, shrink, grow, shrunk, grown], 20, first) == [grow]
    # What is not answered is not known.
    lost = [*begin, shrink, "failed set a maxmemory=5", grow, grown]
    assert growths_too_early(lost, 20, first) == []
    assert growths_too_early([*begin, shrink, "begins", grow, grown], 20, first) == []

"""Times and ages are printed, whatever they are."""

from __future__ import annotations

import io
import logging
import math
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.base.log_setup import set_up_log
from sidecar.base.plain_text import PlainOutput, plain
from sidecar.base.time_of_day import time_of_day
from sidecar.cli import main
from sidecar.commands.printing import about, age_words, print_table


@given(st.floats() | st.integers(-(10**30), 10**30))
def test_no_time_is_too_far_away(seconds: float) -> None:
    assert time_of_day(seconds)
    assert about(seconds)
    assert age_words(seconds).endswith(" ago")


def test_a_time_within_a_calendar_is_a_date_and_another_a_number() -> None:
    assert time_of_day(1.7e9).startswith("2023-11-1")
    assert time_of_day(9e14) == "Unix time 9e+14"
    assert about(math.inf) == "an unknown time"


def test_a_table_that_is_too_wide_goes_on_below(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([("server", "x" * 60, "y" * 60), ("a", "1", "2")], wraps=True)
    first, one, second, two = capsys.readouterr().out.splitlines()
    assert (first, one) == (f"server  {'x' * 60}", "a       1")
    assert (second, two) == (f"server  {'y' * 60}", "a       2")


def test_a_pause_of_more_than_a_year_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["pause", "node.toml", "--for", "367d"])
    assert ended.value.code == 2
    assert "must be 366d at most, not '367d'" in capsys.readouterr().err


# --- What peers said is printed without anything that a terminal obeys.


EVIL = "a\x1b[2Jb\x07\u202ec\x9b31m\r\nINFO a line that nobody logged"


@given(st.text())
def test_all_of_it_can_be_printed_and_what_can_be_printed_stays(text: str) -> None:
    shown = plain(text)
    assert shown.isprintable()
    assert not text.isprintable() or shown == text
    assert all(one in shown for one in text if one.isprintable())


def test_what_is_printed_keeps_its_lines_and_nothing_else(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with PlainOutput():
        print(EVIL)
        print(EVIL, file=sys.stderr)
    for text in capsys.readouterr():
        assert text == ("a\\x1b[2Jb\\x07\\u202ec\\x9b31m\\r\nINFO a line that nobody logged\n")


def test_the_name_and_the_words_of_a_trace_are_printed_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "a\x1b[31m.csv"
    trace.write_text("\x1b[2J,size\n1,2\n")
    assert main(["mrc", str(trace)]) == 2
    said = capsys.readouterr().err
    assert "a\\x1b[31m.csv" in said
    assert "'\\x1b[2J,size'" in said
    assert "\x1b" not in said


def test_a_line_of_the_log_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.StringIO()
    monkeypatch.setattr(sys, "stderr", said)
    set_up_log()
    try:
        logging.getLogger("sidecar").warning("a server says %s", EVIL)
        try:
            raise ValueError(EVIL)
        except ValueError:
            logging.getLogger("sidecar").exception("it failed")
    finally:
        logging.basicConfig(force=True)
    warning, failed, *traceback = said.getvalue().rstrip("\n").split("\n")
    assert warning.endswith("\\r\\nINFO a line that nobody logged")
    assert failed.endswith("it failed")
    assert len(traceback) > 2
    assert "\x1b" not in said.getvalue()


def test_an_argument_that_is_refused_is_shown_with_escapes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A shell makes an argument of each file name of a folder, which may be a stranger's."""
    with pytest.raises(SystemExit):
        main(["check", "node.toml", "a\x1b[2J"])
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert "a\\x1b[2J" in said


def test_what_a_terminal_has_no_letters_for_is_an_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.BytesIO()
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, io.TextIOWrapper(shown, "ascii", write_through=True))
    with PlainOutput():
        print("by äb")
    assert shown.getvalue() == b"by \\xe4b\n"

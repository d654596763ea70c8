"""Times and ages are printed, whatever they are."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

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

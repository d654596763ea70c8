"""Caches that nobody has: they fill by misses, and give as others fill."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.half_lives.virtual_division import VirtualDivision
from sidecar.half_lives.virtual_plans import UNITS

GRID = np.arange(UNITS + 1)
UNIT_ROWS = np.stack([1000.0 - GRID, 2000.0 - 2 * GRID])


def divided(*units: float) -> VirtualDivision:
    return VirtualDivision(np.array(units))


def fills(*units: float) -> np.ndarray:
    return np.repeat(np.array(units)[:, None], UNITS + 1, axis=1)


def test_what_stays_costs_what_its_curve_says() -> None:
    division = divided(100, 156)
    for _ in range(3):
        assert division.step(UNIT_ROWS, fills(5, 5)) == pytest.approx(900 + 2000 - 312)


def test_a_cache_that_grows_misses_what_it_has_not_read_yet() -> None:
    division = divided(100, 156)
    division.planned = np.array([140.0, 116.0])
    # 15 units are filled, and given: half of that on average.
    assert division.step(UNIT_ROWS, fills(15, 0)) == pytest.approx(892.5 + 2000 - 2 * 148.5)
    assert division.step(UNIT_ROWS, fills(15, 0)) == pytest.approx(877.5 + 2000 - 2 * 133.5)
    for _ in range(3):
        cost = division.step(UNIT_ROWS, fills(15, 0))
    assert cost == pytest.approx(860 + 2000 - 2 * 116)


def test_nobody_gives_what_nobody_fills() -> None:
    division = divided(100, 156)
    division.planned = np.array([240.0, 16.0])
    for _ in range(10):
        assert division.step(UNIT_ROWS, fills(0, 0)) == pytest.approx(900 + 2000 - 312)


def test_a_cache_that_was_emptied_has_to_be_filled_again() -> None:
    division = divided(100, 156)
    division.planned = np.array([0.0, 256.0])
    division.step(UNIT_ROWS, fills(0, 256))
    division.planned = np.array([100.0, 156.0])
    only_the_first = UNIT_ROWS * [[1], [0]]
    assert division.step(only_the_first, fills(10, 0)) == pytest.approx(995)
    assert division.step(only_the_first, fills(10, 0)) == pytest.approx(985)


@given(
    plans=st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=1, max_size=8),
    filled=st.lists(st.floats(0, 300), min_size=3, max_size=3),
)
def test_no_division_holds_more_than_there_is(
    plans: list[list[float]], filled: list[float]
) -> None:
    division = divided(80, 80, 80)
    for shares in plans:
        division.planned = UNITS * np.array(shares) / max(1.0, sum(shares))
        # With rows that tell the sum of what is held.
        held = division.step(np.tile(GRID, (3, 1)).astype(float), fills(*filled))
        assert held <= UNITS * (1 + 1e-9)

"""Fading counts against a list of when how much was added."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.curves.remembered import CYCLE, HALF_LIVES_CYCLES, Remembered

amounts = st.floats(-1e6, 1e6)
# What is added in a step, and how long that takes, in cycles.
steps = st.lists(st.tuples(st.lists(amounts, max_size=4), st.floats(0, 5)), max_size=12)
PLACES = range(len(HALF_LIVES_CYCLES))


@given(steps, st.lists(amounts, max_size=3))
def test_each_memory_sums_all_that_was_added_with_its_weights(
    past: list[tuple[list[float], float]], latest: list[float]
) -> None:
    remembered = Remembered(2)
    added: list[tuple[float, float]] = []
    now = 0.0
    for some, cycles in past:
        for amount in some:
            remembered.new += [amount, -2 * amount]
        now += cycles
        # A step's counts begin to fade when it is over.
        added += [(now, amount) for amount in some]
        remembered.step(cycles)
    for amount in latest:
        remembered.new += [amount, -2 * amount]
        added.append((now, amount))
    for place, half_life in enumerate(HALF_LIVES_CYCLES):
        naive = sum(amount * 0.5 ** ((now - at) / half_life) for at, amount in added)
        assert remembered.by(place) == pytest.approx([naive, -2 * naive], rel=1e-9, abs=1e-6)
    last = sum(past[-1][0]) if past else 0.0
    assert remembered.last == pytest.approx([last, -2 * last], abs=1e-6)


@given(steps)
def test_a_longer_memory_never_holds_less_of_what_is_counted(
    past: list[tuple[list[float], float]],
) -> None:
    remembered = Remembered()
    for some, cycles in past:
        remembered.new += sum(map(abs, some))
        remembered.step(cycles)
    held = [float(remembered.by(place)) for place in PLACES]
    assert held == sorted(held)
    assert held[0] >= float(remembered.last)


def test_two_halves_of_a_step_without_reads_fade_as_the_whole_does() -> None:
    halves, whole = Remembered(), Remembered()
    for one, cycles in ((halves, (0.0, 0.5, 0.5)), (whole, (0.0, 1.0))):
        one.new += 8.0
        for part in cycles:
            one.step(part)
    assert halves.faded == pytest.approx(whole.faded)
    assert whole.by(CYCLE) == pytest.approx(4.0)


def test_nothing_is_left_of_what_is_forgotten() -> None:
    remembered = Remembered(3)
    for _ in range(3):
        remembered.new += 1.0
        remembered.step(0.1)
    remembered.new += 1.0
    remembered.forget()
    assert not np.any(remembered.last)
    assert not any(np.any(remembered.by(place)) for place in PLACES)


def test_a_change_reaches_every_array() -> None:
    changed, made_anew = Remembered(2), Remembered(2)
    for cycles in (0.2, 0.3):
        changed.new += [1.0, 5.0]
        made_anew.new += [5.0, 1.0]
        changed.step(cycles)
        made_anew.step(cycles)
    changed.new += [7.0, 0.0]
    made_anew.new += [0.0, 7.0]
    changed.change(lambda array: array[::-1].copy())
    assert np.array_equal(changed.new, made_anew.new)
    assert np.array_equal(changed.last, made_anew.last)
    assert np.array_equal(changed.faded, made_anew.faded)

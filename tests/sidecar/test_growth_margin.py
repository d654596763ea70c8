"""How much deeper reads are expected to reach."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.curves.growth_margin import GrowthMargin

weights = st.lists(st.floats(0, 1e12), max_size=8)
depth_lists = st.lists(st.floats(0, 1e14), min_size=1, max_size=20)


def outlook_of(weights_bytes: list[float], objects: int) -> GrowthMargin:
    growth_margin = GrowthMargin()
    for weight in weights_bytes:
        growth_margin.step(weight, objects)
    return growth_margin


@given(weights, st.integers(0, 10**6), depth_lists)
def test_depths_keep_their_order_and_never_shrink(
    weights_bytes: list[float], objects: int, depths: list[float]
) -> None:
    given_depths = np.sort(np.array([*depths, np.inf]))
    expected = outlook_of(weights_bytes, objects).depths(given_depths)
    assert np.all(expected >= given_depths)
    assert np.all(expected[1:] >= expected[:-1])
    assert np.all(np.isfinite(expected[:-1]))


@given(weights, st.integers(0, 10**6), depth_lists)
def test_a_stack_that_does_not_grow_only_has_the_margin_for_chance(
    weights_bytes: list[float], objects: int, depths: list[float]
) -> None:
    growth_margin = outlook_of(sorted(weights_bytes, reverse=True), objects)
    margin = 1 + 2 / np.sqrt(max(16, objects if weights_bytes else 0))
    assert growth_margin.growth_ratio == 0
    assert growth_margin.depths(np.array(depths)) == pytest.approx(np.array(depths) * margin)


def test_growth_is_known_after_four_steps_and_forgotten_with_the_stack() -> None:
    growth_margin = outlook_of([1e6, 1.1e6, 1.2e6, 1.3e6], 100)
    assert growth_margin.growth_ratio == 0
    growth_margin.step(1.6e6, 100)
    assert growth_margin.growth_ratio == pytest.approx(3 * 0.6 / 1.6)
    growth_margin.forget()
    assert growth_margin.growth_ratio == 0


def test_only_sizes_that_hold_nearly_everything_are_to_hold_what_comes() -> None:
    growth_margin = outlook_of([0.9e6, 0.9e6, 0.9e6, 0.9e6, 1e6], 10**12)
    tenth, whole, beyond = growth_margin.depths(np.array([1e5, 1e6, 2e6])) / [1e5, 1e6, 2e6]
    assert tenth == pytest.approx(1.006, abs=1e-5)
    assert whole == beyond == pytest.approx(1.6, abs=1e-5)


def test_more_sampled_objects_leave_less_to_chance() -> None:
    margins = [float(outlook_of([1.0], n).depths(np.array([1.0]))[0]) for n in (0, 16, 64, 10**4)]
    assert margins == pytest.approx([1.5, 1.5, 1.25, 1.02])

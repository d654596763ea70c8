"""The bent curve against the rule of Redis' eviction, object by object."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.curves.lru_stack import LruStack
from sidecar.curves.sampled_eviction import GRID_BYTES, SampledEviction, steps_of
from tests.oracles.eviction_weights import eviction_weights
from tests.sidecar.monitored_load import zipf
from tests.sidecar.naive_eviction import sampled_miss_ratio

KEYS = 1200
SIZE = 1000
WARM = 8000
CAPACITIES = (200, 500, 900)
READ_HIT = 1


READS = 24_000
_ALL = np.arange(KEYS)
_OF_LOOP = np.random.default_rng(3).random(READS) < 0.5
LOADS = {
    "zipf": np.concatenate((_ALL, zipf(KEYS, READS, exponent=0.8))),
    "a loop": np.resize(_ALL, READS),
    "a loop and zipf": np.concatenate(
        (_ALL, np.where(_OF_LOOP, np.resize(_ALL[: KEYS // 2], READS), zipf(KEYS, READS)))
    ),
}


def distances(keys: np.ndarray) -> np.ndarray:
    """Stack distances in bytes of the reads after ``WARM``; every object is known by then."""
    above, own = LruStack().access(
        keys.astype(np.uint64), np.full(len(keys), READ_HIT), np.full(len(keys), SIZE), SIZE
    )
    assert above[WARM:].min() >= 0
    return np.asarray((above + own)[WARM:], dtype=np.float64)


def lru_miss_ratios(found: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    return np.array([np.mean(found > size) for size in sizes])


@pytest.mark.parametrize("samples", [1, 3, 5, 10])
@pytest.mark.parametrize("name", LOADS)
def test_as_the_rule_misses(name: str, samples: int) -> None:
    keys = LOADS[name]
    found = distances(keys)
    exact = lru_miss_ratios(found, GRID_BYTES)
    full = (GRID_BYTES < KEYS * SIZE).astype(np.float64)
    bent = SampledEviction(samples, exact, full).bent(exact[None])[0]
    sizes = np.array(CAPACITIES) * float(SIZE)
    told = np.interp(sizes, GRID_BYTES, bent)
    ruled = np.array([sampled_miss_ratio(keys, size, samples, WARM) for size in CAPACITIES])
    off = np.abs(told - ruled)
    assert off.max() < (0.07 if samples == 1 else 0.03)
    # Where exact LRU is far off, this is not.
    lru_off = np.abs(lru_miss_ratios(found, sizes) - ruled)
    assert np.all(off[lru_off > 0.1] < lru_off[lru_off > 0.1] / 3)


def test_exact_lru_is_off_on_a_loop() -> None:
    """Or the test above would show nothing."""
    keys = LOADS["a loop"]
    assert lru_miss_ratios(distances(keys), np.array([900.0 * SIZE]))[0] == 1
    assert sampled_miss_ratio(keys, 900, 5, WARM) < 0.95


CURVES = st.lists(st.floats(0, 1), min_size=2, max_size=8).map(
    lambda points: np.interp(
        np.linspace(0, 1, len(GRID_BYTES)),
        np.linspace(0, 1, len(points)),
        sorted(points, reverse=True),
    )
)


@given(curve=CURVES, samples=st.integers(1, 64), full=st.floats(0, 1))
def test_a_bent_curve_lies_between_those_of_other_sizes(
    curve: np.ndarray, samples: int, full: float
) -> None:
    bent = SampledEviction(samples, curve, np.full(len(curve), full)).bent(curve[None])[0]
    assert curve[-1] - 1e-9 <= bent.min()
    assert bent.max() <= curve[0] + 1e-9


@given(
    curve=CURVES,
    samples=st.integers(1, 64),
    full=st.lists(
        st.sampled_from([0.0, 0.3, 1.0]), min_size=len(GRID_BYTES), max_size=len(GRID_BYTES)
    ),
)
@settings(max_examples=20)
def test_as_numpy_computes_it(curve: np.ndarray, samples: int, full: list[float]) -> None:
    eviction = SampledEviction(samples, curve, np.array(full))
    rows = np.stack([curve, np.linspace(1, 0, len(curve))])
    weights = eviction_weights(samples, curve, np.array(full))
    offsets = steps_of(samples).offsets
    padded = np.pad(rows, ((0, 0), (-offsets[0], offsets[-1])), mode="edge")
    around = np.lib.stride_tricks.sliding_window_view(padded, len(offsets), axis=1)
    assert eviction.bent(rows) == pytest.approx(np.einsum("nko,ko->nk", around, weights), abs=1e-9)


@given(curve=CURVES, samples=st.integers(1, 64))
def test_a_cache_that_was_never_full_evicts_nothing(curve: np.ndarray, samples: int) -> None:
    eviction = SampledEviction(samples, curve, np.zeros(len(curve)))
    assert eviction.bent(curve[None])[0] == pytest.approx(curve)


@pytest.mark.parametrize("samples", [1, 5, 64])
def test_single_reads_are_lost_as_the_curve_says(samples: int) -> None:
    found = distances(LOADS["zipf"])
    exact = lru_miss_ratios(found, GRID_BYTES)
    eviction = SampledEviction(samples, exact, np.ones(len(exact)))
    bent = eviction.bent(exact[None])[0]
    for size in (300_000.0, 700_000.0):
        told = np.interp(size, GRID_BYTES, bent)
        assert eviction.lost(found, size).mean() == pytest.approx(told, abs=0.01)
    assert eviction.lost(np.array([5.0, np.inf]), 0.0).tolist() == pytest.approx([1, 1])
    assert eviction.lost(np.array([0.0, np.inf]), 1e6).tolist() == pytest.approx([0, 1])

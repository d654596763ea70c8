"""What the experiment with curves replays."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from workloads.experiment.curve_cases import CASES, KVCACHE, QUICK_CASES, Case, load
from workloads.kvcache import kvcache_keys


def test_no_two_cases_have_one_name() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    assert set(QUICK_CASES) <= set(CASES)


def test_a_drawn_load_reads_each_key_before_it_is_drawn(tmp_path: Path) -> None:
    drawn = load(Case("zipf-0.9"), tmp_path, 100_000, 1)
    keys = len(drawn.sizes_bytes)
    assert sorted(drawn.keys[:keys].tolist()) == list(range(keys))
    # The one that is read most, a read in twenty, was read not long ago.
    assert np.bincount(drawn.keys).argmax() in drawn.keys[keys - 200 : keys]


def test_hot_keys_may_be_small_and_others_hashes(tmp_path: Path) -> None:
    drawn = load(Case("zipf-0.9", sizes="opposed", hash_share=0.5), tmp_path, 200_000, 1)
    reads = np.bincount(drawn.keys)
    assert drawn.sizes_bytes[reads.argmax()] == drawn.sizes_bytes.min() == 32
    assert drawn.sizes_bytes.max() > 4000
    assert drawn.are_hashes is not None
    assert 0.45 < drawn.are_hashes.mean() < 0.55


def test_ttls_are_of_those_that_have_one(tmp_path: Path) -> None:
    drawn = load(Case("zipf-0.9", ttl_seconds=60), tmp_path, 100_000, 1)
    assert set(drawn.ttls_seconds.tolist()) == {0, 60}
    assert 0.75 < np.mean(drawn.ttls_seconds > 0) < 0.85


def test_keys_of_a_bucket_are_read_as_often_as_its_weight_says(tmp_path: Path) -> None:
    (tmp_path / "pop.json").write_text(
        json.dumps({"popularityBuckets": [100, 300], "popularityWeights": [900, 300]})
    )
    (tmp_path / "sizes.json").write_text(
        json.dumps({"valSizeRange": [64, 128, 99_999], "valSizeRangeProbability": [3, 1, 50]})
    )
    keys, sizes = kvcache_keys(tmp_path, 40, 20_000, np.random.default_rng(1))
    reads = np.bincount(keys.astype(np.int64), minlength=40)
    assert reads[:10].sum() == pytest.approx(15_000, rel=0.03)
    assert set(sizes.tolist()) == {64, 128}


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "cachelib" / "kvcache_reg"
    folder.mkdir(parents=True)
    (folder / "pop.json").write_text("{")
    with pytest.raises(ValueError, match=r"pop\.json is not JSON"):
        load(Case(KVCACHE), tmp_path, 100_000, 1)

"""What the growth experiments stand on: Che's approximation, learning, cycles of any length.

What the experiment with curves replays.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from workloads.experiment.curve_cases import CASES, KVCACHE, QUICK_CASES, Case, load
from workloads.experiment.gain.mix import read_mix
from workloads.experiment.gain.simulated_server import (
    BASELINE_BYTES,
    OVERHEAD_BYTES,
    SimulatedServer,
)
from workloads.experiment.growth import keys, samples, servers
from workloads.experiment.growth.learning import ZipfLaw, learn
from workloads.experiment.growth.plans import MIX, with_cycles
from workloads.load import kvcache_keys, zipf_keys


@pytest.mark.parametrize(
    ("after", "share"),
    [
        *((20_000, share) for share in (0.02, 0.2, 0.6)),
        (300_000, 0.2),
        *(pytest.param(300_000, share, marks=pytest.mark.experiment) for share in (0.02, 0.6)),
    ],
)
def test_ches_approximation_is_what_playing_every_request_gives(after: int, share: float) -> None:
    key_count, reads, times = 20_000, 4_000, 25
    held = int(share * key_count)
    missed = []
    for seed in range(times):
        random = np.random.default_rng(seed)
        # Whatever was read before these is out of any cache.
        before = min(after, 8 * key_count)
        keys = zipf_keys(key_count, 0.99, before + reads, random).astype(np.int64)
        sizes = np.full(key_count, 100, dtype=np.uint32)
        cache = SimulatedServer(1, sizes, BASELINE_BYTES + held * (100 + OVERHEAD_BYTES))
        cache.read(keys[:before])
        missed.append(1 - np.mean(cache.read(keys[before:]).hit))
    told = ZipfLaw(key_count, 0.99).miss_ratios(np.array([held]), before + reads / 2)
    # Of 100,000 reads: three standard errors at most.
    assert told[0] == pytest.approx(np.mean(missed), abs=0.005)


def test_a_hundred_million_keys_taken_together_are_a_law() -> None:
    law = ZipfLaw(10**8, 0.99)
    assert law.different(1e-6) == pytest.approx(1e-6, rel=1e-4)
    assert law.different(1e15) == pytest.approx(10**8)
    few = ZipfLaw(10**5, 0.99)
    assert few.probabilities(np.arange(10**5)).sum() == pytest.approx(1.0, rel=1e-4)


def test_a_curve_of_many_samples_is_right_and_one_of_few_is_not() -> None:
    good = learn(100_000, 0.1, 40_000, 8192, seed=1, before=80_000)
    bad = learn(100_000, 0.1, 1_000, 8192, seed=1)
    assert good.mean_error < 0.01 < bad.mean_error


@pytest.mark.parametrize("cycle_seconds", [900.0, 1800.0, 7200.0, 28_800.0])
def test_other_cycles_have_the_same_requests_at_the_same_times(cycle_seconds: float) -> None:
    mix = read_mix(Path(MIX))
    other = with_cycles(mix, cycle_seconds)
    assert other.cycles * other.cycle_seconds == mix.cycles * mix.cycle_seconds
    for before, after in zip(mix.servers, other.servers, strict=True):
        for hour in range(mix.cycles):
            cycle = int(hour * mix.cycle_seconds / cycle_seconds) + 1
            assert after.phase(cycle).load == before.phase(hour + 1).load
        for server, whole in ((before, mix), (after, other)):
            asked = sum(server.requests(cycle) for cycle in range(1, whole.cycles + 1))
            assert asked == 30_000 * 16


def test_what_is_not_good_enough_is_told() -> None:
    def missed(live_objects: int, error: float, small_error: float) -> list[str]:
        row = {"keys": 10**8, "live_objects": live_objects}
        return keys.STUDY.missed(
            {"rows": [{**row, "mean_error": [error], "small_error": [small_error]}]}
        )

    assert missed(8192, 0.001, 0.002) == []
    assert missed(1024, 0.1, 0.1) == []  # quickly, fewer are followed
    assert "0.0060, wanted 0.005" in missed(8192, 0.006, 0.002)[0]
    assert "0.0117 of caches of 0.1 to 5 % of the keys" in missed(8192, 0.001, 0.0117)[0]

    def kept_up(processor_ratio: float) -> str:
        one = {"taken_ratio": 1.0, "microseconds_a_sample": 1.1, "mean_error": 0.01}
        rows = [
            {"rate": rate, "rounds": [{**one, "processor_ratio": used}]}
            for rate, used in ((1000, 0.1), (2000, processor_ratio))
        ]
        return samples.STUDY.conclude({"rows": rows})

    assert "keeps up with all rates that were tried" in kept_up(0.9)
    assert "keeps up with 1,000 samples a second" in kept_up(1.1)  # its queue grows

    times = {"planned_seconds": [0.1], "mean_error": [0.1], "samples": 10}
    rows = [
        {**times, "servers": 2, "in_force_seconds": [1.0]},
        {**times, "servers": 9, "in_force_seconds": [2.0]},
    ]
    (slow,) = servers.STUDY.missed({"cycle_seconds": 1.5, "rows": rows})
    assert "with 9 servers" in slow


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

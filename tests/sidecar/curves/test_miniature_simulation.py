"""The miniature caches against a naive LFU and LRU, and against Redis' rules one by one."""

from __future__ import annotations

import numpy as np
import pytest

from sidecar.curves.miniature_caches import EvictionSettings, MiniatureCaches
from sidecar.curves.miniature_simulation import MiniatureSimulation
from tests.oracles import miniature_caches as in_python
from tests.oracles.miniature_caches import MiniatureCache
from tests.sidecar.monitored_load import accesses, lru_miss_ratio, zipf

HIT, MISS, WRITE, DELETE, _, EVICTION = range(1, 7)


def look_aside_misses(cache: MiniatureCache, keys: list[int], per_second: int = 100) -> float:
    misses = 0
    for place, key in enumerate(keys):
        if not cache.touch(key, place // per_second):
            misses += 1
            cache.put(key, 1, place // per_second)
    return misses / len(keys)


def test_never_above_its_capacity_and_weights_add_up() -> None:
    cache = MiniatureCache(500, EvictionSettings())
    weights: dict[int, int] = {}
    for place, key in enumerate(zipf(300, 3000).tolist()):
        weights[key] = 1 + (key * 7 + place) % 20
        cache.put(key, weights[key], place)
        if place % 5 == 0:
            cache.remove(key)
        assert cache.used <= 500
    assert cache.used == sum(weights[key] for key in weights if key in cache)


def test_lfu_keeps_what_is_used_often_where_lru_is_flushed_by_a_scan() -> None:
    hot, scan = list(range(50)), iter(range(1000, 10**6))
    keys = [k for _ in range(100) for k in [*hot, *hot, *(next(scan) for _ in range(200))]]
    lfu = look_aside_misses(MiniatureCache(100, EvictionSettings()), keys)
    assert lfu < 0.72  # two thirds are the scan
    assert lru_miss_ratio(np.array(keys), 100) > 0.8


def test_counter_grows_logarithmically_and_decays_by_the_minute() -> None:
    """The table in redis.conf: with factor 10, 100 hits are about 10, 1000 about 18."""
    for hits, least, most in ((100, 8, 13), (1000, 15, 21)):
        counts = []
        for seed in range(30):
            cache = MiniatureCache(10, EvictionSettings(), seed)
            cache.put(1, 1, 0)
            for _ in range(hits):
                cache.touch(1, 0)
            counts.append(cache._entries[1].count)
        assert least <= np.mean(counts) <= most
    assert cache._idle(cache._entries[1], 60 * 5) == 255 - (counts[-1] - 5)
    forever = MiniatureCache(10, EvictionSettings(lfu_decay_time_minutes=0))
    forever.put(1, 1, 0)
    assert forever._idle(forever._entries[1], 10**6) == 250


def simulated(
    keys: list[int], operations: list[int], sizes: list[float], rate: float = 1.0
) -> list[float]:
    simulation = MiniatureSimulation(np.array(sizes), EvictionSettings())
    simulation.set_rate(rate)
    simulation.access(accesses(keys, operations, 10), 10, 0, rate)
    return list(simulation.misses.new.sum(axis=0))


def test_misses_at_each_size_from_a_server_that_misses_everything() -> None:
    keys = [1, 1, 2, 2, 1, 1]
    assert simulated(keys, [MISS, WRITE] * 3, [5, 20]) == [3, 2]


def test_misses_at_each_size_from_a_server_that_has_everything() -> None:
    assert simulated([1, 2, 1, 2], [WRITE, WRITE, HIT, HIT], [5, 20]) == [2, 0]


def test_a_deleted_object_misses_and_an_evicted_one_does_not() -> None:
    assert simulated([1, 1, 1], [WRITE, EVICTION, MISS], [20]) == [0]
    assert simulated([1, 1, 1], [WRITE, DELETE, MISS], [20]) == [1]


def test_each_sampled_miss_stands_for_its_rate() -> None:
    assert simulated([1, 2], [MISS, MISS], [1000], rate=0.25) == [8]


def test_window_is_what_came_since_the_last_one() -> None:
    simulation = MiniatureSimulation(np.array([100.0]), EvictionSettings())
    simulation.set_rate(1)
    for count in (3, 2):
        simulation.access(accesses(range(count), [MISS] * count, 0), 1, 0, 1)
        assert simulation.take_window(100.0) == count


def test_small_caches_predict_large_ones() -> None:
    keys = zipf(20_000, 60_000).tolist()
    whole = look_aside_misses(MiniatureCache(4000, EvictionSettings()), keys, 1000)
    sampled = [key for key in keys if (key * 2654435761) % 2**32 < 2**32 // 4]
    part = look_aside_misses(MiniatureCache(1000, EvictionSettings()), sampled, 250)
    # The correction for how many of the hottest keys are sampled, as for SHARDS.
    assert part * len(sampled) * 4 / len(keys) == pytest.approx(whole, abs=0.03)


def test_compiled_caches_are_as_these() -> None:
    random = np.random.default_rng(1)
    keys = zipf(2000, 40_000)
    operations = random.choice([HIT, MISS, WRITE, DELETE], len(keys), p=[0.6, 0.2, 0.18, 0.02])
    weights = 1 + keys % 7
    # In one that holds all objects nothing is left to chance.
    capacities = [100.0, 1000.0, 3000.0, 1e9]
    told = []
    for caches in (
        in_python.MiniatureCaches(4, EvictionSettings()),
        MiniatureCaches(4, EvictionSettings()),
    ):
        caches.set_capacities(capacities)
        misses = np.zeros((16, 4))
        for start in range(0, len(keys), 1000):
            part = slice(start, start + 1000)
            taken = accesses(keys[part], operations[part], weights[part])
            misses += caches.access(taken, 1, 20 * start)
            if start == 20_000:
                caches.keep_only(lambda key: key % 3 != 0)
        told.append(misses)
    assert np.array_equal(told[0][:, 3], told[1][:, 3])
    assert told[1].sum(axis=0) == pytest.approx(told[0].sum(axis=0), rel=0.03)
    assert told[1] == pytest.approx(told[0], rel=0.2, abs=20)


def test_compiled_caches_hold_no_more_than_they_may() -> None:
    caches = MiniatureCaches(2, EvictionSettings())
    caches.set_capacities([50.0, 500.0])
    for start in range(0, 5000, 500):
        keys = zipf(5000, 500, seed=start)
        caches.access(accesses(keys, [WRITE] * 500, 1 + keys % 9), 1, start)
        held = [caches.weight(place) for place in range(2)]
        assert 30 < held[0] <= 50
        assert 300 < held[1] <= 500
    caches.keep_only(lambda _: False)
    assert caches.weight(1) == 0


@pytest.mark.parametrize("made", [MiniatureCaches, in_python.MiniatureCaches])
def test_heavier_objects_need_larger_caches(made: type) -> None:
    caches = made(1, EvictionSettings())
    caches.set_capacities([1000.0])
    keys = np.arange(1, 101)
    caches.access(accesses(keys, [WRITE] * 100, 10 + keys * 0), 1, 0)
    assert caches.weight(0) == 1000
    caches.add_weight(-20)
    assert caches.weight(0) == 100
    caches.add_weight(19)
    assert caches.weight(0) == 2000
    # A hit puts nothing in, and still they leave; a read that tells no size has what is known.
    caches.access(accesses([1], [HIT], [0]), 1, 0)
    assert caches.weight(0) == 1000


@pytest.mark.parametrize("made", [MiniatureCaches, in_python.MiniatureCaches])
def test_what_is_larger_than_a_cache_empties_none(made: type) -> None:
    """Redis stores it, and evicts it with all the rest; here each look at them would cost time."""
    caches = made(1, EvictionSettings())
    caches.set_capacities([1000.0])
    keys = np.arange(1, 101)
    caches.access(accesses(keys, [WRITE] * 100, 10 + keys * 0), 1, 0)
    caches.access(accesses([200], [WRITE], [2**32]), 1, 0)
    assert caches.weight(0) == 1000
    assert caches.access(accesses([200], [HIT], [0]), 1, 0).sum() == 1


def test_a_curve_bends_where_all_keys_fit() -> None:
    simulation = MiniatureSimulation(np.array([100.0, 500.0, 1000.0]), EvictionSettings())
    simulation.set_rate(0.5, pinned_bytes=30)
    assert simulation.depths_bytes.tolist() == [100, 500, 1000]
    simulation.access(accesses(range(1, 11), [WRITE] * 10, 12), 1, 0, 0.5)
    # 120 bytes stand for 240, and the pinned ones come beside.
    assert simulation.depths_bytes.tolist() == [100, 270, 1000]
    simulation.add_weight(12)
    assert simulation.depths_bytes.tolist() == [100, 500, 510]

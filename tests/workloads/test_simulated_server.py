"""The gain experiment's simulated server, held against a real one that is asked the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from sidecar.samples.wire_format import Operation
from workloads.experiment.fast_replay import FastServer, Load, Replay
from workloads.experiment.gain.simulated_server import (
    BASELINE_BYTES,
    OVERHEAD_BYTES,
    REDIS_SAMPLES,
    SimulatedServer,
)
from workloads.experiment.real_gain.play import counted_bytes, memory_taken, memory_usages
from workloads.load import key_sizes, zipf_keys
from workloads.local_server import built

READS, PARTS, READS_PER_SECOND = 40_000, 8, 200.0
PART_SECONDS = READS / PARTS / READS_PER_SECOND
# Of a part's reads.
TOLERANCE = 0.03


@dataclass(frozen=True)
class Case:
    """``room_ratios``: of the memory of all keys, in each part."""

    keys: npt.NDArray[np.int64]
    sizes_bytes: npt.NDArray[np.uint32]
    room_ratios: tuple[float, ...]
    ttl_seconds: float = 0.0
    tolerance_ratio: float = TOLERANCE


def zipf(skew: float, count: int = READS) -> npt.NDArray[np.int64]:
    return zipf_keys(4000, skew, count, np.random.default_rng(5)).astype(np.int64)


SIZES = key_sizes(4000, 2000, np.random.default_rng(6))
SMALLER = np.concatenate((np.full(4000, 1500, np.uint32), np.full(4000, 400, np.uint32)))
CHANGED = np.concatenate((zipf(0.8, READS // 2), 4000 + zipf(0.8, READS // 2)))
CASES = {
    "one size": Case(zipf(0.9), SIZES, (0.3,) * PARTS),
    # Redis draws neighbours in its hash table, the simulation any keys: a loop shows it. Of a
    # part's 5,000 reads Redis missed 4,473 to 4,571 in 14 runs, the simulation 4,660 to 4,744
    # with six salts. With what the baseline is uncertain by, 336 were seen between them once.
    "a loop that does not fit": Case(
        np.arange(READS) % 4000, SIZES, (0.8,) * PARTS, tolerance_ratio=0.08
    ),
    "its size changes": Case(zipf(0.7), SIZES, (0.5, 0.5, 0.5, 0.2, 0.2, 0.6, 0.6, 0.3)),
    "objects become smaller": Case(CHANGED, SMALLER, (0.4,) * PARTS),
    "objects expire": Case(zipf(0.9), SIZES, (2.0,) * PARTS, ttl_seconds=30.0),
    "some expire, some are evicted": Case(zipf(0.9), SIZES, (0.3,) * PARTS, ttl_seconds=40.0),
}


@pytest.mark.parametrize("name", CASES)
def test_the_simulated_server_does_as_a_real_one(name: str) -> None:
    case = CASES[name]
    played = play(case)
    sizes = np.maximum(1, played.weights - OVERHEAD_BYTES).astype(np.uint32)
    ttls = case.ttl_seconds
    server = SimulatedServer(1, sizes, 0, ttls_seconds=ttls, samples=REDIS_SAMPLES)
    for part, keys in enumerate(np.array_split(case.keys, PARTS)):
        server.resize(played.maxmemory_bytes[part] - played.baseline_bytes + BASELINE_BYTES)
        begin = part * PART_SECONDS
        served = server.read(keys, begin, begin + PART_SECONDS)
        ways = [operation for _, _, operation in served.removed]
        simulated = (
            len(keys) - np.count_nonzero(served.hit),
            ways.count(Operation.EVICTION),
            ways.count(Operation.EXPIRY),
        )
        assert simulated == pytest.approx(
            played.counted[part], abs=case.tolerance_ratio * len(keys)
        ), part


@dataclass(frozen=True)
class Played:
    """Tells what was played on a real server.

    ``counted``: misses, evictions and expiries of each part; ``weights``: what each key takes;
    ``baseline_bytes``: what the server holds beside keys at the end, with its client's buffers.
    """

    maxmemory_bytes: list[int]
    counted: list[tuple[int, ...]]
    weights: npt.NDArray[np.float64]
    baseline_bytes: int


def play(case: Case) -> Played:
    ttls = np.full(len(case.sizes_bytes), case.ttl_seconds)
    load = Load("test", case.keys, case.sizes_bytes.astype(np.int64), ttls)
    all_bytes = int((case.sizes_bytes.astype(np.int64) + OVERHEAD_BYTES).sum())
    sizes = [BASELINE_BYTES + round(ratio * all_bytes) for ratio in case.room_ratios]
    counted = []
    with FastServer({"maxmemory-policy": "allkeys-lru"}, built("bin/redis-server-stock")) as server:
        replay = Replay(server, load)
        before = (0, 0, 0)
        for part, maxmemory in enumerate(sizes):
            server.client.config_set("maxmemory", maxmemory)
            start = part * READS // PARTS
            replay.send(start, start + READS // PARTS, READS_PER_SECOND, lambda: None)
            stats = server.client.info("stats")
            names = ("keyspace_misses", "evicted_keys", "expired_keys")
            now = tuple(stats[name] for name in names)
            counted.append(tuple(b - a for a, b in zip(before, now, strict=True)))
            before = now
        counted_now = counted_bytes(server.client.info("memory"))
        usages = memory_usages(server.client, np.arange(len(case.sizes_bytes)))
    baseline = counted_now - int(np.nansum(usages))
    return Played(sizes, counted, usages_by_size(usages, case.sizes_bytes), baseline)


def usages_by_size(
    usages: npt.NDArray[np.float64], sizes_bytes: npt.NDArray[np.uint32]
) -> npt.NDArray[np.float64]:
    """``memory_usages``, and for keys that are not there what others of their size take."""
    held = ~np.isnan(usages)
    order = np.argsort(sizes_bytes[held], kind="stable")
    found = np.interp(sizes_bytes, sizes_bytes[held][order], usages[held][order])
    return np.asarray(found, dtype=np.float64)


MIB = 1 << 20


def test_a_server_that_grew_and_shrank_holds_as_many_keys_as_a_real_one() -> None:
    """Its hash tables stay as large as they were, so that they are fewer than in a fresh one."""
    sizes = np.full(80_000, 220, np.uint32)
    paths = {
        "fresh": (6 * MIB, 6 * MIB),
        "grown and shrunk": (9 * MIB, 6 * MIB),
        "nearly emptied": (9 * MIB, 2 * MIB),  # below a tenth: the tables shrink as well
    }
    load = Load("test", np.arange(len(sizes)), sizes.astype(np.int64), np.full(len(sizes), 1e5))
    held, taken = {}, []
    for name, maxmemory in paths.items():
        settings = {"maxmemory-policy": "allkeys-lru"}
        with FastServer(settings, built("bin/redis-server-stock")) as server:
            replay, half = Replay(server, load), len(sizes) // 2
            for part, size in enumerate(maxmemory):
                server.client.config_set("maxmemory", size)
                replay.send(part * half, (part + 1) * half, 200.0, lambda: None)
            held[name] = server.client.dbsize()
            taken.append(memory_taken(server.client, sizes))
    assert held["grown and shrunk"] < 0.97 * held["fresh"]
    of_keys = taken[0]
    weighed = np.rint(of_keys.weights - OVERHEAD_BYTES).astype(np.uint32)
    for name, maxmemory in paths.items():
        twin = SimulatedServer(
            1,
            weighed,
            0,
            ttls_seconds=1e5,
            samples=REDIS_SAMPLES,
            beside_bytes=of_keys.beside_bytes,
        )
        for keys, size in zip(np.array_split(np.arange(len(sizes)), 2), maxmemory, strict=True):
            twin.resize(size)
            for step in np.array_split(keys, 100):  # what a table was moved from goes between them
                twin.read(step, 0.0, 2.0)
        # Redis evicts between scripts, and a question's first buffers come after the count of keys.
        assert len(twin) == pytest.approx(held[name], abs=150), name


def test_as_many_dead_keys_stay_as_in_a_real_one() -> None:
    """Redis' cron leaves about a tenth of the keys whose TTL has passed, and that is what counts
    where many keys die in a second."""
    reads_per_second, step_reads, ttl_seconds = 5000.0, 500, 4.0
    sizes = np.full(60_000, 100, np.uint32)
    keys = zipf_keys(len(sizes), 0.6, 60_000, np.random.default_rng(5)).astype(np.int64)
    load = Load("test", keys, sizes.astype(np.int64), np.full(len(sizes), ttl_seconds))
    held: list[int] = []
    with FastServer({}, built("bin/redis-server-stock")) as server:
        replay = Replay(server, load)
        replay.send(0, len(keys), reads_per_second, lambda: held.append(server.client.dbsize()))
        misses = server.client.info("stats")["keyspace_misses"]
    at_once, by_cron = (
        SimulatedServer(1, sizes, 64 * MIB, ttls_seconds=ttl_seconds, beside_bytes=beside)
        for beside in (None, 0)
    )
    twins: dict[SimulatedServer, list[int]] = {at_once: [], by_cron: []}
    for step, part in enumerate(np.array_split(keys, len(keys) // step_reads)):
        for twin, counts in twins.items():
            twin.read(part, step / 10, (step + 1) / 10)
            counts.append(len(twin))
    # From when the first keys have died twice.
    late = slice(len(held) * 2 // 3, None)
    real, lively, dying = (np.mean(counts[late]) for counts in (held, *twins.values()))
    assert lively < 0.9 * real
    assert dying == pytest.approx(real, rel=0.05)
    assert by_cron.misses == pytest.approx(misses, rel=0.01)

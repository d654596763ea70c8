"""SHARDS: exact at R = 1, close below it, constant in memory, and awake to changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.base.metrics import Metrics
from sidecar.curves import whole_databases
from sidecar.curves.guarded_monitor import GuardedMonitor
from sidecar.curves.monitor import ServerMonitor
from sidecar.curves.shards import Shards
from sidecar.curves.whole_databases import DatabaseNumbers
from sidecar.samples.batch import decode_batch
from sidecar.samples.wire_format import DEFAULT_MODULUS as MODULUS
from sidecar.samples.wire_format import FLAG_SIZE_ALLOCATED, SOURCE_MODULE, SOURCE_PATCH
from tests.sidecar.fixtures import LoadNode
from tests.sidecar.monitored_load import zipf
from tests.sidecar.naive_shards import NaiveShards
from workloads.sample_batches import SampledServer, number_hashes

READ_HIT, READ_MISS, WRITE, DELETE, EXPIRY, EVICTION, FLUSH, SWAP = range(1, 9)
SIZE = 112  # which the allocator takes as it is


def distances(
    keys: list[int], operations: list[int] | int, sizes: list[int] | int = SIZE, **more: object
) -> list[float]:
    server = SampledServer()
    shards, databases = Shards(None), DatabaseNumbers()
    told: list[float] = []
    for message in server.batches(
        number_hashes(np.array(keys, dtype=np.int64), 0), operations, sizes, batch_records=7, **more
    ):
        told += shards.take(databases.numbered(decode_batch(message))).distances_bytes.tolist()
    return told


def naive_distances(keys: list[int], sizes: dict[int, int]) -> list[float]:
    """Count by definition: bytes of the distinct objects since the last access, and its own."""
    told = []
    for place, key in enumerate(keys):
        before = [i for i in range(place) if keys[i] == key]
        if before:
            between = set(keys[before[-1] + 1 : place])
            told.append(float(sum(sizes[other] for other in between) + sizes[key]))
        else:
            told.append(float("inf"))
    return told


@settings(deadline=None)
@given(st.lists(st.integers(0, 15), min_size=1, max_size=120))
def test_exact_when_everything_is_sampled(keys: list[int]) -> None:
    """Look-aside reads of a server too small for anything: each read misses and is filled."""
    sizes = {key: 16 * (1 + key % 8) for key in keys}
    steps = [(key, operation) for key in keys for operation in (READ_MISS, WRITE)]
    told = distances(
        [key for key, _ in steps], [o for _, o in steps], [sizes[key] for key, _ in steps]
    )
    assert told == naive_distances(keys, sizes)


def test_a_write_makes_recent_but_is_no_reference() -> None:
    told = distances([1, 2, 1, 2], [WRITE, WRITE, WRITE, READ_HIT])
    assert told == [2 * SIZE]


def test_a_miss_that_is_never_filled_stays_a_miss() -> None:
    assert distances([1, 1, 1], READ_MISS) == [np.inf] * 3


def test_an_eviction_changes_nothing_a_deletion_does() -> None:
    keys, reads = [1, 1, 1], [WRITE, EVICTION, READ_MISS]
    assert distances(keys, reads) == [SIZE]
    for operation in (DELETE, EXPIRY):
        reads[1] = operation
        assert distances(keys, reads) == [np.inf]


def test_flush_of_one_db_leaves_the_other() -> None:
    keys = [1, 1, 0, 1, 1]
    operations = [WRITE, WRITE, FLUSH, READ_MISS, READ_HIT]
    assert distances(keys, operations, dbs=[0, 1, 0, 0, 1]) == [np.inf, SIZE]
    assert distances(keys, operations, dbs=[0, 1, 65535, 0, 1])[0] == np.inf
    assert distances(keys[:4], operations[:4], dbs=[0, 1, 65535, 1]) == [np.inf]


def test_what_empties_an_empty_db_over_and_over_is_looked_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client may do so thousands of times a second, and each look walks the whole stack."""
    shards, looks = Shards(None), []
    dbs = [0] * 50 + [3] * 200 + [3, 3]
    operations = [WRITE] * 50 + [FLUSH] * 200 + [WRITE, FLUSH]
    (message,) = SampledServer().batches(
        number_hashes(np.arange(len(dbs)), 0), operations, SIZE, dbs=dbs
    )

    def watched(change):
        def look(stack, keys):
            looks.append(len(keys))
            return change(stack, keys)

        return look

    kind = type(shards.stack)
    monkeypatch.setattr(kind, "delete", watched(kind.delete))
    shards.take(decode_batch(message))
    assert looks == [0, 1]  # the second one after a write to it


def test_swap_exchanges_two_dbs() -> None:
    told = distances(
        [1, 2, 0, 1, 2],
        [WRITE, WRITE, SWAP, READ_HIT, READ_MISS],
        [SIZE, SIZE, 3, SIZE, SIZE],
        dbs=[0, 3, 0, 3, 3],
    )
    assert told == [2 * SIZE, np.inf]


def test_a_swap_touches_no_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch has hundreds, and a stack tens of thousands of objects."""
    monitor = ServerMonitor("a")
    count = 300
    keys = number_hashes(np.arange(count), 0)
    messages = [
        *SampledServer().batches(keys, WRITE, SIZE),
        *SampledServer().batches(keys, SWAP, np.arange(count) % 7, dbs=np.arange(count) % 5),
    ]
    kind = type(monitor.shards.stack)
    first, second = map(decode_batch, messages)
    monitor.take(first)
    before = list(monitor.shards.stack)
    for name in ("delete", "forget"):
        monkeypatch.setattr(kind, name, None)
    monkeypatch.setattr(kind, "__iter__", None)
    monitor.take(replace(second, sequence=1))
    monkeypatch.undo()
    assert list(monitor.shards.stack) == before


def test_flushes_that_would_walk_too_many_objects_begin_the_curve_anew(
    load_node: LoadNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each write makes the next flush of its database look at all objects again."""
    metrics = Metrics()
    monitor = GuardedMonitor("s0", load_node({"s0": "redis://localhost:1"}), metrics)
    kept, rounds = 200, 100
    server = SampledServer()
    begin = server.batches(number_hashes(np.arange(kept), 0), WRITE, SIZE, dbs=1)
    keys = np.repeat(number_hashes(np.arange(rounds), 1), 2)
    flushes = server.batches(keys, np.tile([WRITE, FLUSH], rounds), SIZE)
    batches = [*map(decode_batch, begin), *map(decode_batch, flushes)]
    monkeypatch.setattr(whole_databases, "MOST_WALKED_OBJECTS", (kept + 1) * rounds)
    for batch in batches:
        monitor.take(batch)
    assert len(monitor.shards) == kept
    assert metrics.value("monitors_begun_anew") == 0
    monkeypatch.setattr(whole_databases, "MOST_WALKED_OBJECTS", (kept + 1) * rounds - 1)
    monitor.take(batches[-1])
    assert len(monitor.shards) == 0
    assert metrics.value("monitors_begun_anew", instance="s0") == 1


def test_hit_on_an_object_from_before_lies_between_what_was_seen_and_what_fits() -> None:
    shards = Shards(None)
    server = SampledServer()
    batches = server.batches(number_hashes(np.arange(3), 0), READ_HIT, SIZE)
    told = shards.take(decode_batch(next(batches)), resident_bytes=1000).distances_bytes
    assert told == pytest.approx([(3 * SIZE + 1000) / 2] * 3)


def test_live_objects_stay_within_their_bound_and_the_threshold_follows() -> None:
    shards = Shards(512)
    server = SampledServer()
    hashes = number_hashes(zipf(50_000, 60_000), 0)
    for message in server.batches(hashes, READ_HIT, SIZE):
        shards.take(decode_batch(message))
        assert len(shards.stack) <= 512
    assert shards.threshold is not None
    live = {int(h) for h in np.unique(hashes) & np.uint64((1 << 48) - 1)}
    assert set(shards.stack) == {h for h in live if h % MODULUS < shards.threshold}


def test_lower_threshold_of_the_server_keeps_the_common_objects() -> None:
    hashes = number_hashes(np.arange(1000), 0)
    shards = Shards(None)
    server = SampledServer()
    for threshold in (MODULUS, MODULUS // 4, MODULUS):
        server.threshold = threshold
        for message in server.batches(hashes, READ_HIT, SIZE):
            shards.take(decode_batch(message))
    kept = {int(h) & (1 << 48) - 1 for h in hashes if int(h) % MODULUS < MODULUS // 4}
    assert set(shards.stack) == kept
    assert shards.rate == 0.25


@pytest.mark.parametrize("change", ["salt", "modulus"])
def test_another_salt_or_modulus_starts_anew(change: str) -> None:
    shards = Shards(None)
    server = SampledServer()
    hashes = number_hashes(np.arange(10), 0)
    for message in server.batches(hashes, READ_HIT, SIZE):
        shards.take(decode_batch(message))
    assert len(shards.stack) == 10
    server.salt, server.modulus = (9, MODULUS) if change == "salt" else (0, 2 * MODULUS)
    for message in server.batches(hashes[:0], READ_HIT, SIZE):
        shards.take(decode_batch(message))
    assert len(shards.stack) == 0


def test_too_few_live_objects_are_refused() -> None:
    with pytest.raises(ValueError, match="live_objects"):
        Shards(1)


ACCESSES = st.lists(
    st.tuples(
        st.integers(0, 40),
        st.sampled_from([*[READ_HIT, READ_MISS, WRITE] * 4, DELETE, EXPIRY, EVICTION, FLUSH, SWAP]),
        st.integers(0, 60),
        st.sampled_from([0, 0, 0, 1, 2, 65535]),
        st.booleans(),
    ),
    max_size=300,
)


def test_pinned_bytes_follow_the_servers_count_and_what_was_seen_since() -> None:
    shards = Shards(None)
    shards.volatile = True
    server = SampledServer(threshold=MODULUS // 4)

    def take(operation: int, keys: range, ttl: bool) -> None:
        hashes = number_hashes(np.array(keys), 0)
        operations = np.full(len(keys), operation)
        for message in server.batches(hashes, operations, 16, ttl=np.full(len(keys), ttl)):
            shards.take(decode_batch(message))

    take(READ_HIT, range(400), ttl=False)
    assert shards.pinned_bytes == 16 * 4 * len(shards.pinned)  # the server has told nothing yet
    shards.know_pinned(1000)
    assert shards.pinned_bytes == pytest.approx(16_000)
    take(READ_HIT, range(400, 800), ttl=False)
    assert shards.pinned_bytes == pytest.approx(16_000)  # they are of the thousand
    gone = len(shards.pinned)
    take(DELETE, range(100), ttl=False)
    gone -= len(shards.pinned)
    assert shards.pinned_bytes == pytest.approx(16_000 - 16 * 4 * gone)
    take(WRITE, range(800, 2000), ttl=False)
    assert shards.pinned_bytes == pytest.approx(16 * 4 * len(shards.pinned))  # more than there were
    shards.know_pinned(1900)
    assert shards.pinned_bytes == pytest.approx(30_400)
    take(FLUSH, range(1), ttl=False)
    assert shards.pinned_bytes == 0


@settings(deadline=None)
@given(
    ACCESSES,
    st.sampled_from([None, 16, 24]),
    st.booleans(),
    st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=4),
    st.integers(1, 60),
    st.sampled_from([SOURCE_PATCH, SOURCE_MODULE]),
)
def test_every_record_as_the_naive_twin_takes_it(
    accesses: list[tuple[int, int, int, int, bool]],
    live_objects: int | None,
    volatile: bool,
    quarters: list[int],
    batch_records: int,
    source: int,
) -> None:
    """Sizes that change or are unknown, deletions, flushes, swaps, TTLs, thresholds that fall."""
    shards, naive = Shards(live_objects), NaiveShards(live_objects, volatile)
    databases = DatabaseNumbers()
    shards.volatile = volatile
    server = SampledServer()
    part = len(accesses) // len(quarters) + 1
    for place, quarter in enumerate(quarters):
        server.threshold = MODULUS // 4 * quarter
        mine = accesses[place * part : (place + 1) * part]
        keys, operations, sizes, dbs, ttl = (
            np.array([access[column] for access in mine], dtype=np.int64) for column in range(5)
        )
        for message in server.batches(
            number_hashes(keys, 0),
            operations,
            np.where(operations == SWAP, sizes % 3, sizes),
            dbs=dbs,
            ttl=ttl.astype(bool),
            batch_records=batch_records,
        ):
            batch = replace(decode_batch(message), source=source)
            told = shards.take(databases.numbered(batch), -7, 30, 900.0).distances_bytes.tolist()
            assert told == pytest.approx(naive.take(batch, -7, 30, 900.0), rel=1e-12)
            assert shards.threshold == naive.threshold
            assert len(shards) == len(naive.stack.live()) + len(naive.pinned)
            assert list(shards.pinned.weights.values()) == list(naive.pinned.values())


def test_a_size_is_taken_as_the_allocator_takes_it_unless_it_tells_so_itself() -> None:
    told = []
    for allocated in (False, True):
        shards = Shards(None)
        (message,) = SampledServer().batches(
            number_hashes(np.array([1, 1]), 0), [WRITE, READ_HIT], 130
        )
        batch = decode_batch(message)
        if not allocated:
            records = batch.records.copy()
            records["flags"] &= ~np.uint8(FLAG_SIZE_ALLOCATED)
            batch = replace(batch, records=records)
        told += shards.take(batch).distances_bytes.tolist()
    assert told == [160, 130]

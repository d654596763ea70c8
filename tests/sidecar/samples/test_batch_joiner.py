"""Batches that are taken together say what they say one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.base.metrics import Metrics
from sidecar.config.sampling import SamplingConfig
from sidecar.curves.batch_by_parts import take_by_parts
from sidecar.curves.monitor import ServerMonitor
from sidecar.curves.sampled_eviction import GRID_BYTES, SampledEviction
from sidecar.curves.warm_up import WarmUp
from sidecar.sample_intake import SampleIntake
from sidecar.samples.batch import Batch, decode_batch
from sidecar.samples.batch_joiner import HOLD_SECONDS, BatchJoiner, follows, joined
from sidecar.samples.wire_format import (
    DEFAULT_MODULUS,
    FLAG_SIZE_ALLOCATED,
    MAX_BATCH_RECORDS,
    Operation,
)
from tests.sidecar.naive_shards import weights_of
from workloads.sample_batches import SampledServer, number_hashes

OPERATIONS = [int(operation) for operation in Operation if operation < Operation.SWAP]

SAMPLING = SamplingConfig("", is_automatic=False)


def plausible(operations: list[int], keys: list[int]) -> list[int]:
    """Nobody hits what was not written: where such an object lies is guessed for whole batches."""
    known: set[int] = set()
    for place, (operation, key) in enumerate(zip(operations, keys, strict=True)):
        if operation == Operation.READ_HIT and key not in known:
            operations[place] = Operation.READ_MISS
        elif operation == Operation.WRITE:
            known.add(key)
        elif operation == Operation.FLUSH:
            known.clear()
        elif operation > Operation.WRITE:
            known.discard(key)
    return operations


def batches_of(
    operations: list[int], keys: list[int], ttl: list[bool], batch_records: int
) -> list[Batch]:
    """One record each 10 ms."""
    server = SampledServer()
    messages = server.batches(
        number_hashes(keys, 0),
        operations,
        100,
        ttl=ttl,
        times_us=1_000_000 + 10_000 * np.arange(len(keys)),
        batch_records=batch_records,
    )
    return [decode_batch(message) for message in messages]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 12), st.booleans()),
        min_size=1,
        max_size=120,
    ),
    st.integers(1, 9),
)
def test_a_monitor_learns_the_same_from_them(
    accesses: list[tuple[int, int, bool]], batch_records: int
) -> None:
    operations, keys, ttl = (list(column) for column in zip(*accesses, strict=True))
    batches = batches_of(plausible(operations, keys), keys, ttl, batch_records)
    alone, together = ServerMonitor("a"), ServerMonitor("a")
    for batch in batches:
        alone.take(batch)
    together.take(joined(batches))
    for monitor in (alone, together):
        monitor.step(1.0)
    assert list(together.shards.stack) == list(alone.shards.stack)
    assert weights_of(together.shards.stack) == weights_of(alone.shards.stack)
    ours, theirs = (monitor.counts.miss_ratios(0) for monitor in (together, alone))
    assert ours[0] == pytest.approx(theirs[0])
    assert ours[1] == pytest.approx(theirs[1], abs=1e-9)
    assert together.samples_since_observation == alone.samples_since_observation
    assert together.latency.fill_ratio == alone.latency.fill_ratio
    assert together.latency.mean_seconds == pytest.approx(alone.latency.mean_seconds, abs=1e-6)
    assert len(together.lifetimes) == len(alone.lifetimes)
    assert together.lifetimes.due(1e12) == alone.lifetimes.due(1e12)


def test_each_record_keeps_the_time_that_its_own_batch_tells() -> None:
    batches = batches_of([1] * 7, list(range(7)), [False] * 7, 3)
    assert joined(batches).times_us.tolist() == [1_000_000 + 10_000 * place for place in range(7)]
    assert batches[2].times_us.tolist() == [1_060_000]


def test_the_counters_are_those_of_the_last_and_the_sequence_the_first() -> None:
    batches = batches_of([1] * 7, list(range(7)), [False] * 7, 3)
    whole = joined(batches)
    assert (whole.seen, whole.sampled, whole.sequence) == (7, 7, 0)
    assert (whole.first_time_us, whole.last_time_us) == (1_000_000, 1_060_000)
    assert joined(batches[:1]) is batches[0]


@pytest.mark.parametrize(
    "change", [{"sequence": 5}, {"instance": 2}, {"threshold": 1}, {"salt_id": 1}, {"source": 2}]
)
def test_what_does_not_follow_is_not_joined(change: dict[str, int]) -> None:
    first, second, *_ = batches_of([1] * 7, list(range(7)), [False] * 7, 3)
    assert follows(second, first)
    second = replace(second, **change)
    assert not follows(second, first)
    given_batches: list[Batch] = []
    joiner = BatchJoiner(given_batches.append, lambda: 0.0)
    joiner.add(first)
    joiner.add(second)
    assert given_batches == [first]


def test_they_are_held_until_they_are_old_or_many() -> None:
    now, taken = 0.0, []
    joiner = BatchJoiner(taken.append, lambda: now)
    first, second, *_ = batches_of([1] * 7, list(range(7)), [False] * 7, 3)
    joiner.add(first)
    now = HOLD_SECONDS * 0.9
    joiner.add(second)
    assert not joiner.is_old
    assert not taken
    now = HOLD_SECONDS
    assert joiner.is_old
    joiner.give()
    assert not joiner.is_old
    assert [len(batch.records) for batch in taken] == [6]
    many = batches_of([1] * 2000, list(range(2000)), [False] * 2000, 100)
    for batch in many:
        joiner.add(batch)
    joiner.give()
    assert sum(len(batch.records) for batch in taken) == 2006
    assert max(len(batch.records) for batch in taken) <= MAX_BATCH_RECORDS


@pytest.mark.parametrize(("lifetime_seconds", "takes"), [(1.0, 3), (60.0, 1)])
def test_where_objects_live_for_seconds_each_is_taken_by_itself(
    lifetime_seconds: float, takes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What expires in the midst of them is taken out in time."""
    monitor, taken = ServerMonitor("a"), []
    monkeypatch.setattr(monitor, "take", taken.append)
    for _ in range(20):
        monitor.lifetimes.distribution.add(lifetime_seconds, expired=True)
    monitor.lifetimes.refresh(0)
    intake = SampleIntake(SAMPLING, {"a": monitor}, {}, dict, Metrics())
    batches = batches_of([1] * 7, list(range(7)), [False] * 7, 3)
    for batch in batches:
        intake._joiners["a"].add(batch)
    intake._joiners["a"].give()
    assert len(taken) == takes
    assert sum(len(batch.records) for batch in taken) == 7
    assert intake._metrics.value("samples") == 7


def test_who_never_tells_is_silent_from_the_beginning() -> None:
    """Its samples may not reach us, and then it is not idle for all that is known."""
    now = 100.0
    joiner = BatchJoiner(lambda _: None, lambda: now)
    now = 107.0
    assert joiner.silent_seconds == 7.0
    joiner.add(batches_of([int(Operation.READ_MISS)], [1], [False], 1)[0])
    now = 109.0
    assert joiner.silent_seconds == 2.0


def test_another_salt_of_one_process_is_told(caplog: pytest.LogCaptureFixture) -> None:
    intake = SampleIntake(SAMPLING, {"a": ServerMonitor("a")}, {}, dict, Metrics())

    def told(instance: int, salt: int) -> int:
        caplog.clear()
        hashes = number_hashes(np.arange(5), salt)
        for message in SampledServer(instance=instance, salt=salt).batches(hashes, 1):
            intake._joiners["a"].add(decode_batch(message))
        intake._joiners["a"].give()
        return len(caplog.messages)

    assert [told(1, 3), told(1, 3), told(2, 4), told(2, 4)] == [0, 0, 0, 0]
    assert told(2, 5) == 1
    assert "server a samples with another salt" in caplog.text
    assert told(2, 5) == 0


# --- A batch in one call of the compiled library beside the same batch by parts.


KEYS = 900
SHARES = [0.45, 0.2, 0.2, 0.04, 0.04, 0.07]  # reads that hit and miss, writes, ...


def random_batches(seed: int, *, joins: bool) -> list[Batch]:
    """Make batches of all kinds: TTLs told and not, sizes known and not, several dbs, flushes and
    swaps now and then, a lower rate from the middle on."""
    random = np.random.default_rng(seed)
    server = SampledServer(threshold=DEFAULT_MODULUS // 2)
    batches = []
    now_us = 1_000_000_000
    for place in range(120):
        if place == 60:
            server.threshold //= 2
        count = int(random.integers(0, 400))
        operations = random.choice(6, count, p=SHARES) + 1
        if place % 9 == 8 and count:
            operations[count // 2] = 7
        times_us = now_us + np.cumsum(random.integers(0, 20_000, count))
        now_us = int(times_us[-1]) if count else now_us
        ttl = random.random(count) < 0.5
        left_ms = np.where(ttl & (random.random(count) < 0.7), random.integers(0, 9000, count), -1)
        for message in server.batches(
            number_hashes(random.zipf(1.3, count) % KEYS, 0),
            operations,
            random.integers(1, 3000, count) * (random.random(count) < 0.7),
            ttl=ttl,
            ttls_ms=left_ms,
            dbs=random.integers(0, 2, count),
            times_us=times_us,
        ):
            batch = decode_batch(message)
            records = batch.records.copy()
            told = random.random(len(records)) < 0.5
            records["flags"][told] &= np.uint8(0xFF ^ FLAG_SIZE_ALLOCATED)
            batches.append(replace(batch, records=records))
    if not joins:
        return batches
    return [joined(batches[place : place + 4]) for place in range(0, 56, 4)]


def everything_of(monitor: ServerMonitor) -> tuple[object, ...]:
    histogram = monitor.counts.histogram
    shards = monitor.shards
    return (
        histogram.counts.new.tolist(),
        histogram.groups.new.tolist(),
        float(histogram.reads.new),
        list(shards.stack),
        (shards.stack.total_weight, shards.stack.held(), shards.threshold, len(shards)),
        (len(monitor.lifetimes), monitor.lifetimes.waiting, monitor.lifetimes.shortest_seconds),
        (monitor.latency.mean_seconds, monitor.latency.fill_ratio),
        (monitor.warm_up.unseen_share, monitor.samples_since_observation),
    )


@pytest.mark.parametrize("joins", [False, True])
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    "state", ["growing", "full", "evicting by samples", "bounded", "volatile", "no room"]
)
def test_one_call_counts_what_the_parts_do(seed: int, state: str, *, joins: bool) -> None:
    limit = 64 if state == "bounded" else None
    monitors = [ServerMonitor("one", live_objects=limit) for _ in range(2)]
    for monitor in monitors:
        monitor.warm_up = WarmUp(-1.0)  # over at once, so that all is kept
        if state in ("full", "evicting by samples"):
            monitor._depth_bytes = monitor._resident_bytes = 60_000.0
        if state == "no room":
            monitor._depth_bytes = 0.0
        if state in ("evicting by samples", "no room"):
            ratios = np.clip(1 - np.log2(GRID_BYTES / 1000) / 8, 0, 1)
            monitor.counts.eviction = SampledEviction(3, ratios, np.ones(len(GRID_BYTES)))
        monitor.shards.volatile = state == "volatile"
        monitor.shards.is_libc = seed == 2
        monitor.calibration.keys_bytes, monitor.calibration.overhead_bytes = 90_000.0, -70
    compiled, by_parts = monitors
    by_parts._take = take_by_parts
    for batch in random_batches(seed, joins=joins):
        compiled.take(batch)
        by_parts.take(replace(batch))
        assert everything_of(compiled) == everything_of(by_parts)
        assert compiled._window_misses == pytest.approx(by_parts._window_misses, rel=1e-12)
    assert sum(by_parts.counts.histogram.counts.new) > 1000
    assert (by_parts._window_misses > 100) == (by_parts._depth_bytes < np.inf)


def test_the_library_alone_takes_what_is_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above would hold as well if all were left to Python."""
    monkeypatch.setattr("sidecar.curves.compiled_batch.take_by_parts", None)
    monitor = ServerMonitor("one")
    batches = [one for one in random_batches(1, joins=False) if one.operations.max(initial=0) < 7]
    for batch in batches:
        monitor.take(batch)
    assert len(batches) > 50
    assert len(monitor.lifetimes) > 10

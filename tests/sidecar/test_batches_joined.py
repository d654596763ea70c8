"""Batches that are taken together say what they say one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.base.metrics import Metrics
from sidecar.curves.monitor import ServerMonitor
from sidecar.sample_intake import SampleIntake
from sidecar.samples.batch import Batch, decode_batch
from sidecar.samples.joining import HOLD_SECONDS, BatchJoiner, follows, joined
from sidecar.samples.wire_format import MAX_BATCH_RECORDS, Operation
from tests.sidecar.naive_shards import weights_of
from workloads.sample_batches import SampledServer, number_hashes

OPERATIONS = [int(operation) for operation in Operation if operation < Operation.SWAP]


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
    assert together.latency._seconds == pytest.approx(alone.latency._seconds, abs=1e-6)
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
    intake = SampleIntake({"a": monitor}, dict, {}, Metrics())
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
    intake = SampleIntake({"a": ServerMonitor("a")}, dict, {}, Metrics())

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

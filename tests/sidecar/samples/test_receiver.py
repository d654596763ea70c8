"""The receiver, over real ZeroMQ sockets."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
import zmq

from sidecar.base.metrics import Metrics
from sidecar.samples.batch import Batch
from sidecar.samples.endpoint import bind_endpoint
from sidecar.samples.receiver import SampleReceiver
from sidecar.samples.wire_format import MAX_BATCH_RECORDS
from workloads.local_node import wait_until
from workloads.sample_batches import SampledServer, number_hashes


@pytest.fixture
def endpoint(tmp_path: Path) -> str:
    return f"ipc://{tmp_path}/samples"


@pytest.fixture
def receiver(endpoint: str) -> Iterator[SampleReceiver]:
    with bind_endpoint(endpoint, Metrics()) as receiver:
        yield receiver


@pytest.fixture
def push(receiver: SampleReceiver, endpoint: str) -> Iterator[zmq.Socket[bytes]]:
    with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
        socket.set(zmq.LINGER, 0)
        socket.connect(endpoint)
        yield socket


def receive(receiver: SampleReceiver, count: int) -> list[Batch]:
    batches: list[Batch] = []
    while len(batches) < count:
        refused = receiver.metrics.value("batches_malformed")
        more = receiver.receive(10)
        assert more or receiver.metrics.value("batches_malformed") > refused, (
            f"only {len(batches)} of {count} came"
        )
        batches += more
    return batches


def messages(instance: int, count: int) -> list[bytes]:
    server = SampledServer(instance=instance)
    hashes = number_hashes(np.arange(count * 10), 0)
    return list(server.batches(hashes, 1, batch_records=10))


def test_batches_of_two_servers_arrive_in_order(
    receiver: SampleReceiver, push: zmq.Socket[bytes]
) -> None:
    for one, two in zip(messages(1, 5), messages(2, 5), strict=True):
        push.send(one)
        push.send(two)
    batches = receive(receiver, 10)
    for instance in (1, 2):
        assert [b.sequence for b in batches if b.instance == instance] == [0, 1, 2, 3, 4]
    assert not receiver.metrics.snapshot()
    assert not receiver.metrics.value("batches_lost")


def test_no_message_beyond_the_formats_own_limit_is_taken_in(
    receiver: SampleReceiver, push: zmq.Socket[bytes], endpoint: str
) -> None:
    server = SampledServer()
    hashes = number_hashes(np.arange(MAX_BATCH_RECORDS + 1), 0)
    (exceeds,) = server.batches(hashes, 1, batch_records=MAX_BATCH_RECORDS + 1)
    (fits,) = server.batches(hashes[1:], 1, batch_records=MAX_BATCH_RECORDS)
    push.send(exceeds)
    # Its connection ends; whoever connects again is heard again.
    with zmq.Context() as context, context.socket(zmq.PUSH) as other:
        other.connect(endpoint)
        other.send(fits)
        (batch,) = receive(receiver, 1)
    assert len(batch.records) == MAX_BATCH_RECORDS
    refused = {"sample_connections_refused[reason=too_long]": 1}

    def is_refused() -> bool:  # perhaps it came after the other
        return receiver.receive(0) == [] and receiver.metrics.snapshot() == refused

    wait_until(is_refused, receiver.metrics.snapshot)


def test_gap_in_the_sequence_is_counted_as_lost(
    receiver: SampleReceiver, push: zmq.Socket[bytes]
) -> None:
    sent = messages(1, 9)
    for place in (2, 3, 6, 8):
        push.send(sent[place])
    receive(receiver, 4)
    assert receiver.metrics.value("batches_lost") == 3


def test_a_sampler_that_begins_anew_has_lost_nothing(
    receiver: SampleReceiver, push: zmq.Socket[bytes]
) -> None:
    """A module that is loaded anew: the same process, and sequences much further on."""
    for begin in (5 << 22, 9 << 22):
        for number in (0, 1, 3):
            message = bytearray(messages(1, 1)[0])
            message[24:32] = (begin + number).to_bytes(8, "little")
            push.send(bytes(message))
    receive(receiver, 6)
    assert receiver.metrics.value("batches_lost") == 2


def test_processes_that_have_ended_are_forgotten_but_not_what_was_lost(
    receiver: SampleReceiver, push: zmq.Socket[bytes]
) -> None:
    one, two = messages(1, 6), messages(2, 6)
    for message in (one[0], one[2], two[0]):
        push.send(message)
    receive(receiver, 3)
    receiver.keep_only({2})
    assert receiver._next_sequence == {(2, bytes(16)): 1}
    assert set(receiver._senders) == {(2, bytes(16))}
    for message in (one[5], two[3]):
        push.send(message)
    receive(receiver, 2)
    assert receiver.metrics.value("batches_lost") == 3


def test_a_malformed_batch_of_a_server_is_counted_and_the_rest_arrives(
    receiver: SampleReceiver, push: zmq.Socket[bytes]
) -> None:
    good, other = messages(1, 2)
    push.send(good[:10] + b"\3" + good[11:])
    push.send(other)
    assert len(receive(receiver, 1)) == 1
    assert receiver.metrics.snapshot() == {"batches_malformed[reason=source]": 1}


@pytest.mark.parametrize(
    ("frames", "metric", "reason"),
    [
        ([b""], "batches_malformed", "truncated"),
        ([b"X" * 200], "batches_malformed", "magic"),
        ([b"SPRD\2\0" + bytes(98)], "batches_malformed", "version"),
        ([b"SPRD", b"\3"], "sample_connections_refused", "frames"),
    ],
)
def test_who_sends_something_else_is_hung_up_on_and_the_others_are_heard(
    frames: list[bytes],
    metric: str,
    reason: str,
    receiver: SampleReceiver,
    push: zmq.Socket[bytes],
    endpoint: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with zmq.Context() as context, context.socket(zmq.PUSH) as other:
        other.set(zmq.LINGER, 0)
        other.connect(endpoint)
        for _ in range(3):
            other.send_multipart(frames)
        wait_until(
            lambda: receiver.receive(0.1) or receiver.metrics.value(metric, reason=reason),
            receiver.metrics.snapshot,
        )
        push.send(messages(1, 1)[0])
        assert len(receive(receiver, 1)) == 1
    assert receiver.metrics.value("sample_connections_refused", reason=reason) >= 1
    (told,) = [one for one in caplog.messages if "hung up on" in one]
    assert f"uid {os.geteuid()}" in told


def test_a_server_has_one_connection(receiver: SampleReceiver, endpoint: str) -> None:
    """However many show its secret: the last one counts."""
    with zmq.Context() as context:
        for place, message in enumerate(messages(1, 40)):
            with context.socket(zmq.PUSH) as socket:
                socket.connect(endpoint)
                socket.send(message)
                (batch,) = receive(receiver, 1)
                assert batch.sequence == place
                assert len(receiver._connections._turn) == 1


def test_servers_take_turns(receiver: SampleReceiver, endpoint: str) -> None:
    """Whoever sends most does not keep the others waiting."""
    with zmq.Context() as context, ExitStack() as held:
        rests = []
        for instance, count in ((1, 300), (2, 3), (3, 3)):
            socket = held.enter_context(context.socket(zmq.PUSH))
            socket.connect(endpoint)
            first, *rest = messages(instance, count)
            socket.send(first)
            receive(receiver, 1)
            rests.append((socket, rest))
        for socket, rest in rests:
            for message in rest:
                socket.send(message)
        waiting = receiver._connections._turn
        wait_until(lambda: all(one.has_waiting for one in waiting), lambda: len(waiting))
        taken: list[int] = []
        while len(taken) < 12:  # each time a little, as in slices
            for batch in receiver.batches(1):
                taken.append(batch.instance)
                break
    assert min(taken[:9].count(2), taken[:9].count(3)) == 2


def test_nothing_there_is_an_empty_list(receiver: SampleReceiver) -> None:
    assert receiver.receive(0) == []


@pytest.mark.parametrize("endpoint", ["tcp://256.0.0.1:1", "tcp://192.0.2.1:5555"])
def test_an_endpoint_that_cannot_be_bound_is_an_error(endpoint: str) -> None:
    with (
        pytest.raises(OSError, match=r"sampling.endpoint .* cannot be bound"),
        bind_endpoint(endpoint, Metrics()),
    ):
        pass

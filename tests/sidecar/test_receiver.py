"""The receiver, over real ZeroMQ sockets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import zmq

from sidecar.samples.batch import Batch
from sidecar.samples.receiver import SampleReceiver
from sidecar.samples.wire_format import MAX_BATCH_RECORDS
from workloads.sample_batches import SampledServer, number_hashes


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[SampleReceiver]:
    with SampleReceiver(f"ipc://{tmp_path}/samples") as receiver:
        yield receiver


@pytest.fixture
def push(receiver: SampleReceiver) -> Iterator[zmq.Socket[bytes]]:
    with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
        socket.set(zmq.LINGER, 0)
        socket.connect(receiver.endpoint)
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
    receiver: SampleReceiver, push: zmq.Socket[bytes]
) -> None:
    server = SampledServer()
    hashes = number_hashes(np.arange(MAX_BATCH_RECORDS + 1), 0)
    (exceeds,) = server.batches(hashes, 1, batch_records=MAX_BATCH_RECORDS + 1)
    (fits,) = server.batches(hashes[1:], 1, batch_records=MAX_BATCH_RECORDS)
    push.send(exceeds)
    # Its connection ends; whoever connects again is heard again.
    with zmq.Context() as context, context.socket(zmq.PUSH) as other:
        other.connect(receiver.endpoint)
        other.send(fits)
        (batch,) = receive(receiver, 1)
    assert len(batch.records) == MAX_BATCH_RECORDS
    assert not receiver.metrics.snapshot()


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
    assert receiver._next_sequence == {2: 1}
    for message in (one[5], two[3]):
        push.send(message)
    receive(receiver, 2)
    assert receiver.metrics.value("batches_lost") == 3


def test_malformed_messages_are_counted_and_the_rest_arrives(
    receiver: SampleReceiver, push: zmq.Socket[bytes]
) -> None:
    good = messages(1, 1)[0]
    push.send(b"")
    push.send(b"X" + good[1:])
    push.send_multipart([good, good])
    push.send(good)
    assert len(receive(receiver, 1)) == 1
    for reason in ("truncated", "magic", "frames"):
        assert receiver.metrics.value("batches_malformed", reason=reason) == 1
    assert receiver.metrics.value("batches_malformed") == 3


def test_nothing_there_is_an_empty_list(receiver: SampleReceiver) -> None:
    assert receiver.receive(0) == []


def test_endpoint_in_use_is_an_error(receiver: SampleReceiver, tmp_path: Path) -> None:
    with pytest.raises(zmq.ZMQError):
        SampleReceiver("tcp://256.0.0.1:1")

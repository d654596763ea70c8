"""The sidecar's end of the ZeroMQ pipeline: one PULL socket for all servers of the machine."""

from __future__ import annotations

from collections.abc import Container, Iterator

import zmq

from sidecar.base.metrics import Metrics
from sidecar.samples.batch import Batch, SampleError, decode_batch
from sidecar.samples.wire_format import MAX_BATCH_BYTES, SEQUENCES_OF_A_SAMPLER

QUEUE_BATCHES = 1024
DRAIN_BATCHES = 4096


class SampleReceiver:
    """Binds ``endpoint`` (``ipc://...`` or ``tcp://...``) and decodes what arrives.

    A context manager. The queue holds ``QUEUE_BATCHES`` of ``MAX_BATCH_BYTES`` for each server;
    when it is full, the servers drop, and count it. Whoever sends more in one message is
    disconnected.

    Attributes:
        metrics: where it counts malformed messages, and batches that are missing from the
            instances' sequences. Batches that came before this receiver's first of an instance are
            not missing.

    Raises:
        OSError: the endpoint cannot be bound (``zmq.ZMQError`` is one).
    """

    def __init__(self, endpoint: str, metrics: Metrics | None = None) -> None:
        self.metrics = metrics or Metrics()
        self._next_sequence: dict[int, int] = {}
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.PULL)
        self._socket.set(zmq.LINGER, 0)
        self._socket.set(zmq.RCVHWM, QUEUE_BATCHES)
        self._socket.set(zmq.MAXMSGSIZE, MAX_BATCH_BYTES)
        try:
            self._socket.bind(endpoint)
        except zmq.ZMQError:
            self.close()
            raise
        self.endpoint: str = str(self._socket.get_string(zmq.LAST_ENDPOINT)).rstrip("\0")

    def receive(self, timeout_seconds: float) -> list[Batch]:
        """All that ``batches`` yields; an empty list means that none came."""
        return list(self.batches(timeout_seconds))

    def batches(self, timeout_seconds: float) -> Iterator[Batch]:
        """Batches that are there, in order of arrival, ``DRAIN_BATCHES`` messages at most.

        Waits up to ``timeout_seconds`` for the first. Each is received when it is asked for: the
        others stay in the queue of whoever stops asking.
        """
        if not self._socket.poll(round(timeout_seconds * 1000)):
            return
        for _ in range(DRAIN_BATCHES):
            try:
                frame = self._socket.recv(zmq.DONTWAIT)
            except zmq.Again:
                return
            try:
                self._refuse_more_frames()
                batch = decode_batch(frame)
            except SampleError as error:
                self.metrics.batches_malformed.labels(error.reason).inc()
                continue
            self._count(batch)
            yield batch

    def _refuse_more_frames(self) -> None:
        frames = 1
        while self._socket.get(zmq.RCVMORE):
            self._socket.recv()
            frames += 1
        if frames > 1:
            raise SampleError("frames", f"{frames} frames, not 1")

    def _count(self, batch: Batch) -> None:
        expected = self._next_sequence.get(batch.instance, batch.sequence)
        gap = batch.sequence - expected
        if 0 < gap < SEQUENCES_OF_A_SAMPLER:
            self.metrics.batches_lost.inc(gap)
        self._next_sequence[batch.instance] = batch.sequence + 1

    def keep_only(self, instances: Container[int]) -> None:
        """Forget the sequences of all server processes but these."""
        self._next_sequence = {
            instance: sequence
            for instance, sequence in self._next_sequence.items()
            if instance in instances
        }

    def close(self) -> None:
        """Unbind; may be called twice."""
        self._socket.close()
        self._context.term()

    def __enter__(self) -> SampleReceiver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

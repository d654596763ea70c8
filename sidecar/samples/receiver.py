"""Holds the sidecar's end of the pipeline: one socket for all servers of the machine."""

from __future__ import annotations

import logging
import math
import socket
import time
from collections.abc import Callable, Collection, Container, Iterator

from sidecar.base.metrics import Metrics
from sidecar.samples.batch import Batch, FormerSecretError, SampleError, StrangerError, decode_batch
from sidecar.samples.connection import Connection
from sidecar.samples.connections import Connections
from sidecar.samples.wire_format import SEQUENCES_OF_A_SAMPLER

log = logging.getLogger(__name__)

DRAIN_BATCHES = 4096
# Connections that have shown no secret; a server has one for a moment when it connects.
MOST_STRANGERS = 16

CROWD_SECONDS = 60.0


class SampleReceiver:
    """Takes what comes to a listening socket, and decodes it.

    A context manager. What waits of each server is bounded; when that is full, the servers drop,
    and count it. Whoever sends something else than batches is hung up on. ``processes``: see
    ``Connections``.

    Attributes:
        metrics: where it counts malformed messages, connections that it ends, and batches that are
            missing from the instances' sequences. Batches that came before this receiver's first of
            an instance are not missing.
    """

    def __init__(
        self,
        listening: socket.socket,
        metrics: Metrics | None = None,
        most_strangers: int = MOST_STRANGERS,
        processes: Callable[[], Collection[int]] = tuple,
    ) -> None:
        self.metrics = metrics or Metrics()
        self._has_rights = _has_rights(listening)
        # By instance and secret: a server may lie about its process, but not about the secret.
        self._next_sequence: dict[tuple[int, bytes], int] = {}
        self._senders: dict[tuple[int, bytes], Connection] = {}
        self._told: set[str] = set()
        self._crowded_at_seconds = -math.inf
        self._connections = Connections(listening, most_strangers, self._refused, processes)

    @property
    def remedy(self) -> str:
        """Say what helps against a crowd, for people."""
        if self._has_rights:
            return "end it, or take its user out of sampling.group"
        return "end it, or take an ipc:// that others cannot use"

    @property
    def is_crowded(self) -> bool:
        """Whether more wanted to connect within the last minute than there is room for."""
        return time.monotonic() - self._crowded_at_seconds < CROWD_SECONDS

    def receive(self, timeout_seconds: float) -> list[Batch]:
        """Return all that ``batches`` yields; an empty list means that none came."""
        return list(self.batches(timeout_seconds))

    def batches(
        self, timeout_seconds: float, is_ours: Callable[[int, bytes], bool] | None = None
    ) -> Iterator[Batch]:
        """Yield batches that are there, one of each server in turn, ``DRAIN_BATCHES`` messages at
        most.

        Waits up to ``timeout_seconds`` for the first. Each is decoded when it is asked for: the
        others stay with whoever stops asking. ``is_ours``: see ``decode_batch``.
        """
        end_seconds = time.monotonic() + timeout_seconds
        left = DRAIN_BATCHES
        while left:
            self._connections.look()
            before = left
            for connection, message in self._connections.messages():
                left -= 1
                if (batch := self._batch(connection, message, is_ours)) is not None:
                    yield batch
                if not left:
                    return
            self._connections.end_overdue()
            wait_seconds = end_seconds - time.monotonic() if before == left else 0
            if wait_seconds <= 0 or not self._connections.wait(wait_seconds):
                return

    def _batch(
        self,
        connection: Connection,
        message: bytes,
        is_ours: Callable[[int, bytes], bool] | None,
    ) -> Batch | None:
        """Decode a message; ``None``: it is none of ours, which was counted."""
        try:
            batch = decode_batch(message, is_ours)
        except FormerSecretError as error:
            self.metrics.batches_malformed.labels(error.reason).inc()
            self._connections.replace(connection)  # it connects anew
            return None
        except StrangerError as error:
            self.metrics.batches_malformed.labels(error.reason).inc()
            self._connections.end(connection, error.reason, f"sends what {error}")
            return None
        except SampleError as error:
            self.metrics.batches_malformed.labels(error.reason).inc()
            self._tell(
                error.reason, f"samples: {connection.who} sends a batch that is none: {error}"
            )
            return None
        connection.is_trusted = True
        sender = (batch.instance, batch.secret)
        before = self._senders.get(sender)
        if before is not connection:
            # One connection a server, so that their number is bounded.
            self._senders[sender] = connection
            if before is not None:
                self._connections.replace(before)
        self._count(batch)
        return batch

    def _refused(self, who: str, reason: str, words: str) -> None:
        self.metrics.sample_connections_refused.labels(reason).inc()
        if reason == "too_many":
            self._crowded_at_seconds = time.monotonic()
        self._tell(reason, f"samples: {who} {words}")

    def _tell(self, kind: str, words: str) -> None:
        """Log each kind once: strangers must not fill the log."""
        if kind not in self._told:
            self._told.add(kind)
            log.warning("%s; more of this kind is only counted", words)

    def _count(self, batch: Batch) -> None:
        sender = (batch.instance, batch.secret)
        expected = self._next_sequence.get(sender, batch.sequence)
        gap = batch.sequence - expected
        if 0 < gap < SEQUENCES_OF_A_SAMPLER:
            self.metrics.batches_lost.inc(gap)
        self._next_sequence[sender] = batch.sequence + 1

    def keep_only(self, instances: Container[int]) -> None:
        """Forget all server processes but these, and hang up on them."""
        known = {one: n for one, n in self._next_sequence.items() if one[0] in instances}
        kept = {one: sender for one, sender in self._senders.items() if one[0] in instances}
        for sender in set(self._senders.values()) - set(kept.values()):
            self._connections.replace(sender)
        self._next_sequence, self._senders = known, kept

    def close(self) -> None:
        """Hang up, and listen no more; may be called twice."""
        self._connections.close()

    def __enter__(self) -> SampleReceiver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _has_rights(listening: socket.socket) -> bool:
    """Whether a file's mode says who may connect, and not everybody may."""
    name = listening.getsockname()
    return listening.family == socket.AF_UNIX and isinstance(name, str) and bool(name)

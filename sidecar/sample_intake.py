"""Gives the samples to the monitor of their server, several batches at a time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from threading import Event

from sidecar.base.metrics import Metrics
from sidecar.config.sampling import SamplingConfig
from sidecar.curves.monitor import ServerMonitor
from sidecar.curves.sampling_rate import SamplingRate
from sidecar.look.look_samplers import LookSamplers
from sidecar.samples.batch import Batch, FormerSecretError
from sidecar.samples.batch_joiner import BatchJoiner
from sidecar.samples.receiver import CROWD_SECONDS, SampleReceiver
from sidecar.samples.sampler_key import SamplerKey

log = logging.getLogger(__name__)

WAIT_SECONDS = 0.1
RECEIVE_SECONDS = 0.1
# For objects that live so long, half a second more or less does not matter.
SHORT_LIFETIME_SECONDS = 10.0
# Processor time for samples before the rest of the loop has its turn: the simulated caches of one
# LFU server take 10 to 100 ms for a batch.
SLICE_SECONDS = 0.05


class SampleIntake:
    """``run_ids`` tells the servers' processes, by name, as last seen; ``keys`` has a key of each.

    Attributes:
        looks: at servers that have no sampler.
        by_instance: whose a batch may be, by the number in its header; its secret says whose it
            is, as a server may lie about its process.
    """

    def __init__(
        self,
        sampling: SamplingConfig,
        monitors: Mapping[str, ServerMonitor],
        keys: Mapping[str, SamplerKey],
        run_ids: Callable[[], Mapping[str, str]],
        metrics: Metrics,
    ) -> None:
        self._joiners = {
            name: BatchJoiner(partial(self._give, monitor)) for name, monitor in monitors.items()
        }
        self._run_ids = run_ids
        self._monitors, self._keys = monitors, keys
        self._rates = {name: SamplingRate(sampling, key) for name, key in keys.items()}
        self._may_learn = True
        self._told: set[str] = set()
        self._told_of_rate: set[str] = set()
        self._metrics = metrics
        self.looks: LookSamplers | None = None
        self._took_all = False
        # For each server, the process that sent its last samples, and their salt.
        self._salts: dict[str, tuple[int, int]] = {}
        self.by_instance: dict[int, list[str]] = {}

    def take(self, receiver: SampleReceiver | None, stop: Event) -> None:
        """Wait for samples, and take what is there, for one slice of processor time at most; more
        stays in the receiver's bounded queue, and when that is full, the servers drop. Without a
        receiver there is nothing but to wait."""
        for name, rate in self._rates.items():
            rate.look(self._monitors[name], time.monotonic())
        self._take_looks()
        if receiver is None:
            stop.wait(WAIT_SECONDS)
            return
        # A thread that wakes for each batch takes four times as long for it as in one go. But the
        # last one has just come: as far as can be, no counted read is still on its way.
        if self._took_all and stop.wait(WAIT_SECONDS):
            return
        works = chain(self._old(), self._receiving(receiver, RECEIVE_SECONDS))
        self._took_all = self._slice(works, stop)

    def take_now(self, receiver: SampleReceiver | None, stop: Event) -> None:
        """Take what is there, as far as a slice reaches, and hold nothing of it."""
        self._take_looks()
        held = (joiner.give for joiner in self._joiners.values())
        there = self._receiving(receiver, 0) if receiver is not None else ()
        self._slice(chain(there, held), stop)

    def silent_seconds(self, server: str) -> float:
        """Return the time since its last batch, of which a sampler sends one a second at least, or
        since the sidecar began."""
        if self.looks and (seconds := self.looks.silent_seconds(server)) is not None:
            return seconds
        return self._joiners[server].silent_seconds

    def problems(self, receiver: SampleReceiver, sampled: Iterable[str]) -> list[str]:
        """Say that some of the ``sampled`` servers may be kept out by a crowd, for people."""
        silent = [name for name in sampled if self.silent_seconds(name) > CROWD_SECONDS / 6]
        if not (receiver.is_crowded and silent):
            return []
        return [
            f"sampling.endpoint is crowded, and {', '.join(silent)} may be kept out: the log "
            f"names one who connects; {receiver.remedy}"
        ]

    def _take_looks(self) -> None:
        if self.looks is None:
            return
        for name, batch in self.looks.batches():
            self._monitors[name].take(batch)
            self._metrics.samples.inc(len(batch.records))
            self.looks.taken(name, self._monitors[name].shards)

    def _slice(self, works: Iterator[Callable[[], None]], stop: Event) -> bool:
        """Whether that was all."""
        end_seconds = time.thread_time() + SLICE_SECONDS
        for work in works:
            work()
            if stop.is_set():
                return False
            if time.thread_time() >= end_seconds:
                self._metrics.sample_slices_used_up.inc()
                return False
        return True

    def _receiving(
        self, receiver: SampleReceiver, wait_seconds: float
    ) -> Iterator[Callable[[], None]]:
        self._may_learn = True  # once for all strangers that come: it may wait for a lock
        batches = receiver.batches(wait_seconds, partial(self._is_ours, receiver))
        return (partial(self._take, batch) for batch in batches)

    def _old(self) -> Iterator[Callable[[], None]]:
        return (joiner.give for joiner in self._joiners.values() if joiner.is_old)

    def _is_ours(self, receiver: SampleReceiver, instance: int, secret: bytes) -> bool:
        """Whether it is the secret of a server whose process this is. Raises FormerSecretError."""
        if instance not in self.by_instance:
            self._metrics.batches_of_unknown_instance.inc()
            if self._may_learn:
                self._may_learn = False
                self._learn_instances(receiver)
        if self._whose(instance, secret) is not None:
            return True
        names = self.by_instance.get(instance, ())
        if any(self._keys[name].expects_former for name in names or self._keys):
            raise FormerSecretError
        for name in names:
            if name not in self._told:
                self._told.add(name)
                log.warning(
                    "server %s: a batch without its secret is dropped: somebody may be forging "
                    "samples",
                    name,
                )
        return False

    def _whose(self, instance: int, secret: bytes) -> str | None:
        names = self.by_instance.get(instance, ())
        return next((name for name in names if self._keys[name].opens(secret)), None)

    def _take(self, batch: Batch) -> None:
        name = self._whose(batch.instance, batch.secret)
        if name is None:
            return
        if self._keys[name].fits(batch.threshold, batch.modulus):
            self._joiners[name].add(batch)
            return
        self._metrics.batches_malformed.labels("other_rate").inc()
        if name not in self._told_of_rate:
            self._told_of_rate.add(name)
            log.warning(
                "server %s: a batch is sampled with T = %d and P = %d, which the sidecar does not "
                "set, and is dropped; more of them are only counted",
                *(name, batch.threshold, batch.modulus),
            )

    def _give(self, monitor: ServerMonitor, batch: Batch) -> None:
        # Expired objects are taken out of a monitor once a batch.
        is_fleeting = monitor.lifetimes.shortest_seconds < SHORT_LIFETIME_SECONDS
        for part in batch.parts if is_fleeting and batch.parts else (batch,):
            monitor.take(part)
        self._note_salt(monitor.name, batch)
        self._metrics.samples.inc(len(batch.records))

    def _note_salt(self, name: str, batch: Batch) -> None:
        instance, salt_id = self._salts.get(name, (batch.instance, batch.salt_id))
        if instance == batch.instance and salt_id != batch.salt_id:
            log.warning(
                "server %s samples with another salt, which the sidecar does not set: each of its "
                "keys is a new one now, and its curve begins anew",
                name,
            )
        self._salts[name] = batch.instance, batch.salt_id

    def _learn_instances(self, receiver: SampleReceiver) -> None:
        self.by_instance = {}
        for name, run_id in self._run_ids().items():
            self.by_instance.setdefault(int(run_id[:16], 16), []).append(name)
        receiver.keep_only(self.by_instance)

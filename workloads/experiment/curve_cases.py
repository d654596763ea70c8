"""What the experiment with curves replays, and how well the curves must do.

Where an experiment's server has its samples from: a sampler in it, or a look from outside.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sidecar.config.node import ServerConfig
from sidecar.config.sampling import SamplingConfig
from sidecar.curves.shards import Shards
from sidecar.look.idle_time_sampler import IdleTimeSampler
from sidecar.look.question_cost import QuestionCost, pause_seconds
from sidecar.look.server_questions import LookedServer
from sidecar.samples.batch import Batch
from sidecar.samples.receiver import SampleReceiver
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.traces.trace_reader import load_trace
from workloads.arguments import ORM_BUSY, ORM_NIGHT, TWITTER, trace_file
from workloads.experiment.fast_replay import FastServer, Load
from workloads.load import KVCACHE_FOLDER, kvcache_keys, zipf_keys

TRACE_FILES = {"twitter": TWITTER, "orm-busy": ORM_BUSY, "orm-night": ORM_NIGHT}
KVCACHE = "kvcache"
_KEYS = 60_000
_PAST_REQUESTS = 5_000_000
# Of the requests: before anything is counted, and of which a curve is learnt. It is scored on the
# rest, which comes after it.
WARM_SHARE, LEARNT_SHARE = 0.4, 0.35


@dataclass(frozen=True)
class Target:
    """The most that the mean and the worst error of a predicted miss ratio may be."""

    mean: float = 0.005
    worst: float = 0.02


_TTL = Target(0.005, 0.015)
_RANDOM = Target(0.01, 0.03)


@dataclass(frozen=True)
class Case:
    """A load and the policy of the servers that see it.

    Attributes:
        trace: a name in ``TRACE_FILES``, ``zipf-`` and the exponent, or ``kvcache``.
        samples: the servers' ``maxmemory-samples``.
        ttl_seconds, ttl_share: how many of the keys are given how long to live.
        sizes: ``drawn``, or ``opposed``: what is read often is small, and the rest large.
        hash_share: how many of the keys are hashes, whose size a sampler may not know.
    """

    trace: str
    policy: str = "allkeys-lru"
    samples: int = 5
    ttl_seconds: float = 0.0
    ttl_share: float = 0.8
    sizes: str = "drawn"
    hash_share: float = 0.0

    @property
    def name(self) -> str:
        words = [self.trace, self.policy]
        if self.samples != Case.samples:
            words.append(f"{self.samples} samples")
        if self.ttl_seconds:
            words.append(f"TTL {self.ttl_seconds:g} s")
        if self.sizes != Case.sizes:
            words.append("hot small, cold large")
        if self.hash_share:
            words.append(f"{self.hash_share:.0%} hashes")
        return ", ".join(words)

    @property
    def is_stationary(self) -> bool:
        """Whether what comes is drawn as what has been."""
        return self.trace not in TRACE_FILES

    @property
    def target(self) -> Target:
        if self.policy.endswith("random"):
            return _RANDOM
        return _TTL if self.ttl_seconds else Target()


QUICK_CASES = (
    Case("twitter"),
    Case("orm-busy"),
    Case("zipf-0.99"),
    Case("twitter", ttl_seconds=60),
)
CASES = (
    *QUICK_CASES,
    Case("orm-night"),
    Case("zipf-0.8"),
    Case(KVCACHE),
    Case("zipf-0.9", sizes="opposed"),
    Case("zipf-0.9", sizes="opposed", hash_share=0.5),
    Case("twitter", ttl_seconds=300),
    Case("zipf-0.99", ttl_seconds=60),
    Case("orm-night", samples=3),
    Case("orm-busy", "allkeys-lfu"),
    Case("zipf-0.99", "allkeys-lfu"),
    # Keys without a TTL are never evicted: few, or they would not fit into the smallest server.
    Case("twitter", "volatile-lru", ttl_seconds=3600, ttl_share=0.97),
    Case("twitter", "volatile-lfu", ttl_seconds=3600, ttl_share=0.97),
    Case("zipf-0.99", "allkeys-random"),
)


def load(case: Case, traces: Path, requests: int, seed: int) -> Load:
    """The first ``requests`` of the trace; twice as many where they are drawn, as the luck of
    drawing must be small beside what is to be told.

    Twitter's and CacheLib's sizes are their own; those of the others are drawn (log-normal, 270
    bytes in the mean), as is who has a TTL. With volatile-* all keys have one that are not asked
    for while the servers warm up: a curve takes the keys without a TTL as they are at its end.
    Where keys are drawn, each is read once before all, in the order of their last reads in a long
    past: no key is new then, and a cache of any size holds from the start what it would in the long
    run.

    Raises:
        OSError, ValueError: the trace's file is missing or broken.
    """
    random = np.random.default_rng(seed)
    asked, own_sizes = _asked(case, traces, requests, random)
    names, first, keys = np.unique(asked, return_index=True, return_inverse=True)
    sizes = np.clip(random.lognormal(5.2, 0.9, len(names)), 16, 20_000)
    if own_sizes is not None:
        sizes = own_sizes[first].astype(np.float64)
    elif case.sizes == "opposed":
        # From 32 bytes for the key that is read most to 4 KB for the one that is read least.
        places = np.argsort(np.argsort(-np.bincount(keys)))
        sizes = 32 * 128.0 ** (places / len(names))
    has_ttl = random.random(len(names)) < case.ttl_share
    if case.policy.startswith("volatile-"):
        has_ttl |= first >= WARM_SHARE * len(keys)
    return Load(
        case.name,
        keys.astype(np.int64),
        sizes.astype(np.int64),
        np.where(has_ttl, case.ttl_seconds, 0.0),
        random.random(len(names)) < case.hash_share,
    )


def _asked(
    case: Case, traces: Path, requests: int, random: np.random.Generator
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32] | None]:
    """The keys that are read, and where they have sizes of their own, the sizes of what is read."""
    file = TRACE_FILES.get(case.trace)
    if file is not None:
        trace = load_trace(trace_file(traces, file), limit=requests)
        return trace.keys, trace.sizes_bytes if case.trace == "twitter" else None
    drawn_requests = _PAST_REQUESTS + 2 * requests - _KEYS
    sizes = None
    if case.trace == KVCACHE:
        folder = trace_file(traces, KVCACHE_FOLDER)
        drawn, sizes = kvcache_keys(folder, _KEYS, drawn_requests, random)
    else:
        exponent = float(case.trace.removeprefix("zipf-"))
        drawn = zipf_keys(_KEYS, exponent, drawn_requests, random)
    past, now = np.split(drawn, [_PAST_REQUESTS])
    asked = np.concatenate((_by_recency(past), now)).astype(np.uint64)
    return asked, None if sizes is None else sizes[asked]


def _by_recency(past: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int64]:
    """Order all keys as LRU would: from the one whose last read is longest ago."""
    last_read = np.full(_KEYS, -1)
    last_read[past] = np.arange(len(past))
    return np.argsort(last_read, kind="stable")


class SampleSource(Protocol):
    """Gives the samples of one server."""

    def wait_for_connection(self) -> None:
        """Return when nothing is dropped any more."""

    def batches(self, shards: Shards) -> Iterator[Batch]:
        """Yield what there is to take now; ``shards`` has taken what came before."""

    def lost(self) -> int:
        """Samples that were made and are not here (yet)."""

    def left_out(self, reading: ServerReading) -> ServerReading:
        """The server's figures without our own questions."""

    def close(self) -> None:
        """Hang up."""


class SentSamples:
    """Takes the samples that the patch or the module sends."""

    def __init__(self, server: FastServer, receiver: SampleReceiver) -> None:
        self._server, self._receiver, self._received = server, receiver, 0

    def wait_for_connection(self) -> None:
        """Return when the server's first batch is here: earlier ones are dropped."""
        deadline = time.monotonic() + 5
        while not self._receiver.receive(0.01) and time.monotonic() < deadline:
            self._server.advance(1.0)  # its next heartbeat

    def batches(self, shards: Shards) -> Iterator[Batch]:  # noqa: ARG002
        while found := self._receiver.receive(0.0):
            for batch in found:
                self._received += len(batch.records)
                yield batch

    def lost(self) -> int:
        counters = self._server.client.info("spreds")
        return int(counters["spreds_sampled"]) - self._received

    def left_out(self, reading: ServerReading) -> ServerReading:
        return reading

    def close(self) -> None:
        """The receiver is its maker's."""


class LookedSamples:
    """Samples idle times, as ``LookSampler`` has them, by the server's own clock. What the
    questions cost is not known: for the server no time passes meanwhile."""

    def __init__(self, server: FastServer, live_objects: int) -> None:
        self._server, self._live_objects = server, live_objects
        self._asking = LookedServer(ServerConfig("experiment", server.url))
        told = self._asking.begin(may_be_empty=True)
        self._sampler = IdleTimeSampler(
            self._asking, told, most_keys=live_objects, scans_after_seconds=math.inf
        )
        self._cost = QuestionCost(self._asking, told)
        self._due_seconds = 0.0

    def wait_for_connection(self) -> None:
        """Return at once: it asks by itself."""

    def batches(self, shards: Shards) -> Iterator[Batch]:
        if self._server.passed_seconds < self._due_seconds:
            return
        keys = self._sampler.keys
        absent = {key.identity for key in keys if key.identity not in shards.stack}
        keys.thin_out(shards.threshold, absent, self._live_objects)
        batch, told = self._sampler.round(self._asking.tell)
        self._due_seconds = self._server.passed_seconds + pause_seconds(
            self._sampler.oldest_seconds, self._cost.add(told), SamplingConfig.look_cost_ratio
        )
        yield batch

    def lost(self) -> int:
        return 0

    def left_out(self, reading: ServerReading) -> ServerReading:
        with self._asking.own.alone:
            return self._asking.own.left_out(reading)

    def close(self) -> None:
        self._asking.close()

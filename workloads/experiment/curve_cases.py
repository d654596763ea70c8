"""What the experiment with curves replays, and how well the curves must do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sidecar.traces.trace_reader import load_trace
from workloads.experiment.fast_replay import Load
from workloads.shared_traces import ORM_BUSY, ORM_NIGHT, TWITTER, trace_file
from workloads.zipf import zipf_keys

TRACE_FILES = {"twitter": TWITTER, "orm-busy": ORM_BUSY, "orm-night": ORM_NIGHT}
_ZIPF_KEYS = 80_000
WARM_SHARE = 0.25
"""Of the requests, before anything is measured."""


@dataclass(frozen=True)
class Target:
    """The most that the mean and the worst error of a predicted miss ratio may be."""

    mean: float
    worst: float | None = None


_LRU, _LFU, _TTL = Target(0.005, 0.02), Target(0.02), Target(0.01)


@dataclass(frozen=True)
class Case:
    """A load and the policy of the servers that see it.

    Attributes:
        trace: a name in ``TRACE_FILES``, or ``zipf-`` and the exponent.
        ttl_seconds, ttl_share: how many of the keys are given how long to live.
        target: for the anchored curve, ``None`` where none is set.
    """

    trace: str
    policy: str = "allkeys-lru"
    ttl_seconds: float = 0.0
    ttl_share: float = 0.8
    target: Target | None = _LRU

    @property
    def name(self) -> str:
        ttl = f", TTL {self.ttl_seconds:g} s" if self.ttl_seconds else ""
        return f"{self.trace}, {self.policy}{ttl}"


_TWITTER_60 = Case("twitter", ttl_seconds=60, target=_TTL)
QUICK_CASES = (Case("twitter"), Case("orm-busy"), Case("zipf-0.99"), _TWITTER_60)
CASES = (
    *QUICK_CASES,
    Case("twitter", ttl_seconds=300, target=_TTL),
    Case("zipf-0.99", ttl_seconds=60, target=_TTL),
    Case("orm-busy", "allkeys-lfu", target=_LFU),
    Case("zipf-0.99", "allkeys-lfu", target=_LFU),
    # Keys without a TTL are never evicted: few, or they would not fit into the smallest server.
    Case("twitter", "volatile-lru", ttl_seconds=3600, ttl_share=0.97, target=_TTL),
    # Nothing was ever chosen by these two.
    Case("orm-night"),
    Case("zipf-0.8"),
)


def load(case: Case, traces: Path, requests: int, seed: int) -> Load:
    """The first ``requests`` of the case's trace.

    Twitter's sizes are its own; those of the others are drawn (log-normal, 270 bytes in the mean),
    as is who has a TTL. With volatile-lru all keys have one that are not asked for while the
    servers warm up: a curve takes the keys without a TTL as they are at its end.

    Raises:
        OSError, ValueError: the trace's file is missing or broken.
    """
    random = np.random.default_rng(seed)
    file = TRACE_FILES.get(case.trace)
    if file is None:
        exponent = float(case.trace.removeprefix("zipf-"))
        asked = zipf_keys(_ZIPF_KEYS, exponent, requests, random)
    else:
        trace = load_trace(trace_file(traces, file), limit=requests)
        asked = trace.keys
    names, first, keys = np.unique(asked, return_index=True, return_inverse=True)
    sizes = np.clip(random.lognormal(5.2, 0.9, len(names)), 16, 20_000)
    if case.trace == "twitter":
        sizes = trace.sizes_bytes[first].astype(np.float64)
    has_ttl = random.random(len(names)) < case.ttl_share
    if case.policy == "volatile-lru":
        has_ttl |= first >= WARM_SHARE * len(keys)
    ttls = np.where(has_ttl, case.ttl_seconds, 0.0)
    return Load(case.name, keys.astype(np.int64), sizes.astype(np.int64), ttls)

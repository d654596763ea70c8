"""What the two applications ask for, and the best fixed sizes for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sidecar.traces.trace_reader import load_trace
from workloads.demo.kept import mix_of_halves, requests_of
from workloads.experiment.gain.mix import MixServer
from workloads.experiment.gain.oracle import Oracle
from workloads.load import Load, zipf_load

HOURS = 10
SERVERS = ("P1", "P2")
BUDGET_BYTES = 40 << 20
EQUAL_BYTES = BUDGET_BYTES // len(SERVERS)
# Section 8.5.3: requests in ten hours, and 1/λ of the backends.
REQUESTS = {"P1": 675_000, "P2": 61_200}
BACKEND_SECONDS = {"P1": 0.2, "P2": 0.8}
# Chosen so that equal sizes give about the thesis' hit ratios, and that an object still lives for
# some seconds of the compressed time: Redis' clock for eviction ticks once a second.
P1_KEYS, P1_SKEW, P1_BYTES = 500_000, 0.99, 2_400
P2_BYTES = 24_000
STRIDE = 16  # of the trace's requests one is replayed, so that they cover the whole of it
_SECOND_LOAD = 1_000_003  # added to a seed

TraceKeys = Sequence[bytes]


def trace_keys(path: Path, hours: int) -> TraceKeys | None:
    """The trace's keys, as many as ``hours`` need; ``None`` if it is not there.

    Raises:
        TraceError: it cannot be read.
    """
    if not path.exists():
        return None
    return load_trace(path, texts=True, limit=_of_hours("P2", hours) * STRIDE + STRIDE).texts


def loads(seed: int, hours: int, trace: TraceKeys | None) -> dict[str, Load]:
    """By server; one seed gives one load. Of the trace it says with which request to begin."""
    zipf = zipf_load(
        request_count=_of_hours("P1", hours),
        key_count=P1_KEYS,
        skew=P1_SKEW,
        mean_bytes=P1_BYTES,
        backend_latency_seconds=BACKEND_SECONDS["P1"],
        seed=seed,
    )
    return {"P1": zipf, "P2": _second(seed, _of_hours("P2", hours), trace)}


def _second(seed: int, count: int, trace: TraceKeys | None) -> Load:
    backend_seconds = BACKEND_SECONDS["P2"]
    if trace is None:
        return zipf_load(
            request_count=count,
            key_count=30_000,
            skew=1.0,
            mean_bytes=P2_BYTES,
            backend_latency_seconds=backend_seconds,
            seed=seed + _SECOND_LOAD,
        )
    keys = list(trace[seed % STRIDE :: STRIDE][:count])
    random = np.random.default_rng(seed + _SECOND_LOAD)
    return Load(
        keys,
        [P2_BYTES] * len(keys),
        random.exponential(backend_seconds, len(keys)),
        f"every {STRIDE}th request of a Twitter trace, objects of {P2_BYTES:,} bytes",
    )


def _of_hours(server: str, hours: int) -> int:
    return REQUESTS[server] * hours // HOURS


def best_fixed_bytes(asked: dict[str, Load]) -> dict[str, int]:
    """The best sizes that stay, by the exact miss-ratio curves of all that is asked."""
    servers = [MixServer(name, 1.0, BACKEND_SECONDS[name], ()) for name in SERVERS]
    mix = mix_of_halves("figure-8-5", BUDGET_BYTES, servers)
    oracle = Oracle(mix, [requests_of(asked[name]) for name in SERVERS])
    return dict(zip(SERVERS, oracle.best_bytes(), strict=True))

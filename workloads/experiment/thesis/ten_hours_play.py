"""The ten hours on real servers, in compressed time: all ways to divide the memory at once.

What the two applications ask for, and the best fixed sizes for it.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sidecar.control.history import history_path, read_history
from sidecar.traces.trace_reader import load_trace
from workloads.demo.half import mix_of_halves, requests_of
from workloads.demo.loop import Cloud, controller_text
from workloads.experiment.gain.mix import MixServer
from workloads.experiment.gain.oracle import Oracle
from workloads.load import Load, zipf_load
from workloads.local_server import LocalServer, running_servers, settled_sizes
from workloads.lookaside import LookAsideClient, Tally
from workloads.node_programs import (
    EMBEDDED,
    NodeServer,
    NodeSettings,
    StartedSidecar,
    started_sidecar,
)

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
    """Make loads by server; one seed gives one load, and where the trace begins."""
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


CACHE_SECONDS = 0.0002
STEP_SECONDS = 0.05
LOOKS_AN_HOUR = 4
_RSS_WAIT_HOURS = 60 / 3600  # the default, of an hour's cycle

OrderOrigin = dict[str, Any]


@dataclass(frozen=True)
class Way:
    """How the memory is divided.

    Attributes:
        controller: ``cloud``, ``embedded``, or nothing: the first sizes stay.
        forecast: of the planner, as in ``NodeSettings``.
    """

    name: str
    words: str
    controller: str = ""
    forecast: str = ""

    @property
    def node(self) -> str:
        """Return its name in the stack."""
        return f"ten-hours-{self.forecast}"


@dataclass(frozen=True)
class _Stand:
    """Holds one way's servers while they run."""

    way: Way
    servers: dict[str, LocalServer]
    clients: dict[str, LookAsideClient]
    folder: Path


def play(
    ways: Sequence[Way],
    first_bytes: Mapping[str, Mapping[str, int]],
    asked: Mapping[str, Load],
    hours: int,
    hour_seconds: float,
    cloud: Cloud | None,
    tell: Callable[[float], None],
) -> OrderOrigin:
    """Send the same requests to the servers of all ways, evenly in time.

    Args:
        first_bytes: by way and server.
        tell: called with the share that is done.

    Raises:
        RuntimeError, OSError: a server or a sidecar failed; everything is stopped.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spreds-hours-")))
        stands = [_stand(way, first_bytes[way.name], folder, stack) for way in ways]
        sidecars = [
            _sidecar(stand, hour_seconds, cloud, stack) for stand in stands if stand.way.controller
        ]
        for sidecar in sidecars:
            sidecar.wait_until_sampled()
        told, late_seconds = _drive(stands, asked, hours, hour_seconds, tell)
        for stand in stands:
            told[stand.way.name] |= _plans(stand.folder / "state.json")
    return {"late_seconds": round(late_seconds, 3), "ways": told}


def _stand(way: Way, first: Mapping[str, int], folder: Path, stack: ExitStack) -> _Stand:
    sizes = {name: {"maxmemory": first[name]} for name in SERVERS}
    servers = stack.enter_context(running_servers(sizes))
    clients = {
        name: stack.enter_context(LookAsideClient(one.url, cache_latency_seconds=CACHE_SECONDS))
        for name, one in servers.items()
    }
    own = folder / way.name
    own.mkdir()
    return _Stand(way, servers, clients, own)


def _sidecar(
    stand: _Stand, hour_seconds: float, cloud: Cloud | None, stack: ExitStack
) -> StartedSidecar:
    way = stand.way
    in_cloud = way.controller == "cloud"
    if in_cloud:
        assert cloud is not None
        # The sidecar must not plan in the cloud's place.
        text = controller_text(cloud, way.node).replace('kind = "auto"', 'kind = "lambda"')
    node = NodeSettings(
        [NodeServer(name, 1.0, BACKEND_SECONDS[name]) for name in SERVERS],
        BUDGET_BYTES,
        hour_seconds,
        rss_wait_seconds=_RSS_WAIT_HOURS * hour_seconds,
        cache_latency_seconds=CACHE_SECONDS,
        forecast=way.forecast,
        node=way.node,
        controller=text if in_cloud else EMBEDDED,
    )
    environment = cloud.environment if in_cloud and cloud else None
    return stack.enter_context(started_sidecar(node, stand.servers, stand.folder, environment))


def _plans(state: Path) -> OrderOrigin:
    """Return how many came, how many moved memory, and the reason of the last."""
    plans = [entry for entry in read_history(history_path(state)) if entry["kind"] == "plan"]
    carried_out = sum(bool(plan["carried_out"]) for plan in plans)
    reason = str(plans[-1]["reason"]) if plans else ""
    return {"plans": len(plans), "carried_out": carried_out, "reason": reason}


def _drive(
    stands: Sequence[_Stand],
    asked: Mapping[str, Load],
    hours: int,
    hour_seconds: float,
    tell: Callable[[float], None],
) -> tuple[dict[str, OrderOrigin], float]:
    steps_an_hour = max(LOOKS_AN_HOUR, round(hour_seconds / STEP_SECONDS))
    steps = hours * steps_an_hour
    backends = {name: load.backend_seconds.tolist() for name, load in asked.items()}
    told: dict[str, OrderOrigin] = {
        stand.way.name: {"sizes_bytes": [_sizes(stand)], "hours": []} for stand in stands
    }
    before = {stand.way.name: _tallies(stand) for stand in stands}
    began, late_seconds = time.monotonic(), 0.0
    for step in range(steps):
        due = began + step * hour_seconds / steps_an_hour
        late_seconds = max(late_seconds, time.monotonic() - due)
        time.sleep(max(0.0, due - time.monotonic()))
        # Each way comes first as often as the others.
        turn = step % len(stands)
        for stand in [*stands[turn:], *stands[:turn]]:
            for name, load in asked.items():
                part = slice(len(load) * step // steps, len(load) * (step + 1) // steps)
                stand.clients[name].request(
                    load.keys[part], load.sizes_bytes[part], backends[name][part]
                )
        if (step + 1) % (steps_an_hour // LOOKS_AN_HOUR) == 0:
            for stand in stands:
                told[stand.way.name]["sizes_bytes"].append(_sizes(stand))
            tell((step + 1) / steps)
        if (step + 1) % steps_an_hour == 0:
            for stand in stands:
                now = _tallies(stand)
                told[stand.way.name]["hours"].append(_hour(before[stand.way.name], now))
                before[stand.way.name] = now
    return told, late_seconds


def _sizes(stand: _Stand) -> list[int]:
    sizes = settled_sizes(stand.servers)
    return [sizes[name] for name in SERVERS]


def _tallies(stand: _Stand) -> dict[str, Tally]:
    return {name: client.tally.copy() for name, client in stand.clients.items()}


def _hour(before: Mapping[str, Tally], now: Mapping[str, Tally]) -> list[list[float]]:
    """Count requests, hits, and the seconds that clients would have waited, by server."""
    found = [now[name].minus(before[name]) for name in SERVERS]
    return [[one.requests, one.hits, round(one.access_seconds, 3)] for one in found]


EQUAL = Way("equal", "equal, fixed sizes")
BEST = Way("best", "best fixed sizes")
ADAPTED = (
    Way("cloud_last", "cloud, the thesis' planning", "cloud", "last"),
    Way("embedded_last", "embedded, the thesis' planning", "embedded", "last"),
    Way("cloud_default", "cloud, default planning", "cloud", "competing"),
    Way("embedded_default", "embedded, default planning", "embedded", "competing"),
)
WAYS = (EQUAL, *ADAPTED, BEST)
QUICK_WAYS = (EQUAL, ADAPTED[1], BEST)

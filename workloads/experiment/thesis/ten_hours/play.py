"""The ten hours on real servers, in compressed time: all ways to divide the memory at once."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sidecar.control.history import history_path, read_history
from workloads.demo.loop import Cloud, controller_text
from workloads.embedded_sidecar import (
    EMBEDDED,
    NodeServer,
    NodeSettings,
    StartedSidecar,
    started_sidecar,
)
from workloads.experiment.thesis.ten_hours.loads import BACKEND_SECONDS, BUDGET_BYTES, SERVERS
from workloads.load import Load
from workloads.local_server import LocalServer, running_servers, settled_sizes
from workloads.lookaside import LookAsideClient, Tally

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
        """Its name in the stack."""
        return f"ten-hours-{self.forecast}"


@dataclass(frozen=True)
class _Stand:
    """One way's servers while they run."""

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
    """How many came, how many moved memory, and the reason of the last."""
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
    """Of each server: requests, hits, and the seconds that clients would have waited."""
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

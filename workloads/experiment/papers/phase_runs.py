"""One server under look-aside load that loses memory and gets some back; its series and phases."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.experiment.papers.change_points import LEAST_LEVEL, Bounds, find_ramp, find_spike
from workloads.experiment.shrink.clients import VALUE, Clients, Latencies, running_clients
from workloads.experiment.shrink.measurement import grow_to, running_actuator, shrink_to
from workloads.experiment.study import Data
from workloads.local_server import LocalServer
from workloads.table import milliseconds

# Keys are asked for evenly, so that the hit ratio is the share of the keys that the server holds.
KEYS_PER_OBJECT = 1.25
# Of what it held, after the shrink and after the growth.
SHRUNK, GROWN = 0.5, 0.75
RATE_PER_SECOND = 5_000
CONNECTIONS = 8
WARM_UP_SECONDS = 0.5
# Of the series; a stall of the server is shorter than what tells a hit ratio.
LATENCY_WINDOW_SECONDS = 0.02
HITS_WINDOW_SECONDS = 0.1
# Latencies are looked at as logarithms: below twice its level a window's median is at rest.
DOUBLE = math.log(2)
PHASES = ("base", "transition", "steady")

# Told the size to have from now on.
Resize = Callable[[int], None]


@dataclass(frozen=True)
class Plan:
    """How large the server is, and how long is looked at it before and after each change; where
    ``grow_seconds`` is 0, it is not grown."""

    objects: int
    base_seconds: float
    shrink_seconds: float
    grow_seconds: float


def play(way: str, plan: Plan, seed: int) -> dict[str, Any]:
    """Shrink and grow one server; what is found around each change.

    Args:
        way: one of ``WAYS``.
        seed: of the keys that are asked for.
    """
    with LocalServer({"maxmemory-policy": "allkeys-lru", "enable-debug-command": "yes"}) as server:
        empty_bytes = _used_bytes(server)
        client: Any = server.client
        client.execute_command("DEBUG", "POPULATE", plan.objects, "key", len(VALUE))
        full_bytes = _used_bytes(server) + (256 << 10)
        client.config_set("maxmemory", full_bytes)
        objects_bytes = full_bytes - empty_bytes
        clients = Clients(CONNECTIONS, RATE_PER_SECOND, looks_aside=True, seed=seed)
        keys = round(plan.objects * KEYS_PER_OBJECT)
        with (
            WAYS[way](server) as (shrink, grow),
            running_clients(clients, server.socket, keys) as latencies,
        ):
            time.sleep(WARM_UP_SECONDS + plan.base_seconds)
            shrunk_at = time.monotonic()
            shrink(empty_bytes + int(SHRUNK * objects_bytes))
            time.sleep(plan.shrink_seconds)
            grown_at = time.monotonic()
            if plan.grow_seconds:
                grow(empty_bytes + int(GROWN * objects_bytes))
                time.sleep(plan.grow_seconds)
            over = time.monotonic()
    found = {"shrink": around(latencies, shrunk_at - plan.base_seconds, shrunk_at, grown_at)}
    if plan.grow_seconds:
        found["grow"] = around(latencies, grown_at - plan.base_seconds, grown_at, over)
    return found


@contextmanager
def _nothing(_server: LocalServer) -> Iterator[tuple[Resize, Resize]]:
    yield lambda _: None, lambda _: None


@contextmanager
def _by_hand(server: LocalServer) -> Iterator[tuple[Resize, Resize]]:
    def resize(size_bytes: int) -> None:
        server.client.config_set("maxmemory", size_bytes)

    yield resize, resize


@contextmanager
def _paced(server: LocalServer) -> Iterator[tuple[Resize, Resize]]:
    with running_actuator(server, gradual=True) as actuator:
        yield (
            lambda size_bytes: shrink_to(actuator, size_bytes),
            lambda size_bytes: grow_to(actuator, size_bytes),
        )


WAYS = {"nothing": _nothing, "by hand": _by_hand, "paced": _paced}


def around(latencies: Latencies, begin: float, ordered: float, end: float) -> dict[str, Any]:
    """Series and phases of what was asked from ``begin`` to ``end``, monotonic; times in what is
    returned are seconds since the change was ordered."""
    medians = _windows(latencies, latencies.seconds, np.median, LATENCY_WINDOW_SECONDS, begin, end)
    hits = _windows(latencies, latencies.hits, np.mean, HITS_WINDOW_SECONDS, begin, end)
    # Where half of the base is over, whatever comes is to be found.
    level_count = int((ordered - begin) / 2 / LATENCY_WINDOW_SECONDS)
    ramp = find_ramp(hits)
    spike = find_spike(np.log(medians).tolist(), level_count, DOUBLE)
    found = {
        "hits": _times(ramp, HITS_WINDOW_SECONDS, begin, ordered),
        "latency": _times(spike, LATENCY_WINDOW_SECONDS, begin, ordered),
    }
    bounds = [begin - ordered, *joined(found["hits"], found["latency"]), end - ordered]
    phases = {}
    for name, (first, last) in zip(PHASES, pairwise(bounds), strict=False):
        phases[name] = _told(latencies, ordered + first, ordered + last)
    return {
        "found": found,
        # Otherwise the line goes on to where the series ends, but for the least level.
        "is_over": ramp is None or len(hits) - ramp.end > LEAST_LEVEL,
        "phases": phases,
        "series": {
            "latency": {
                "from_seconds": begin - ordered,
                "window_seconds": LATENCY_WINDOW_SECONDS,
                "values": medians,
            },
            "hits": {
                "from_seconds": begin - ordered,
                "window_seconds": HITS_WINDOW_SECONDS,
                "values": hits,
            },
        },
    }


def joined(ramp: list[float] | None, spike: list[float] | None) -> list[float]:
    """Begin and end of the transition, or nothing. A spike that does not touch the ramp of the hit
    ratio is the machine's and not the server's; a step takes a window."""
    if ramp is None or spike is None:
        found = ramp or spike
        return [found[0], max(found[1], found[0] + HITS_WINDOW_SECONDS)] if found else []
    margin = HITS_WINDOW_SECONDS
    if spike[1] < ramp[0] - margin or spike[0] > ramp[1] + margin:
        return joined(ramp, None)
    return [min(ramp[0], spike[0]), max(ramp[1], spike[1], ramp[0] + margin)]


def _times(
    bounds: Bounds | None, window: float, begin: float, ordered: float
) -> list[float] | None:
    if bounds is None:
        return None
    return [begin + place * window - ordered for place in bounds]


def _windows(
    latencies: Latencies,
    values: npt.NDArray[Any],
    middle: Callable[[npt.NDArray[Any]], Any],
    window_seconds: float,
    begin: float,
    end: float,
) -> list[float]:
    """The ``middle`` of each window; one without requests has that of the one before."""
    order = np.argsort(latencies.at_seconds, kind="stable")
    edges = begin + window_seconds * np.arange(int((end - begin) / window_seconds) + 1)
    places = np.searchsorted(latencies.at_seconds[order], edges)
    found: list[float] = []
    for first, last in pairwise(places.tolist()):
        if last > first:
            found.append(float(middle(values[order[first:last]])))
        elif found:
            found.append(found[-1])
        else:
            raise RuntimeError("the clients made no request when the measurement began")
    return found


def _told(latencies: Latencies, begin: float, end: float) -> dict[str, Any] | None:
    """Percentiles in seconds, and the hit ratio; ``None`` where nothing was asked."""
    inside = (latencies.at_seconds >= begin) & (latencies.at_seconds < end)
    if not inside.any():
        return None
    seconds = latencies.seconds[inside]
    p50, p90, p99 = np.quantile(seconds, [0.5, 0.9, 0.99]).tolist()
    return {
        "requests": int(inside.sum()),
        "p50": p50,
        "p90": p90,
        "p99": p99,
        "mean": float(seconds.mean()),
        "hit_ratio": float(latencies.hits[inside].mean()),
    }


def _used_bytes(server: LocalServer) -> int:
    return int(server.client.info("memory")["used_memory"])


# --- What a measurement of phases has to own up to.


def missed(data: Data) -> list[str]:
    """Changes without a transition, transitions that had not ended, some where none is or that
    began too early, and clients who were behind their rate."""
    found = []
    for way, runs in data["ways"].items():
        for change in runs[0]:
            of = [run[change] for run in runs]
            without = sum(1 for one in of if one["found"]["hits"] is None)
            if way == "nothing" and without < len(of):
                found.append(
                    f"The hit ratio of {len(of) - without} of {len(of)} unchanged servers was "
                    "taken for one that moves."
                )
            elif way != "nothing" and without:
                found.append(
                    f"{way}, {change}: no move of the hit ratio in {without} of {len(of)}."
                )
            if late := sum(1 for one in of if not one["is_over"]):
                found.append(f"{way}, {change}: {late} of {len(of)} had not ended in time.")
            early = sum(1 for one in of if _lies_before(one["found"]))
            if way != "nothing" and early:
                found.append(
                    f"{way}, {change}: in {early} of {len(of)} what was found lies before the "
                    "change, which therefore has not made it."
                )
            if behind := _late_seconds(of):
                found.append(
                    f"{way}, {change}: in {len(behind)} of {len(of)} the clients were behind their "
                    f"rate (a phase's p50 is up to {milliseconds(max(behind))}), so that the "
                    "latencies there tell of the machine and not of the server."
                )
    return found


def _lies_before(found: dict[str, list[float] | None]) -> bool:
    """Whether more of a transition is before the change than after it. That a long one begins some
    windows too early tells nothing: its bounds are not more exact."""
    bounds = found["hits"] or found["latency"]
    return bounds is not None and sum(bounds) / 2 < -HITS_WINDOW_SECONDS / 4


def _late_seconds(found: list[Any]) -> list[float]:
    """The greatest median of a phase of each series whose clients were behind their rate."""
    medians = [
        max((one["p50"] for one in run["phases"].values() if one), default=0.0) for run in found
    ]
    return [median for median in medians if median > HITS_WINDOW_SECONDS]

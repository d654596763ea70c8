"""``python -m workloads replay``: one load against one server; hit ratio and access time.

A trace in its own time: each request is sent when it is due, whatever became of those before.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sidecar.traces.trace_reader import FORMATS, TraceError
from workloads.arguments import at_least, positive, seconds, seed
from workloads.load import Load, trace_load, zipf_load
from workloads.lookaside import (
    PIPELINE_REQUESTS,
    LookAsideClient,
    ServerRefusedError,
    Tally,
    replay,
)
from workloads.table import milliseconds, percent, say, text_table

# Sent later than this after it was due, a request is late.
LATE_SECONDS = 0.005


@dataclass(frozen=True)
class TimedReplay:
    """Times the requests that were sent, in order.

    Attributes:
        seconds: from when each was due until the cache had answered it, and those that were sent
            with it; what missed had been filled by then, unless the backend is waited for.
        behind_seconds: from when each was due until it was sent.
    """

    seconds: npt.NDArray[np.float64]
    behind_seconds: npt.NDArray[np.float64]

    @property
    def late(self) -> int:
        """Return how many were sent later than ``LATE_SECONDS`` after they were due."""
        return int(np.count_nonzero(self.behind_seconds > LATE_SECONDS))

    def percentile(self, percent: float) -> float:
        """Return a percentile of ``seconds``; 0 where there are none."""
        return float(np.percentile(self.seconds, percent)) if len(self.seconds) else 0.0


def due_seconds(times_seconds: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return when each request is due, since the first one; never before the one before it.

    Many traces tell whole seconds. The requests of one second are then spread evenly over it:
    nobody sent them all at its start.

    Raises:
        ValueError: all have the same time, or there are none.
    """
    if not len(times_seconds):
        raise ValueError("there are no requests")
    times = np.maximum.accumulate(times_seconds)
    if times[0] == times[-1]:
        raise ValueError("all requests have the same time, so that it has no arrivals of its own")
    if np.all(times == np.floor(times)):
        _, first, count = np.unique(times, return_index=True, return_counts=True)
        places = np.arange(len(times)) - np.repeat(first, count)
        times = times + places / np.repeat(count, count)
    return np.asarray(times - times[0])


def timed_replay(
    load: Load,
    client: LookAsideClient,
    due: npt.NDArray[np.float64],
    *,
    speed: float = 1.0,
) -> TimedReplay:
    """Send ``load``, each request at its time of ``due``, ``speed`` times as fast.

    What is due together, or has become so, travels in one pipeline, as in ``lookaside.replay``.
    """
    at = due / speed
    backend_seconds = load.backend_seconds.tolist()
    seconds, behind = np.empty(len(load)), np.empty(len(load))
    began = time.monotonic()
    sent = 0
    while sent < len(load):
        now = time.monotonic() - began
        if at[sent] > now:
            client.fill_due()
            # A backend's answer, or the end, may come before the next request.
            time.sleep(min(float(at[sent]) - now, LATE_SECONDS))
            continue
        end = min(int(np.searchsorted(at, now, side="right")), sent + PIPELINE_REQUESTS)
        part = slice(sent, end)
        client.request(load.keys[part], load.sizes_bytes[part], backend_seconds[part])
        behind[part] = now - at[part]
        seconds[part] = time.monotonic() - began - at[part]
        sent = end
    client.finish()
    return TimedReplay(seconds[:sent], behind[:sent])


HELP = "replay a trace, or a generated load, against one Redis server as a look-aside client"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="redis://HOST:PORT or unix:///PATH")
    parser.add_argument(
        "--trace",
        type=Path,
        metavar="FILE",
        help="the trace to replay (default: a generated Zipf load)",
    )
    parser.add_argument(
        "--format", choices=FORMATS, help="the trace's format, if its name does not tell it"
    )
    parser.add_argument(
        "--requests",
        type=positive,
        help="requests to replay (default: all, or 100000 generated ones)",
    )
    parser.add_argument(
        "--keys", type=positive, default=10_000, help="keys of a generated load (default: 10000)"
    )
    parser.add_argument(
        "--skew",
        type=at_least(0),
        default=0.99,
        help="Zipf exponent of a generated load (default: 0.99)",
    )
    parser.add_argument(
        "--object-bytes",
        type=positive,
        help="size of each object of a trace (default: its own), or mean of generated ones (500)",
    )
    parser.add_argument(
        "--rate",
        type=at_least(1e-3),
        metavar="N",
        help="requests a second (default: as many as possible)",
    )
    parser.add_argument(
        "--speed",
        type=at_least(1e-3),
        metavar="N",
        help="send the trace's requests at their own times, N times as fast (60: an hour a "
        "minute), answered or not; a request that is late counts from when it was due",
    )
    parser.add_argument(
        "--backend-latency",
        type=seconds,
        default=0.05,
        metavar="DURATION",
        help="mean time of the backend (default: 50ms)",
    )
    parser.add_argument(
        "--cache-latency",
        type=seconds,
        default=0.0002,
        metavar="DURATION",
        help="time of the cache (default: 0.2ms)",
    )
    parser.add_argument(
        "--ttl", type=seconds, metavar="DURATION", help="TTL of every object (default: none)"
    )
    parser.add_argument(
        "--sleep", action="store_true", help="wait for the backend instead of only counting it"
    )
    parser.add_argument("--seed", type=seed, default=1)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run and return exit code 0; 1 if the server fails; 2 for a bad trace, or bad options."""
    if arguments.speed and (arguments.rate or not arguments.trace):
        say("replay: --speed needs a --trace, and no --rate")
        return 2
    timed = None
    try:
        load = _load(arguments)
        due = _due_seconds(load, arguments.trace) if arguments.speed else None
        began = time.monotonic()
        with LookAsideClient(
            arguments.url,
            cache_latency_seconds=arguments.cache_latency,
            sleeps=arguments.sleep,
            ttl_seconds=arguments.ttl,
        ) as client:
            if due is None:
                replay(load, client, rate_per_second=arguments.rate)
            else:
                timed = timed_replay(load, client, due, speed=arguments.speed)
        seconds = time.monotonic() - began
    except TraceError as error:
        say(f"replay: {error}")
        return 2
    except (OSError, ServerRefusedError) as error:
        say(f"replay: {arguments.url}: {error}")
        return 1
    except (ValueError, OverflowError) as error:
        say(f"replay: URL {arguments.url!r}: {error}")
        return 2
    result = {
        "load": load.description,
        "requests": client.tally.requests,
        "hits": client.tally.hits,
        "hit_ratio": client.tally.hit_ratio,
        "eat_ms": client.tally.effective_access_time_seconds * 1000,
        "seconds": seconds,
    }
    if timed is not None and due is not None:
        result |= {
            "speed": arguments.speed,
            "trace_seconds": float(due[-1]),
            "p50_ms": timed.percentile(50) * 1000,
            "p99_ms": timed.percentile(99) * 1000,
            "late_requests": timed.late,
            "most_late_ms": float(timed.behind_seconds.max()) * 1000,
        }
    print(json.dumps(result, indent=2) if arguments.json else _table(load, client.tally, seconds))
    if timed is not None and not arguments.json:
        print(f"\n{_in_words(timed, arguments.speed)}")
    return 0


def _due_seconds(load: Load, path: Path) -> npt.NDArray[np.float64]:
    assert load.times_seconds is not None
    try:
        return due_seconds(load.times_seconds)
    except ValueError as error:
        raise TraceError(f"{path}: {error}") from error


def _table(load: Load, tally: Tally, seconds: float) -> str:
    row = [
        load.description,
        f"{tally.requests:,}",
        percent(tally.hit_ratio),
        milliseconds(tally.effective_access_time_seconds),
        f"{tally.requests / seconds:,.0f}",
    ]
    return text_table(["load", "requests", "hits", "EAT", "requests/s"], [row])


def _in_words(timed: TimedReplay, speed: float) -> str:
    return (
        f"at {speed:g} times the trace's pace, from when a request was due until the cache had "
        f"answered: median {milliseconds(timed.percentile(50))}, p99 "
        f"{milliseconds(timed.percentile(99))}; {timed.late:,} requests were sent more than "
        f"{milliseconds(LATE_SECONDS)} late, by "
        f"{milliseconds(float(timed.behind_seconds.max()))} at most"
    )


def _load(arguments: argparse.Namespace) -> Load:
    if arguments.trace:
        return trace_load(
            arguments.trace,
            request_count=arguments.requests,
            object_bytes=arguments.object_bytes,
            backend_latency_seconds=arguments.backend_latency,
            seed=arguments.seed,
            format=arguments.format,
        )
    return zipf_load(
        request_count=arguments.requests or 100_000,
        key_count=arguments.keys,
        skew=arguments.skew,
        mean_bytes=arguments.object_bytes or 500,
        backend_latency_seconds=arguments.backend_latency,
        seed=arguments.seed,
    )

"""What is measured: calls of the backend, and what users feel in each phase."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from workloads.experiment.papers import run_artillery
from workloads.experiment.papers.slow_backend_front import (
    Phase,
    Visit,
    arrivals_seconds,
    closed_loop,
    open_loop,
    running_front,
)
from workloads.experiment.study import Data, Scope
from workloads.local_server import LocalServer

KEYS = 10
# The paper's backend, and how long Artillery's users wait.
BACKEND_SECONDS = 0.75
PATIENCE_SECONDS = 10.0
# In the paper's time: about its 726 users in 256 s.
PHASES = (
    Phase("warm-up", 30, 1, 1),
    Phase("ramp-up", 60, 1, 5),
    Phase("plain", 90, 5, 5),
    Phase("clean-up", 60, 1, 1),
)
# So much faster than the paper passes all: backend, patience, phases.
SPEED = 10.0
# In the quick form the phases are shortened once more, which leaves rates and latencies.
QUICK_SHARE = 0.1
CROWDS = (1, 10, 100)
QUICK_CROWDS = (1, 20)
CLOSED_USERS = 4
WINDOWS = 40
LOADS = {
    "without": ("plain", True),
    "cached": ("cached", True),
    "coalesced": ("coalesced", True),
    "closed": ("plain", False),
}
ARTILLERY_LOADS = {"without": "plain", "cached": "cached"}


def measure(scope: Scope) -> Data:
    """Measure all three parts, on one real Redis."""
    with LocalServer() as server:
        return asyncio.run(_measure(scope, server.url))


def played_phases(is_quick: bool) -> list[Phase]:
    """Return the phases as they are played here."""
    share = QUICK_SHARE if is_quick else 1.0
    return [
        Phase(
            phase.name,
            phase.seconds / SPEED * share,
            phase.first_rate * SPEED,
            phase.last_rate * SPEED,
        )
        for phase in PHASES
    ]


async def _measure(scope: Scope, redis_url: str) -> Data:
    phases = played_phases(scope.is_quick)
    failed = None
    if not scope.is_quick:
        scope.progress("installing Artillery", 0.0)
        try:
            await run_artillery.install()
        except run_artillery.ArtilleryError as error:
            failed = str(error)
    scope.progress("crowds at ten keys", 0.2)
    speed = SPEED if scope.is_quick else 1.0
    crowds = await _crowds(
        QUICK_CROWDS if scope.is_quick else CROWDS,
        len(scope.seeds),
        BACKEND_SECONDS / speed,
        PATIENCE_SECONDS / speed,
        redis_url,
    )
    loads: dict[str, list[Any]] = {name: [] for name in LOADS}
    for number, seed in enumerate(scope.seeds):
        scope.progress(f"seed {seed}", 0.3 + 0.5 * number / len(scope.seeds))
        found = await asyncio.gather(
            *(_load(place, name, seed, phases, redis_url) for place, name in enumerate(LOADS))
        )
        for name, one in zip(LOADS, found, strict=True):
            loads[name].append(one)
    data: Data = {
        "crowds": crowds,
        "crowd_backend_seconds": BACKEND_SECONDS / speed,
        "backend_seconds": BACKEND_SECONDS / SPEED,
        "patience_seconds": PATIENCE_SECONDS / SPEED,
        "keys": KEYS,
        "closed_users": CLOSED_USERS,
        "phases": [{"name": phase.name, "seconds": phase.seconds} for phase in phases],
        "scheduled": len(arrivals_seconds(phases)),
        "loads": loads,
        "artillery": None,
    }
    if not scope.is_quick:
        scope.progress("Artillery", 0.8)
        data["artillery"] = await _artillery(phases, redis_url, failed)
    return data


async def _crowds(
    sizes: Sequence[int],
    repetitions: int,
    backend_seconds: float,
    patience_seconds: float,
    redis_url: str,
) -> list[dict[str, Any]]:
    """Users who all come at once, each for the next of ten keys. All sizes at once: they wait."""

    async def crowd(place: int, way: str, users: int) -> tuple[int, int, float, int]:
        async with running_front(backend_seconds, f"{redis_url}?db={place}") as front:
            paths = [f"/{way}/{number % KEYS}" for number in range(users)]
            visits = await open_loop(front.port, paths, [0.0] * users, patience_seconds)
            answered = [visit.seconds for visit in visits if visit.is_answered]
            last = max(answered, default=patience_seconds)
            return front.calls.total(), len(answered), last, front.failed_fills

    cases = [(way, users) for users in sizes for way in ("cached", "coalesced")]
    runs = [
        await asyncio.gather(*(crowd(place, *case) for place, case in enumerate(cases)))
        for _ in range(repetitions)
    ]
    return [
        {
            "way": way,
            "users": users,
            "calls": [run[place][0] for run in runs],
            "answered": [run[place][1] for run in runs],
            "last_seconds": [run[place][2] for run in runs],
            "failed_fills": [run[place][3] for run in runs],
        }
        for place, (way, users) in enumerate(cases)
    ]


async def _load(
    place: int, name: str, seed: int, phases: Sequence[Phase], redis_url: str
) -> dict[str, Any]:
    """Play one load of one seed, on a front of its own."""
    way, is_open = LOADS[name]
    dues = arrivals_seconds(phases)
    # The same keys for all loads of a seed.
    keys = random.Random(seed)
    paths = [f"/{way}/{keys.randrange(KEYS)}" for _ in dues]
    patience = PATIENCE_SECONDS / SPEED
    async with running_front(BACKEND_SECONDS / SPEED, f"{redis_url}?db={place}") as front:
        if is_open:
            visits = await open_loop(front.port, paths, dues, patience)
        else:
            visits = await closed_loop(front.port, paths, dues, patience, CLOSED_USERS)
        calls, failed_fills = front.calls.total(), front.failed_fills
    return {
        "calls": calls,
        "failed_fills": failed_fills,
        "phases": _by_phase(visits, phases),
        "all": told(visits),
        "series": _series(visits, sum(phase.seconds for phase in phases)),
    }


def _by_phase(visits: Sequence[Visit], phases: Sequence[Phase]) -> dict[str, Any]:
    found = {}
    begin = 0.0
    for phase in phases:
        end = begin + phase.seconds
        found[phase.name] = told([one for one in visits if begin <= one.due_seconds < end])
        begin = end
    return found


def told(visits: Sequence[Visit]) -> dict[str, Any]:
    """Sum up all visits, who gave up counting with their patience, and those that were answered."""
    everyone = [visit.seconds for visit in visits]
    answered = [visit.seconds for visit in visits if visit.is_answered]
    return {
        "users": len(visits),
        "failed": len(visits) - len(answered),
        **_percentiles(everyone),
        "answered": _percentiles(answered),
    }


def _percentiles(seconds: Sequence[float]) -> dict[str, float | None]:
    names = ("p50", "p95", "p99")
    if not seconds:
        return dict.fromkeys(names)
    values = np.quantile(np.array(seconds), [0.5, 0.95, 0.99]).tolist()
    return dict(zip(names, values, strict=True))


def _series(visits: Sequence[Visit], length_seconds: float) -> list[dict[str, Any]]:
    """Medians of windows, where there were users."""
    width = length_seconds / WINDOWS
    windows: list[list[float]] = [[] for _ in range(WINDOWS)]
    for visit in visits:
        windows[min(int(visit.due_seconds / width), WINDOWS - 1)].append(visit.seconds)
    return [
        {"at_seconds": (number + 0.5) * width, "users": len(window), **_percentiles(window)}
        for number, window in enumerate(windows)
        if window
    ]


async def _artillery(phases: Sequence[Phase], redis_url: str, failed: str | None) -> dict[str, Any]:
    """Return Artillery's figures by load, one after the other, or why there are none."""
    loads = {}
    patience = PATIENCE_SECONDS / SPEED
    try:
        if failed is not None:
            raise run_artillery.ArtilleryError(failed)
        for name, way in ARTILLERY_LOADS.items():
            async with running_front(BACKEND_SECONDS / SPEED, f"{redis_url}?db=0") as front:
                played = await run_artillery.play(front.port, f"/{way}", KEYS, phases, patience)
                loads[name] = {**played, "calls": front.calls.total()}
    except run_artillery.ArtilleryError as error:
        return {"version": run_artillery.version(), "loads": loads, "failed": str(error)}
    return {"version": run_artillery.version(), "loads": loads, "failed": None}

"""Users who come in phases: as they are due, or as earlier ones let them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from workloads.experiment.papers.slow_backend.front import get


@dataclass(frozen=True)
class Phase:
    """Users a second, which rise or fall evenly from the first rate to the last one."""

    name: str
    seconds: float
    first_rate: float
    last_rate: float

    @property
    def users(self) -> int:
        """Who come in it."""
        return round(self.seconds * (self.first_rate + self.last_rate) / 2)

    def arrivals_seconds(self) -> list[float]:
        """When each comes, since the phase's begin: where the rate's integral is a half, 1½, ..."""
        slope = (self.last_rate - self.first_rate) / self.seconds
        found = []
        for number in range(self.users):
            target = number + 0.5
            # slope/2 t² + first t = target; in this form it also holds without a slope.
            root = (self.first_rate**2 + 2 * slope * target) ** 0.5
            found.append(2 * target / (self.first_rate + root))
        return found


@dataclass(frozen=True)
class Visit:
    """One user's request.

    Attributes:
        due_seconds: when it was to be made, since the load's begin.
        seconds: from when it counts until the answer, or until the user gave up.
    """

    due_seconds: float
    seconds: float
    is_answered: bool


def arrivals_seconds(phases: Sequence[Phase]) -> list[float]:
    """Of all phases, one after the other."""
    found = []
    begin = 0.0
    for phase in phases:
        found += [begin + at for at in phase.arrivals_seconds()]
        begin += phase.seconds
    return found


async def open_loop(
    port: int, paths: Sequence[str], dues_seconds: Sequence[float], patience_seconds: float
) -> list[Visit]:
    """Each user comes when due, whatever became of the others; times count from then."""
    begin = time.monotonic()

    async def visit(path: str, due: float) -> Visit:
        await asyncio.sleep(begin + due - time.monotonic())
        return await _visit(port, path, due, begin + due, patience_seconds)

    return await asyncio.gather(*map(visit, paths, dues_seconds))


async def closed_loop(
    port: int,
    paths: Sequence[str],
    dues_seconds: Sequence[float],
    patience_seconds: float,
    users: int,
) -> list[Visit]:
    """The same requests by a few users, each of whom sends nothing while it waits.

    Times count from when a request was sent. What has not been sent when the last one was due is
    left out, as such a load leaves it out.
    """
    begin = time.monotonic()
    left = list(zip(paths, dues_seconds, strict=True))[::-1]
    visits = []

    async def one_user() -> None:
        while left and time.monotonic() - begin <= dues_seconds[-1]:
            path, due = left.pop()
            await asyncio.sleep(begin + due - time.monotonic())
            sent = time.monotonic()
            visits.append(await _visit(port, path, sent - begin, sent, patience_seconds))

    await asyncio.gather(*(one_user() for _ in range(users)))
    return sorted(visits, key=lambda visit: visit.due_seconds)


async def _visit(
    port: int, path: str, due_seconds: float, since: float, patience_seconds: float
) -> Visit:
    try:
        async with asyncio.timeout_at(
            asyncio.get_running_loop().time() + since + patience_seconds - time.monotonic()
        ):
            await get(port, path)
    except (TimeoutError, OSError):
        return Visit(due_seconds, patience_seconds, is_answered=False)
    return Visit(due_seconds, time.monotonic() - since, is_answered=True)

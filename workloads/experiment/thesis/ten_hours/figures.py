"""What follows from the reads of the ten hours: hit ratios, and access times by (8.2) and drawn."""

from __future__ import annotations

from collections.abc import Sequence

from workloads.experiment.study.study import Data
from workloads.experiment.thesis.ten_hours.loads import BACKEND_SECONDS, REQUESTS, SERVERS
from workloads.experiment.thesis.ten_hours.play import CACHE_SECONDS

# Table 8.6: hit ratios, and access times in seconds: P1, P2, in all.
THESIS_HIT_RATIOS = {"Redis": (0.541, 0.386), "SPREDS": (0.617, 0.352)}
THESIS_SECONDS = {"Redis": (0.0216, 0.3021, 0.0449), "SPREDS": (0.0152, 0.3359, 0.0419)}

Reads = list[list[float]]


def reads(run: Data, way: str, first_hour: int = 0) -> Reads:
    """Of each server from ``first_hour`` (0: the first) on: requests, hits, seconds waited."""
    hours = run["ways"][way]["hours"][first_hour:]
    return [
        [sum(hour[place][part] for hour in hours) for part in range(3)]
        for place in range(len(SERVERS))
    ]


def hit_ratios(found: Reads) -> list[float]:
    """Of each server."""
    return [hits / requests for requests, hits, _ in found]


def by_equation(
    hits: Sequence[float], requests: Sequence[float], cache_seconds: float = CACHE_SECONDS
) -> list[float]:
    """(8.2) for each server, and their mean by requests; seconds."""
    times = [
        hit * cache_seconds + (1 - hit) * BACKEND_SECONDS[name]
        for name, hit in zip(SERVERS, hits, strict=True)
    ]
    weighted = sum(time * count for time, count in zip(times, requests, strict=True))
    return [*times, weighted / sum(requests)]


def of_reads(found: Reads) -> list[float]:
    """The same of measured hit ratios."""
    return by_equation(hit_ratios(found), [requests for requests, _, _ in found])


def of_clients(found: Reads) -> list[float]:
    """What the clients would have waited, with backends as they were drawn; as ``by_equation``."""
    times = [seconds / requests for requests, _, seconds in found]
    return [*times, sum(one[2] for one in found) / sum(one[0] for one in found)]


def thesis_recomputed(column: str) -> list[float]:
    """(8.2) of the hit ratios in Table 8.6, whose cache takes no time."""
    return by_equation(THESIS_HIT_RATIOS[column], [REQUESTS[name] for name in SERVERS], 0.0)


def change_ratio(run: Data, way: str, base: str, first_hour: int = 0) -> float:
    """Of the clients' mean access time; below 0 where it is shorter than the base's."""
    ours, others = (of_clients(reads(run, one, first_hour))[-1] for one in (way, base))
    return ours / others - 1

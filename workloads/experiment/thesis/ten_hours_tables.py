"""What follows from the reads of ten hours: hit ratios, access times by (8.2), and tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workloads.experiment.picture import spread
from workloads.experiment.study import Data, Table
from workloads.experiment.thesis.ten_hours_play import (
    BACKEND_SECONDS,
    BEST,
    CACHE_SECONDS,
    EQUAL,
    REQUESTS,
    SERVERS,
    WAYS,
    Way,
)
from workloads.table import percent, signed_percent

# Table 8.6: hit ratios, and access times in seconds: P1, P2, in all.
THESIS_HIT_RATIOS = {"Redis": (0.541, 0.386), "SPREDS": (0.617, 0.352)}
THESIS_SECONDS = {"Redis": (0.0216, 0.3021, 0.0449), "SPREDS": (0.0152, 0.3359, 0.0419)}

Reads = list[list[float]]
TIMES = (*(f"access time, {name}" for name in SERVERS), "access time, mean")


def reads(run: Data, way: str, first_hour: int = 0) -> Reads:
    """Sum requests, hits and seconds waited by server, from ``first_hour`` (0: the first) on."""
    hours = run["ways"][way]["hours"][first_hour:]
    return [
        [sum(hour[place][part] for hour in hours) for part in range(3)]
        for place in range(len(SERVERS))
    ]


def hit_ratios(found: Reads) -> list[float]:
    """Return the hit ratio of each server."""
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
    """Apply ``by_equation`` to measured hit ratios."""
    return by_equation(hit_ratios(found), [requests for requests, _, _ in found])


def of_clients(found: Reads) -> list[float]:
    """Return what clients would have waited, with backends as drawn; as ``by_equation``."""
    times = [seconds / requests for requests, _, seconds in found]
    return [*times, sum(one[2] for one in found) / sum(one[0] for one in found)]


def thesis_recomputed(column: str) -> list[float]:
    """(8.2) of the hit ratios in Table 8.6, whose cache takes no time."""
    return by_equation(THESIS_HIT_RATIOS[column], [REQUESTS[name] for name in SERVERS], 0.0)


def change_ratio(run: Data, way: str, base: str, first_hour: int = 0) -> float:
    """Return the change of the mean access time; below 0 where it is shorter than the base's."""
    ours, others = (of_clients(reads(run, one, first_hour))[-1] for one in (way, base))
    return ours / others - 1


def tables(data: Data) -> list[Table]:
    """Table 8.6 of ours, the thesis' beside it, and what of the possible was gained."""
    return [_ours(data), _thesis(), _gained(data)]


def measured_ways(data: Data) -> list[Way]:
    """Return the ways that there are figures of, in their order."""
    return [way for way in WAYS if way.name in data["runs"][0]["ways"]]


def _ours(data: Data) -> Table:
    ways = measured_ways(data)
    figures: list[tuple[str, Callable[[Reads], list[float]], int, Callable[[float], str]]] = []
    for place, name in enumerate(SERVERS):
        figures.append((f"hit ratio, {name}", hit_ratios, place, percent))
    for words, times in (("by (8.2)", of_reads), ("of clients", of_clients)):
        figures += [(f"{what}, {words}", times, place, _ms) for place, what in enumerate(TIMES)]
    rows = [
        [what]
        + [spread([of(reads(run, way.name))[at] for run in data["runs"]], told) for way in ways]
        for what, of, at, told in figures
    ]
    for place, name in enumerate(SERVERS):
        ends = [
            [run["ways"][way.name]["sizes_bytes"][-1][place] for run in data["runs"]]
            for way in ways
        ]
        rows.append([f"size at the end, {name}", *(spread(one, _mebibytes) for one in ends)])
    first = data["runs"][0]
    count = len(data["runs"])
    seeds = f"median of {count} seeds (least to greatest)" if count > 1 else "one seed"
    second = "" if data["has_trace"] else " (generated load in place of the trace)"
    return Table(
        f"All {data['hours']} hours of {data['hour_seconds']:g} s each, {seeds}, with P1: "
        f"{first['loads'][0]}; P2: {first['loads'][1]}{second}",
        ["", *(way.words for way in ways)],
        rows,
    )


def _thesis() -> Table:
    columns = list(THESIS_HIT_RATIOS)
    rows = [
        [f"hit ratio, {name}", *(percent(THESIS_HIT_RATIOS[c][place]) for c in columns), "", ""]
        for place, name in enumerate(SERVERS)
    ]
    recomputed = {column: thesis_recomputed(column) for column in columns}
    rows += [
        [what]
        + [_ms(THESIS_SECONDS[column][place]) for column in columns]
        + [_ms(recomputed[column][place]) for column in columns]
        for place, what in enumerate(TIMES)
    ]
    printed = THESIS_SECONDS["SPREDS"][-1] / THESIS_SECONDS["Redis"][-1] - 1
    by_equation = recomputed["SPREDS"][-1] / recomputed["Redis"][-1] - 1
    rows.append(
        ["change of the mean", "", signed_percent(printed), "", signed_percent(by_equation)]
    )
    return Table(
        "Table 8.6 as printed, and what (8.2) gives from its hit ratios",
        ["", *columns, *(f"{column}, by (8.2)" for column in columns)],
        rows,
    )


def _gained(data: Data) -> Table:
    half = data["hours"] // 2
    rows = []
    runs = data["runs"]
    for words, way in ((one.words, one.name) for one in measured_ways(data) if one != EQUAL):
        changes = [
            [change_ratio(run, way, EQUAL.name, first) for run in runs] for first in (0, half)
        ]
        kept = [
            change_ratio(run, way, EQUAL.name) / possible
            for run in runs
            if (possible := change_ratio(run, BEST.name, EQUAL.name)) < 0
        ]
        rows.append(
            [
                words,
                *(spread(one, lambda change: signed_percent(change, 2)) for one in changes),
                spread(kept, percent) if kept else "nothing to gain",
                *(
                    spread([run["ways"][way][what] for run in runs], "{:.0f}".format)
                    for what in ("plans", "carried_out")
                ),
            ]
        )
    return Table(
        "Clients' mean access time beside equal, fixed sizes, and the share of what the best fixed "
        "sizes gained",
        [
            "",
            "all hours",
            f"from hour {half + 1} on",
            "share of the possible",
            "plans",
            "of them moved memory",
        ],
        rows,
    )


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"


def _mebibytes(size_bytes: float) -> str:
    return f"{size_bytes / (1 << 20):.1f} MiB"

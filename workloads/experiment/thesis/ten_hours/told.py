"""The tables of the ten hours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from workloads.experiment.study.spread import spread
from workloads.experiment.study.study import Data, Table
from workloads.experiment.thesis.ten_hours.figures import (
    THESIS_HIT_RATIOS,
    THESIS_SECONDS,
    Reads,
    change_ratio,
    hit_ratios,
    of_clients,
    of_reads,
    reads,
    thesis_recomputed,
)
from workloads.experiment.thesis.ten_hours.loads import SERVERS
from workloads.experiment.thesis.ten_hours.ways import BEST, EQUAL, WAYS
from workloads.table import percent, signed_percent

TIMES = (*(f"access time, {name}" for name in SERVERS), "access time, mean")


def tables(data: Data) -> list[Table]:
    """Table 8.6 of ours, the thesis' beside it, and what of the possible was gained."""
    return [_ours(data), _thesis(), _gained(data)]


def _ways(data: Data) -> list[str]:
    return [way.name for way in WAYS if way.name in data["runs"][0]["ways"]]


def _words(name: str) -> str:
    return next(way.words for way in WAYS if way.name == name)


@dataclass(frozen=True)
class _Place:
    """One of the figures that ``of`` gives."""

    of: Callable[[Reads], list[float]]
    place: int

    def __call__(self, found: Reads) -> float:
        return self.of(found)[self.place]


def _ours(data: Data) -> Table:
    values: list[tuple[str, _Place, Callable[[float], str]]] = []
    for place, name in enumerate(SERVERS):
        values.append((f"hit ratio, {name}", _Place(hit_ratios, place), percent))
    for words, times in (("by (8.2)", of_reads), ("of clients", of_clients)):
        values += [
            (f"{what}, {words}", _Place(times, place), _ms) for place, what in enumerate(TIMES)
        ]
    rows = [
        [what]
        + [spread([value(reads(run, way)) for run in data["runs"]], told) for way in _ways(data)]
        for what, value, told in values
    ]
    for place, name in enumerate(SERVERS):
        ends = [
            [run["ways"][way]["sizes_bytes"][-1][place] for run in data["runs"]]
            for way in _ways(data)
        ]
        rows.append([f"size at the end, {name}", *(spread(one, _mebibytes) for one in ends)])
    first = data["runs"][0]
    count = len(data["runs"])
    seeds = f"median of {count} seeds (least to greatest)" if count > 1 else "one seed"
    second = "" if data["has_trace"] else " (generated load in place of the trace)"
    return Table(
        f"All {data['hours']} hours of {data['hour_seconds']:g} s each, {seeds}, with P1: "
        f"{first['loads'][0]}; P2: {first['loads'][1]}{second}",
        ["", *map(_words, _ways(data))],
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
    for way in _ways(data):
        if way == EQUAL.name:
            continue
        runs = data["runs"]
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
                _words(way),
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

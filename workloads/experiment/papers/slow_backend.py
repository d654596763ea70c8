"""A slow backend behind a front with Redis, under users who come in phases."""

from __future__ import annotations

import statistics
from typing import Any

from workloads.experiment.papers.slow_backend_runs import WINDOWS, measure
from workloads.experiment.picture import spread
from workloads.experiment.study import Data, Figure, Headline, Study, Table
from workloads.table import milliseconds, percent

TITLES = {
    "without": "no cache, open loop",
    "cached": "Redis, open loop",
    "coalesced": "Redis and one call a key, open loop",
    "closed": "no cache, closed loop",
}
STYLES = {"without": "k-o", "cached": "C0--s", "coalesced": "C2:^", "closed": "C1-.x"}


def conclude(data: Data) -> str:
    """Say what the cache does, and what a closed loop does not show."""
    without, cached, closed = (_of(data, name) for name in ("without", "cached", "closed"))
    crowd = data["crowds"][-1]
    calls, alone = _range(crowd["calls"]), _range(data["crowds"][-2]["calls"])
    what = "backend call" if calls == "1" else "backend calls"
    return (
        f"Without a cache {percent(without['failed'] / without['users'])} of the users give up and "
        f"the median is {milliseconds(without['p50'])}, where they wait for "
        f"{milliseconds(data['patience_seconds'])} at most; with Redis it is "
        f"{percent(cached['failed'] / cached['users'])} and {milliseconds(cached['p50'])}, and a "
        f"crowd of {crowd['users']} at {data['keys']} keys makes {calls} {what} where one "
        f"call a key is made, {alone} where each miss calls. The closed loop tells "
        f"{milliseconds(closed['p50'])} of the backend without a cache, from "
        f"{percent(closed['users'] / data['scheduled'])} of the requests."
    )


def tables(data: Data) -> list[Table]:
    """Calls, phases, calls of the loads, and Artillery beside them."""
    found = [_crowds(data), _phases(data), _loads(data)]
    played = data["artillery"]
    if played and played["loads"]:
        found.append(_artillery(data, played))
    return found


def _crowds(data: Data) -> Table:
    return Table.of(
        f"A crowd that comes at once for {data['keys']} keys of a backend that "
        f"takes {milliseconds(data['crowd_backend_seconds'])}, one after the other (all crowds "
        "begin at once, in one process)",
        data["crowds"],
        {
            "users": lambda one: str(one["users"]),
            "who misses": lambda one: (
                "calls" if one["way"] == "cached" else "joins a call for its key"
            ),
            "backend calls": lambda one: _range(one["calls"]),
            "answered in time": lambda one: _range(one["answered"]),
            "the last one's wait": lambda one: spread(one["last_seconds"], milliseconds),
        },
    )


def _phases(data: Data) -> Table:
    rows = []
    for name, runs in data["loads"].items():
        for phase in data["phases"]:
            of = [run["phases"][phase["name"]] for run in runs]
            rows.append(
                [
                    f"{TITLES[name]}: {phase['name']}",
                    spread([one["users"] / phase["seconds"] for one in of], "{:.0f}/s".format),
                    *(_times(of, part) for part in ("p50", "p95", "p99")),
                    spread([one["failed"] / max(1, one["users"]) for one in of], percent),
                ]
            )
    return Table(
        f"Latency by phase, with a backend of {milliseconds(data['backend_seconds'])}, where who "
        f"gives up counts with {milliseconds(data['patience_seconds'])}",
        ["load and phase", "requests", "p50", "p95", "p99", "give up"],
        rows,
    )


def _loads(data: Data) -> Table:
    return Table(
        f"Each load as a whole, of {data['scheduled']} scheduled requests",
        ["load", "requests made, of those scheduled", "backend calls", "failed fills", "give up"],
        [
            [
                TITLES[name],
                spread([run["all"]["users"] / data["scheduled"] for run in runs], percent),
                _range([run["calls"] for run in runs]),
                _range([run.get("failed_fills", 0) for run in runs]),
                spread([run["all"]["failed"] / run["all"]["users"] for run in runs], percent),
            ]
            for name, runs in data["loads"].items()
        ],
    )


def _artillery(data: Data, played: dict[str, Any]) -> Table:
    rows = []
    for name, its in played["loads"].items():
        rows.append([f"{TITLES[name]}: Artillery", *_beside(its, its), str(its["calls"])])
        # One run beside one run.
        ours = data["loads"][name][0]["all"]
        calls = _range([run["calls"] for run in data["loads"][name]])
        rows.append([f"{TITLES[name]}: ours", *_beside(ours, ours["answered"]), calls])
    return Table(
        f"Artillery {played['version']} with the same phases, one run, beside our first seed; "
        "times of what was answered",
        ["load", "users", "give up", "p50", "p95", "p99", "backend calls"],
        rows,
    )


def _beside(counts: dict[str, Any], times: dict[str, Any]) -> list[str]:
    return [
        str(counts["users"]),
        percent(counts["failed"] / counts["users"]),
        *(
            "-" if times[part] is None else milliseconds(times[part])
            for part in ("p50", "p95", "p99")
        ),
    ]


def draw(figure: Figure, data: Data) -> None:
    """Latency over time of the first seed, by phase; below, the requests made."""
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    for name, runs in data["loads"].items():
        series = runs[0]["series"]
        at = [one["at_seconds"] for one in series]
        above.plot(
            at, [one["p50"] * 1000 for one in series], STYLES[name], ms=3, label=TITLES[name]
        )
        if name in ("without", "closed"):
            below.plot(*_rates(data, series), STYLES[name], ms=3)
    begin = 0.0
    for phase in data["phases"]:
        for panel in (above, below):
            panel.axvline(begin, color="0.8", lw=0.8)
        above.annotate(
            phase["name"],
            (begin + phase["seconds"] / 2, 1.01),
            xycoords=("data", "axes fraction"),
            ha="center",
            va="bottom",
            fontsize="small",
        )
        begin += phase["seconds"]
    above.axhline(
        data["patience_seconds"] * 1000,
        color="0.4",
        ls=":",
        lw=1.2,
        label="who waits so long gives up",
    )
    above.set(yscale="log", ylabel="median latency (ms)")
    figure.legend(
        *above.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize="x-small"
    )
    below.set(xlabel="time (s)", ylabel="requests/s")
    below.set_ylim(bottom=0)
    for panel in (above, below):
        panel.grid(alpha=0.3)


def _rates(data: Data, series: list[dict[str, Any]]) -> tuple[list[float], list[float]]:
    """Windows' middles in seconds, and the requests a second made in each; in windows that the
    series leaves out there were none."""
    width = sum(phase["seconds"] for phase in data["phases"]) / WINDOWS
    rates = [0.0] * WINDOWS
    for one in series:
        rates[int(one["at_seconds"] / width)] = one["users"] / width
    return [(number + 0.5) * width for number in range(WINDOWS)], rates


def headlines(data: Data) -> list[Headline]:
    """Tell how many users give up."""
    shares = [
        _of(data, name)["failed"] / _of(data, name)["users"] for name in ("without", "cached")
    ]
    return [
        Headline(
            "users of a slow backend who give up, without and with Redis before it",
            " and ".join(map(percent, shares)),
            "87 % and none (the paper on node and Redis)",
        )
    ]


def missed(data: Data) -> list[str]:
    """Calls beyond one a key, fills that failed, users lost in spite of the cache, no Artillery."""
    found = []
    for one in data["crowds"]:
        wanted = min(one["users"], data["keys"])
        is_crowd = one["users"] > 1 and one["way"] == "coalesced"
        if is_crowd and set(one["calls"]) != {wanted}:
            calls = _range(one["calls"])
            found.append(
                f"A crowd of {one['users']} made {calls} backend call{'s' * (calls != '1')}, and "
                f"not {wanted}; {_range(one['answered'])} of them were answered in time."
            )
    if fills := sum(map(_failed_fills, data["crowds"])) + sum(
        run.get("failed_fills", 0) for runs in data["loads"].values() for run in runs
    ):
        found.append(f"The cache was not filled with what was missing in {fills} cases.")
    lost = sum(run["all"]["failed"] for run in data["loads"]["cached"])
    if lost:
        found.append(f"{lost} users gave up although there was a cache.")
    if data["artillery"] and data["artillery"]["failed"]:
        found.append(f"Artillery was not asked: {data['artillery']['failed']}.")
    return found


def _of(data: Data, name: str) -> dict[str, float]:
    """Return the figures of all phases, the median of the seeds."""
    wholes = [run["all"] for run in data["loads"][name]]
    return {
        key: statistics.median(one[key] for one in wholes) for key in ("users", "failed", "p50")
    }


def _times(of: list[dict[str, Any]], part: str) -> str:
    values = [one[part] for one in of if one[part] is not None]
    return spread(values, milliseconds) if values else "-"


def _failed_fills(crowd: dict[str, Any]) -> int:
    """Count failed fills of all repetitions; none in figures of before they were counted."""
    return sum(crowd.get("failed_fills", []))


def _range(values: list[int]) -> str:
    if min(values) == max(values):
        return str(values[0])
    return f"{statistics.median(values):g} ({min(values)} to {max(values)})"


STUDY = Study(
    name="slow-backend",
    title="A slow backend behind Redis, under load in phases",
    question="What do users feel of a slow backend, and what does a cache before it change?",
    beside=(
        "93 of 726 users were answered without a cache, all with Redis before the backend, which "
        "was then called ten times, once a key (F. del Mazo, J. Hojman, L. Kasman, J. P. Rombolá "
        "and A. Schmidt, *Trabajo Práctico 2*, Universidad de Buenos Aires, 2022, studies 1 and 2)."
    ),
    method=(
        "A front of our own looks aside in a real Redis; its backend answers one request after the "
        "other. Users come when they are due, in four phases as Artillery's, ten times as fast as "
        "the paper's, and so are backend and patience; the crowds' backend is as slow as the "
        "paper's in the full form alone (the first table says how slow). All but Redis and "
        "Artillery runs in one process."
    ),
    measure=measure,
    conclude=conclude,
    tables=tables,
    draw=draw,
    headlines=headlines,
    differences=(
        "The paper's users ask for the ten keys in turn, one a second at first, so that no two "
        "miss the same one; ours ask at random, so that some do, and each such miss calls the "
        "backend once more unless the front lets it wait for the first.",
        "The paper gives its phases as a picture without numbers; ours have nearly its number of "
        "users in the full form, and a tenth of it in the quick one.",
        "A second front, the paper's third study, is left out: the backend is what is slow.",
    ),
    missed=missed,
    size_inches=(7.5, 5.2),
)

"""Base, transition and steady phase around each change of a server's size."""

from __future__ import annotations

import statistics
from typing import Any

from workloads.experiment.papers.phase_runs import (
    HITS_WINDOW_SECONDS,
    PHASES,
    RATE_PER_SECOND,
    WAYS,
    Plan,
    missed,
    play,
)
from workloads.experiment.picture import plain_ticks, spread
from workloads.experiment.study import Data, Figure, Headline, Scope, Study, Table
from workloads.table import milliseconds, percent

FULL = Plan(objects=50_000, base_seconds=2.2, shrink_seconds=7.5, grow_seconds=7.5)
# Nothing is to be waited for.
UNCHANGED = Plan(objects=50_000, base_seconds=2.2, shrink_seconds=3.0, grow_seconds=3.0)
# The sidecar hands over twice as much each second: a growth takes five and more, whatever its size.
QUICK = Plan(objects=6_000, base_seconds=0.7, shrink_seconds=1.5, grow_seconds=0.0)
QUICK_WAYS = ("paced",)
CHANGES = {"shrink": "to half", "grow": "by half"}
STYLES = {"by hand": ("C1", "--"), "paced": ("C0", "-")}


def measure(scope: Scope) -> Data:
    """Measure each way on a fresh server, one after the other, for each seed."""
    ways = QUICK_WAYS if scope.is_quick else tuple(WAYS)
    runs: dict[str, list[Any]] = {way: [] for way in ways}
    for number, seed in enumerate(scope.seeds):
        for place, way in enumerate(ways):
            done = (number + place / len(ways)) / len(scope.seeds)
            scope.progress(f"{way}, seed {seed}", done)
            plan = QUICK if scope.is_quick else UNCHANGED if way == "nothing" else FULL
            run = play(way, plan, seed)
            if number:  # the picture has those of the first
                for change in run.values():
                    del change["series"]
            runs[way].append(run)
    return {"objects": (QUICK if scope.is_quick else FULL).objects, "ways": runs}


def conclude(data: Data) -> str:
    """Say how long a shrink's transition is, and what requests take meanwhile with each way."""
    after = _same_time(data)
    parts = []
    for way, runs in data["ways"].items():
        if way == "nothing":
            continue
        lengths = _lengths([run["shrink"] for run in runs])
        took = (
            f"its hit ratio takes {_length(statistics.median(lengths))} to the new level"
            if lengths
            else "no transition of its hit ratio was found"
        )
        parts.append(f"{took} {way}, and requests take {_mean(data, way, after)} in the mean")
    text = (
        f"When a server is shrunk to half, in the {after:.1f} s after the order: "
        f"{'; '.join(parts)}."
    )
    if "nothing" in data["ways"]:
        series = [change for run in data["ways"]["nothing"] for change in run.values()]
        found = sum(1 for change in series if any(change["found"].values()))
        text += (
            f" Where nothing changes it is {_mean(data, 'nothing', after)}, and a phase is found "
            f"in {found} of {len(series)} series."
        )
    return text


def _same_time(data: Data) -> float:
    """The longest transition of a shrink, so that no way is judged by a shorter time: seconds."""
    lengths = [
        statistics.median(found)
        for runs in data["ways"].values()
        if (found := _lengths([run["shrink"] for run in runs]))
    ]
    return max(HITS_WINDOW_SECONDS, *lengths, 0.0)


def _mean(data: Data, way: str, seconds: float) -> str:
    runs = [run["shrink"]["phases"] for run in data["ways"][way]]
    return spread([mean_after(phases, seconds) for phases in runs], milliseconds)


def mean_after(phases: Data, seconds: float) -> float:
    """Return the mean latency in the first ``seconds`` of transition and steady phase, which counts
    as even; where no transition was found, of all that was measured."""
    told = [phases[name] for name in PHASES[1:] if phases.get(name)] or [phases[PHASES[0]]]
    left, total = seconds * RATE_PER_SECOND, 0.0
    for one in told[:-1]:
        count = min(left, one["requests"])
        total += count * one["mean"]
        left -= count
    return float((total + left * told[-1]["mean"]) / (seconds * RATE_PER_SECOND))


def tables(data: Data) -> list[Table]:
    """Show where the phases' bounds were found, and what each phase is like."""
    bounds, phases = [], []
    for way, runs in data["ways"].items():
        for change in runs[0]:
            what = CHANGES[change]
            found = [run[change] for run in runs]
            title = f"{way}: {change} {what}" if way != "nothing" else f"nothing: {change} left out"
            bounds.append(_bounds_row(title, found))
            phases += [_phase_row(title, phase, found) for phase in PHASES]
    return [
        Table(
            "Transitions as found in the series, in seconds since the change was ordered",
            ["change", "hit ratio moves: from", "to", "over", "latency spikes: in", "from", "to"],
            bounds,
        ),
        Table(
            "The phases (median of the repetitions, least to most)",
            ["change and phase", "p50", "p90", "p99", "mean", "hit ratio"],
            phases,
        ),
    ]


def _bounds_row(title: str, found: list[Any]) -> list[str]:
    ramps, spikes = (_found(found, name) for name in ("hits", "latency"))
    over = sum(1 for one in found if one["found"]["hits"] and one["is_over"])
    return [
        title,
        *(_seconds([one[end] for one in ramps]) for end in (0, 1)),
        f"{over} of {len(ramps)}" if ramps else "-",
        f"{len(spikes)} of {len(found)}",
        *(_seconds([one[end] for one in spikes]) for end in (0, 1)),
    ]


def _phase_row(title: str, phase: str, found: list[Any]) -> list[str]:
    told = [one["phases"][phase] for one in found if one["phases"].get(phase)]
    if not told:
        return [f"{title}, {phase}", *["-"] * 5]
    return [
        f"{title}, {phase}",
        *(spread([one[part] for one in told], milliseconds) for part in ("p50", "p90", "p99")),
        spread([one["mean"] for one in told], milliseconds),
        spread([one["hit_ratio"] for one in told], percent),
    ]


def draw(figure: Figure, data: Data) -> None:
    """Latency above, hit ratio below, of the first repetition; vertical lines are the bounds found,
    and the change itself is a grey one."""
    ways = [way for way in data["ways"] if way != "nothing"]
    changes = list(data["ways"][ways[0]][0])
    panels = figure.subplots(2, len(changes), sharex="col", squeeze=False)
    for column, change in enumerate(changes):
        panels[0][column].set_title(f"{change} {CHANGES[change]}")
        for way in ways:
            run = data["ways"][way][0][change]
            for row, (name, factor) in enumerate((("latency", 1000), ("hits", 1))):
                panel, series = panels[row][column], run["series"][name]
                at = [
                    series["from_seconds"] + (place + 0.5) * series["window_seconds"]
                    for place in range(len(series["values"]))
                ]
                values = [value * factor for value in series["values"]]
                colour, line = STYLES[way]
                panel.plot(at, values, color=colour, ls=line, lw=0.9, label=way)
                for bound in run["found"][name] or ():
                    words = f"{way}: a bound that was found"
                    panel.axvline(bound, color=colour, ls=line, lw=1.8, alpha=0.6, label=words)
        panels[0][column].set_yscale("log")
        plain_ticks(panels[0][column].yaxis)
        for row in (0, 1):
            panels[row][column].axvline(0, color="0.8", lw=3, zorder=0, label="the change")
            panels[row][column].grid(alpha=0.3)
        panels[1][column].set_xlabel("time since the change was ordered (s)")
    panels[0][0].set_ylabel("median latency (ms)")
    panels[1][0].set_ylabel("hit ratio")
    told: dict[str, Any] = {}
    for panel in panels.flat:
        for line, words in zip(*panel.get_legend_handles_labels(), strict=True):
            told.setdefault(words, line)
    figure.legend(
        told.values(), told.keys(), loc="outside lower center", ncols=3, fontsize="x-small"
    )


def headlines(data: Data) -> list[Headline]:
    """Return what a shrink costs, by way, over the same time."""
    after = _same_time(data)
    return [
        Headline(
            f"mean latency in the {after:.1f} s after a server was told to shrink to half: "
            f"{'; '.join(data['ways'])}",
            "; ".join(_mean(data, way, after) for way in data["ways"]),
        )
    ]


def _found(found: list[Any], name: str) -> list[list[float]]:
    return [one["found"][name] for one in found if one["found"][name]]


def _lengths(found: list[Any]) -> list[float]:
    return [end - begin for begin, end in _found(found, "hits")]


def _length(seconds: float) -> str:
    is_step = seconds < HITS_WINDOW_SECONDS / 2
    return f"less than {HITS_WINDOW_SECONDS:g} s" if is_step else f"{seconds:.1f} s"


def _seconds(values: list[float]) -> str:
    # Of a rounding in a window's place there is no minus zero.
    return spread([value + 0.0 for value in values], "{:.2f}".format) if values else "-"


STUDY = Study(
    name="phases",
    title="Base, transition and steady phase of each change of size",
    question="What do clients feel before, while and after a server's size changes?",
    beside=(
        "With a placement that knows the nodes' load, TeaStore's authentication service was 2, "
        "1.77 and 2.21 times better than with Kubernetes' default at the 50th, 90th and 99th "
        "percentiles of the transition phase, and 1.75, 1.25 and 1.17 times in the steady phase "
        "(the thesis, section 6.4.1, E1, Figures 6.2 to 6.4); Tomcat's service 1.11, 1.48 and 2.06 "
        "times, and 1.5, 1.43 and 1.13 times (E2, Figure 6.5)."
    ),
    method=(
        "5,000 look-aside requests a second, open loop, evenly over 1.25 times the keys that a "
        "real Redis holds; it is shrunk to half, then (in the full form) grown by half of that, by "
        "CONFIG SET (by hand) or by the sidecar's actuator (paced). The bounds of the phases are "
        "found in the series: level, line and level by least squares in the hit ratio (windows of "
        "0.1 s), CUSUM in the logarithm of the median latency (0.02 s)."
    ),
    measure=measure,
    conclude=conclude,
    tables=tables,
    draw=draw,
    headlines=headlines,
    differences=(
        "The thesis adds a replica and compares nodes; here one server changes its size, and what "
        "is compared is the way in which that is done.",
        "The thesis tells the transition by the spike of latencies after the change; a paced "
        "change makes hardly any, and the hit ratio's move is what has a beginning and an end.",
        "Keys are asked for evenly, so that both levels of the hit ratio are known; a backend's "
        "time is not in the latencies.",
    ),
    missed=missed,
    size_inches=(8.0, 5.0),
)

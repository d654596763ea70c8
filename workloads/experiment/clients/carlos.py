"""``experiment carlos``: the recipe by which chapter 7 judges CARLOs, on a SPREDS node."""

from __future__ import annotations

import statistics

from workloads.arguments import TWITTER
from workloads.experiment.clients.carlos_runs import (
    METRICS,
    SIGNIFICANT,
    WAYS,
    WORKERS,
    alike_mean_seconds,
    application_speed_ups,
    cells,
    interquartile_seconds,
    measure,
    significance,
    speed_ups,
)
from workloads.experiment.picture import spread
from workloads.experiment.study import Data, Figure, Headline, Study, Table
from workloads.table import milliseconds, percent

THEIRS = {"Replay": "1.05 to 1.07 (Table 7.1)", "Zipf": "1.06 to 1.09 (Table 7.1)"}


def conclude(data: Data) -> str:
    """Speed-ups, and how many of them are more than chance."""
    parts, different = [], 0
    for workload, size, runs in cells(data):
        unmoved = "" if any(run["moves"] for run in runs) else " (no plan moved memory)"
        speed_up = statistics.median(speed_ups(runs))
        parts.append(f"{_named(workload, data)}, {size} caches {speed_up:.2f}{unmoved}")
        different += significance(runs, "throughput")[0] < SIGNIFICANT
    return (
        f"Throughput with SPREDS over that with equal shares, in the recipe of chapter 7: "
        f"{'; '.join(parts)}. More than chance at the 5 % level (ANOVA over windows): {different} "
        f"of {len(parts)}."
    )


def tables(data: Data) -> list[Table]:
    """Make tables as Figures 7.2 and 7.3 and Tables 7.1 and 7.3."""
    latencies, throughputs, tests = [], [], []
    for workload, size, runs in cells(data):
        for way, told in WAYS.items():
            latencies.append(_latency_row(f"{_named(workload, data)}, {size}, {told}", runs, way))
        throughputs.append(_throughput_row(f"{_named(workload, data)}, {size}", runs))
        for metric in METRICS:
            anova, ranks = significance(runs, metric)
            different = "yes" if anova < SIGNIFICANT else "no"
            tests.append([f"{workload}, {size}, {metric}", _p(anova), _p(ranks), different])
    after = f"in a run of {data['run_seconds']:g} s from empty caches"
    if data["warm_seconds"]:
        after = f"after the first {data['warm_seconds']:g} s of {data['run_seconds']:g} s"
    return [
        Table(
            f"Latency of all requests {after}, of which a faster application makes more; the last "
            "column weighs the applications as equal shares do; medians over seeds (least to "
            "greatest)",
            [
                *("workload", "hits", "quartile", "median", "quartile", "IQR", "p99", "mean"),
                "mean, same weights",
            ],
            latencies,
        ),
        Table(
            f"Requests a second {after}, cycles of {data['cycle_seconds']:g} s; medians over "
            "seeds (least to greatest)",
            [
                "workload",
                "equal shares",
                "SPREDS",
                "speed-up",
                f"of each application (of {', '.join(map(str, WORKERS))} workers)",
                "plans that moved memory",
            ],
            throughputs,
        ),
        Table(
            f"Equal shares against SPREDS: p-values over windows of {data['window_seconds']:g} s, "
            "of which those of one run are not independent",
            ["workload", "ANOVA", "Mann-Whitney", "different at 5 %"],
            tests,
        ),
    ]


def _named(workload: str, data: Data) -> str:
    if workload == "Replay" and not data["has_trace"]:
        return "Replay (generated load in place of the trace)"
    return workload


def _latency_row(label: str, runs: list[Data], way: str) -> list[str]:
    of = [run["ways"][way] for run in runs]
    quartile, median, third, p99 = (
        statistics.median(one["percentiles_seconds"][name] for one in of)
        for name in ("25", "50", "75", "99")
    )
    return [
        label,
        percent(statistics.median(one["hit_ratio"] for one in of)),
        *map(milliseconds, (quartile, median, third, interquartile_seconds(runs, way), p99)),
        spread([one["mean_seconds"] for one in of], milliseconds),
        spread(alike_mean_seconds(runs, way), milliseconds),
    ]


def _throughput_row(label: str, runs: list[Data]) -> list[str]:
    return [
        label,
        *(
            f"{statistics.median(run['ways'][way]['per_second'] for run in runs):,.0f}"
            for way in WAYS
        ),
        spread(speed_ups(runs), lambda ratio: f"{ratio:.3f}"),
        ", ".join(f"{ratio:.2f}" for ratio in application_speed_ups(runs)),
        spread([run["moves"] for run in runs], lambda moves: f"{moves:g}"),
    ]


def _p(value: float) -> str:
    return "< 0.0001" if value < 1e-4 else f"{value:.4f}"


def draw(figure: Figure, data: Data) -> None:
    """Boxes of latencies (5, 25, 50, 75 and 95 %), and the mean over the windows."""
    boxes, series = figure.subplots(1, 2, width_ratios=(1.2, 1))
    found = list(cells(data))
    colours = {"equal": "0.7", "spreds": "C0"}
    for place, (_, _, runs) in enumerate(found):
        for shift, way in zip((-0.2, 0.2), WAYS, strict=True):
            boxes.bxp(
                [_box(runs, way)],
                positions=[place + shift],
                widths=0.32,
                showfliers=False,
                patch_artist=True,
                boxprops={"facecolor": colours[way], "hatch": "//" if way == "spreds" else ""},
                medianprops={"color": "k"},
            )
    boxes.set(
        yscale="log",
        ylabel="latency, ms (5, 25, 50, 75, 95 %)",
        xticks=range(len(found)),
        xticklabels=[f"{workload}\n{size}" for workload, size, _ in found],
        title="left: equal shares, right: SPREDS",
    )
    for colour, (workload, size, runs) in zip(("C0", "C1", "C2", "C3"), found, strict=False):
        for way, style in (("equal", ":"), ("spreds", "-")):
            windows = zip(*(run["ways"][way]["windows_mean_seconds"] for run in runs), strict=True)
            means = [1000 * statistics.median(one) for one in windows]
            times = [data["warm_seconds"] + data["window_seconds"] * i for i in range(len(means))]
            label = f"{workload}, {size}" if way == "spreds" else None
            series.plot(times, means, style, color=colour, label=label)
    series.set(
        xlabel="time, s", ylabel="mean latency, ms", title="dotted: equal shares, solid: SPREDS"
    )
    series.set_ylim(0, None)
    series.legend(fontsize="x-small")
    series.grid(alpha=0.3)


def _box(runs: list[Data], way: str) -> dict[str, float]:
    percentiles = [run["ways"][way]["percentiles_seconds"] for run in runs]
    names = {"whislo": "5", "q1": "25", "med": "50", "q3": "75", "whishi": "95"}
    return {
        name: 1000 * statistics.median(one[percentile] for one in percentiles)
        for name, percentile in names.items()
    }


def headlines(data: Data) -> list[Headline]:
    """The speed-up of each workload, with the large caches."""
    return [
        Headline(
            f"throughput over equal shares in chapter 7's recipe, {_named(workload, data)}, "
            f"{size} caches",
            spread(speed_ups(runs), lambda ratio: f"{ratio:.2f}"),
            f"{THEIRS[workload]}: CARLOs over LeastConnections",
        )
        for workload, size, runs in cells(data)
        if size == "large"
    ]


def missed(data: Data) -> list[str]:
    """SPREDS is to be faster, by more than chance."""
    found = []
    for workload, size, runs in cells(data):
        median, (p, _) = statistics.median(speed_ups(runs)), significance(runs, "throughput")
        if p >= SIGNIFICANT:
            found.append(
                f"{workload}, {size} caches: throughput does not differ by more than chance "
                f"({median:.3f} times, p = {_p(p)})."
            )
        elif median < 1:
            found.append(f"{workload}, {size} caches: SPREDS is slower, {median:.3f} times.")
    return found


STUDY = Study(
    name="carlos",
    title="Chapter 7's recipe on a SPREDS node",
    question=(
        "By the recipe that judges CARLOs, with closed-loop workers whose requests are replayed or "
        "Zipfian: does SPREDS shorten latency and raise throughput?"
    ),
    beside=(
        "Sections 7.4 and 7.5: CARLOs, which routes requests to caches, beside LeastConnections: "
        "medians up to 20 % shorter, throughput 1.05 to 1.09 times (Table 7.1), the IQR up to 17 % "
        "shorter than UriHash's; two of three rivals differ by an ANOVA (Table 7.3)."
    ),
    method=(
        f"Four applications with {', '.join(map(str, WORKERS))} workers, each worker in a closed "
        "loop, on four patched Redis 7.0.15 that share 16 MiB (small caches) or 32 MiB (large), "
        "once with equal shares and, beside it at the same time, once with SPREDS, from empty "
        "caches. Replay: four sections of 30,000 requests of a Twitter trace; Zipf: exponent 0.5, "
        "as there, over 6,000 keys. The quick form has Replay with small caches alone. Objects of "
        "8 KiB in the mean; a miss waits for an exponential 15 ms. `spreds run` with default "
        "planning."
    ),
    measure=measure,
    conclude=conclude,
    tables=tables,
    draw=draw,
    headlines=headlines,
    missed=missed,
    differences=(
        "CARLOs chooses the cache for a request, SPREDS the size of a cache: another problem, "
        "judged in the same way. Four equal applications would leave SPREDS nothing to divide, so "
        "the 32 workers are shared out unevenly.",
        "Runs of seconds: most misses of the replayed sections are first requests of a key, which "
        "no size of a cache turns into hits; and SPREDS takes some cycles until it is sure.",
        "In a closed loop a faster application also asks more, so that what SPREDS gives to the "
        "busiest makes it busier; the table says what becomes of the others. A weight or a latency "
        "bound is for those who mind.",
        "Windows of half a second stand for those of ten, objects of 8 KiB for those of up to "
        "9 MB, and a Twitter trace for Yahoo's, which is not freely available.",
    ),
    traces=(TWITTER,),
    size_inches=(9.0, 4.0),
)

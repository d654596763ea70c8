"""``experiment ycsb``: the mean access time that YCSB measures, equal shares beside SPREDS."""

from __future__ import annotations

import statistics
from typing import Any

from workloads.experiment.clients.ycsb_node import Application, Run, play
from workloads.experiment.picture import quartiles, reach, spread
from workloads.experiment.study import Data, Figure, Headline, Scope, Study, StudyError, Table
from workloads.table import mebibytes, milliseconds, percent, signed_percent
from workloads.ycsb.client import YcsbError, YcsbLoad, ycsb_class_path

WORKLOADS = {"B": 0.95, "C": 1.0}
WAYS = {"equal": "equal shares", "spreds": "SPREDS"}
RUN_SECONDS, QUICK_RUN_SECONDS = 9.0, 2.5
CYCLE_SECONDS, QUICK_CYCLE_SECONDS = 1.0, 0.5
BUDGET_BYTES = 12 << 20


def applications(read_ratio: float, run_seconds: float, seed: int) -> list[Application]:
    """A wide one with a slow backend, and one whose keys all fit into less than an equal share."""

    def one(name: str, place: int, rate: float, **load: Any) -> Application:
        return Application(
            name,
            YcsbLoad(
                request_count=round(rate * run_seconds),
                rate_per_second=rate,
                read_ratio=read_ratio,
                settle_seconds=run_seconds // 2,
                seed=2 * seed + place,
                **load,
            ),
        )

    return [
        one("wide", 0, 4000, key_count=12_000, value_bytes=1000, backend_latency_seconds=0.080),
        one("narrow", 1, 3000, key_count=3_000, value_bytes=500, backend_latency_seconds=0.010),
    ]


def measure(scope: Scope) -> Data:
    """Each seed plays each workload twice; YCSB draws the keys of each run anew.

    Raises:
        StudyError: YCSB cannot be built, or failed.
    """
    scope.progress("building YCSB's binding", 0.0)
    try:
        ycsb_class_path()
    except YcsbError as error:
        raise StudyError(str(error)) from error
    run_seconds = QUICK_RUN_SECONDS if scope.is_quick else RUN_SECONDS
    cycle_seconds = QUICK_CYCLE_SECONDS if scope.is_quick else CYCLE_SECONDS
    names = ["B"] if scope.is_quick else list(WORKLOADS)
    # Who comes first changes, so that what the machine does meanwhile favours neither.
    steps = [
        (seed, name, way)
        for seed in scope.seeds
        for name in names
        for way in (WAYS if seed % 2 else reversed(WAYS))
    ]
    runs: dict[str, dict[str, list[Data]]] = {name: {way: [] for way in WAYS} for name in names}
    for done, (seed, name, way) in enumerate(steps):
        scope.progress(f"workload {name}, {WAYS[way]}", done / len(steps))
        asked = applications(WORKLOADS[name], run_seconds, seed)
        cycle = None if way == "equal" else cycle_seconds
        runs[name][way].append(as_json(play(asked, BUDGET_BYTES, cycle)))
    return {
        "run_seconds": run_seconds,
        "settle_seconds": run_seconds // 2,
        "cycle_seconds": cycle_seconds,
        "budget_bytes": BUDGET_BYTES,
        "seeds": list(scope.seeds),
        "workloads": runs,
    }


def as_json(run: Run) -> Data:
    """Return what tables, picture and conclusion need of a run."""
    return {
        "access_seconds": run.late_access_seconds,
        "hit_ratio": run.late_hit_ratio,
        "moves": run.moves,
        "applications": {
            name: {
                "hit_ratio": one.late.hit_ratio,
                "access_seconds": one.late.effective_access_time_seconds,
                "whole_access_seconds": one.whole.effective_access_time_seconds,
                "percentiles_seconds": one.late_percentiles_seconds,
                "asked_reads_per_second": one.asked_reads_per_second,
                "operations_per_second": one.operations_per_second,
                "maxmemory_bytes": one.maxmemory_bytes,
            }
            for name, one in run.applications.items()
        },
    }


def changes(data: Data, workload: str) -> list[float]:
    """Return each seed's mean access time with SPREDS against equal shares, a ratio less 1."""
    runs = data["workloads"][workload]
    return [
        after["access_seconds"] / before["access_seconds"] - 1
        for before, after in zip(runs["equal"], runs["spreds"], strict=True)
    ]


def conclude(data: Data) -> str:
    """Say by workload what became of the mean access time."""
    parts = []
    for name, runs in data["workloads"].items():
        before, after = (
            statistics.median(one["access_seconds"] for one in runs[way]) for way in WAYS
        )
        parts.append(
            f"under YCSB's workload {name} the mean access time was {milliseconds(before)} with "
            f"equal shares and {milliseconds(after)} with SPREDS, "
            f"a change of {spread(changes(data, name), signed_percent)}{_unmoved(runs['spreds'])}"
        )
    sentence = "; ".join(parts)
    return f"{sentence[0].upper()}{sentence[1:]}."


def _unmoved(runs: list[Data]) -> str:
    """Say that a difference is chance where no plan moved memory."""
    count = sum(not one["moves"] for one in runs)
    if count == len(runs):
        return ", which is chance, for no plan moved memory"
    return f" (no plan moved memory in {count} of {len(runs)} runs)" if count else ""


def tables(data: Data) -> list[Table]:
    """The node's means, and each application's."""
    nodes, each = [], []
    for name, runs in data["workloads"].items():
        for way, told in WAYS.items():
            of = runs[way]
            nodes.append(
                [
                    f"{name}, {told}",
                    spread([one["access_seconds"] for one in of], milliseconds),
                    spread([one["hit_ratio"] for one in of], percent),
                    spread(changes(data, name), signed_percent) if way == "spreds" else "",
                    spread([one["moves"] for one in of], "{:g}".format) if way == "spreds" else "",
                ]
            )
            for application in of[0]["applications"]:
                each.append(_application_row(f"{name}, {application}, {told}", application, of))
    count = len(data["seeds"])
    return [
        Table(
            f"Reads after the first {data['settle_seconds']:g} s of {data['run_seconds']:g} s, "
            "each application weighted by the reads that it is to make a second, cycles of "
            f"{data['cycle_seconds']:g} s; median of {count} seed{'s' if count > 1 else ''} "
            "(least to greatest)",
            ["workload", "mean access time", "hits", "change", "plans that moved memory"],
            nodes,
        ),
        Table(
            "Each application: hits and access times of these reads, operations a second of the "
            "whole run, size at its end; medians over seeds",
            ["workload", "hits", "mean", "quartile", "median", "quartile", "p99", "op/s", "size"],
            each,
        ),
    ]


def _application_row(label: str, application: str, runs: list[Data]) -> list[str]:
    of = [run["applications"][application] for run in runs]

    def middle(name: str) -> float:
        return float(statistics.median(one[name] for one in of))

    percentiles = [
        milliseconds(statistics.median(one["percentiles_seconds"][name] for one in of))
        for name in ("25", "50", "75", "99")
    ]
    return [
        label,
        percent(middle("hit_ratio")),
        milliseconds(middle("access_seconds")),
        *percentiles,
        f"{middle('operations_per_second'):,.0f}",
        mebibytes(middle("maxmemory_bytes")),
    ]


def draw(figure: Figure, data: Data) -> None:
    """A line for each seed, from equal shares to SPREDS; the bars are quartiles over seeds."""
    panels = figure.subplots(1, len(data["workloads"]), sharey=True, squeeze=False)[0]
    for panel, (name, runs) in zip(panels, data["workloads"].items(), strict=True):
        values = [[1000 * one["access_seconds"] for one in runs[way]] for way in WAYS]
        for pair in zip(*values, strict=True):
            panel.plot((0, 1), pair, "o-", color="0.7", markersize=4, label="a seed")
        for place, of in enumerate(values):
            middles, around = reach([of], ends=quartiles)
            panel.errorbar(
                place, middles, around, fmt="ks", capsize=6, markersize=5, label="median, quartiles"
            )
        panel.set(
            title=f"YCSB, workload {name}",
            xticks=(0, 1),
            xticklabels=WAYS.values(),
            xlim=(-0.4, 1.4),
        )
        panel.grid(axis="y", alpha=0.3)
    panels[0].set(ylabel="mean access time, ms")
    panels[0].set_ylim(0, 1.08 * panels[0].get_ylim()[1])
    handles, labels = panels[0].get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    panels[0].legend(once.values(), once.keys(), fontsize="x-small", loc="lower left")


def headlines(data: Data) -> list[Headline]:
    """Return one headline for each workload."""
    return [
        Headline(
            f"change of the mean access time that YCSB measures, workload {name}",
            spread(changes(data, name), signed_percent),
            "−6.7 % (Table 8.6, YCSB and KV-replay)",
        )
        for name in data["workloads"]
    ]


def missed(data: Data) -> list[str]:
    """SPREDS is to make it shorter, in each workload."""
    return [
        f"Under workload {name} the median over seeds is not shorter with SPREDS: "
        f"{spread(changes(data, name), signed_percent)}{_unmoved(runs['spreds'])}."
        for name, runs in data["workloads"].items()
        if statistics.median(changes(data, name)) >= 0
    ]


STUDY = Study(
    name="ycsb",
    title="YCSB as the client",
    question="Does SPREDS shorten the access time that YCSB measures, a client that others wrote?",
    beside=(
        "Section 8.5.3 and Table 8.6: YCSB's workload C beside a replayed trace on two servers of "
        "200 MB, hourly plans for ten hours: 44.9 to 41.9 ms (−6.7 %); by equation (8.2), from the "
        "same table's hit ratios, 125.0 to 113.3 ms (−9.3 %)."
    ),
    method=(
        "YCSB 0.17.0 with a binding of ours that fills on a miss (`workloads/ycsb/`), a process "
        "for each of two patched Redis 7.0.15 that share 12 MiB; 4,000 and 3,000 operations a "
        "second, scrambled Zipfian keys. Workload B has 5 % updates; C, which the quick form "
        "leaves out, has reads only. Empty caches at first; `spreds run` with the controller in "
        "it, default planning. The access time of a hit is what YCSB waited for GET, of a miss "
        "that and an exponential backend time (means 80 and 10 ms), which is added and not waited "
        "for."
    ),
    measure=measure,
    conclude=conclude,
    tables=tables,
    draw=draw,
    headlines=headlines,
    missed=missed,
    differences=(
        "The thesis has YCSB on one of its two servers, larger working sets, slower backends and "
        "hours instead of seconds; here the second server needs little of what it has, so that "
        "there is more to gain.",
        "YCSB cannot be given a seed for its keys: the two runs of a seed have other requests from "
        "the same distribution.",
    ),
    size_inches=(7.0, 3.6),
)

"""Figure 8.3: running time of the two solvers over partitions, and the gap that it leaves out."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from workloads.bench.solver.partition_instances import TRACES
from workloads.bench.solver.solver_verb import PLANNER, SAME_RATIO
from workloads.experiment.picture import quartiles, spread
from workloads.experiment.study import Data, Figure, Headline, Study, Table
from workloads.experiment.thesis.solver_runs import (
    COMPARED,
    DIRICHLET,
    LOOK_AHEAD,
    best_rules,
    kinds_of,
    measure,
    of_all_seeds,
    partitions_of,
    values,
)
from workloads.table import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHORT = {DIRICHLET: "Algorithm 8", LOOK_AHEAD: "LookAhead", PLANNER: "with the certificate"}
STYLES = {DIRICHLET: "C0o-", LOOK_AHEAD: "C1s-", PLANNER: "C2^--"}
KINDS = {"traces": "curves cut from traces", "random": "random curves with cliffs"}
THESIS_MOST_PARTITIONS = 7


def conclude(data: Data) -> str:
    """Whether the thesis' rule comes out, by time and by gap."""
    counts = partitions_of(data)
    kind = kinds_of(data)[0]
    times = {
        solver: [statistics.fmean(of_all_seeds(data, "seconds", kind, n, solver)) for n in counts]
        for solver in (DIRICHLET, LOOK_AHEAD)
    }
    slower = [
        n for n, a, b in zip(counts, times[DIRICHLET], times[LOOK_AHEAD], strict=True) if a > b
    ]
    if slower == counts:
        by_time = "at every number of partitions, so time alone would rule it out everywhere"
    elif slower:
        by_time = f"at {', '.join(map(str, slower))} partitions"
    else:
        by_time = "nowhere"
    rules = " and ".join(f"{_rule(data, one)} on {KINDS[one]}" for one in kinds_of(data))
    return (
        f"By time, Algorithm 8 is the slower one {by_time} (mean {_ms(times[DIRICHLET][0])} at "
        f"{counts[0]} partitions and {_ms(times[DIRICHLET][-1])} at {counts[-1]}, LookAhead "
        f"{_ms(times[LOOK_AHEAD][0])} and {_ms(times[LOOK_AHEAD][-1])}); by the gap to the "
        f"optimum, the best rule would use Algorithm 8 {rules}, where the thesis has "
        f"{THESIS_MOST_PARTITIONS}."
    )


def _rule(data: Data, kind: str) -> str:
    rules = best_rules(data, kind)
    if any(rules):
        return f"up to {spread(rules, '{:.0f}'.format)} partitions"
    equal = [n for n in partitions_of(data) if _is_equal(data, kind, n)]
    # Nowhere and equal everywhere would be a contradiction to a reader.
    if equal == partitions_of(data):
        return "as well as not, being equal at every number of partitions,"
    return f"nowhere (equal at {', '.join(map(str, equal))})" if equal else "nowhere"


def _is_equal(data: Data, kind: str, count: int) -> bool:
    ours, others = (
        statistics.fmean(of_all_seeds(data, "gap_ratios", kind, count, solver))
        for solver in (DIRICHLET, LOOK_AHEAD)
    )
    return abs(ours - others) <= SAME_RATIO


def tables(data: Data) -> list[Table]:
    """Times and gaps, for each kind of curves."""
    found = []
    for kind in kinds_of(data):
        absent = "" if "traces" in kinds_of(data) else " (no traces here: these alone)"
        heads = [SHORT[solver] for solver in COMPARED]
        total = len(of_all_seeds(data, "seconds", kind, partitions_of(data)[0], DIRICHLET))
        of = f"{KINDS[kind]}{absent}, {total} instances of {data['units']:,} units each"
        found += [
            Table(
                f"Running time in ms, mean ± standard deviation (quartiles), and median of the "
                f"processor time, on {of}",
                ["partitions", *heads],
                _rows(data, kind, _time_cell),
            ),
            Table(
                f"Mean gap to the optimum, median of the seeds (least to greatest), and the share "
                f"of instances solved to optimality, on {of}",
                ["partitions", *heads],
                _rows(data, kind, _gap_cell),
            ),
        ]
    return found


def _rows(data: Data, kind: str, cell: Callable[[Data, str, int, str], str]) -> list[list[str]]:
    return [
        [str(count), *(cell(data, kind, count, solver) for solver in COMPARED)]
        for count in partitions_of(data)
    ]


def _time_cell(data: Data, kind: str, count: int, solver: str) -> str:
    seconds = of_all_seeds(data, "seconds", kind, count, solver)
    processor = statistics.median(of_all_seeds(data, "processor_seconds", kind, count, solver))
    first, _, third = quartiles(seconds)
    return (
        f"{statistics.fmean(seconds) * 1e3:.1f} ± {_deviation(seconds) * 1e3:.1f} "
        f"({first * 1e3:.1f} to {third * 1e3:.1f}); {processor * 1e3:.1f}"
    )


def _gap_cell(data: Data, kind: str, count: int, solver: str) -> str:
    means = [statistics.fmean(one) for one in values(data, "gap_ratios", kind, count, solver)]
    gaps = of_all_seeds(data, "gap_ratios", kind, count, solver)
    optimal = sum(gap <= SAME_RATIO for gap in gaps) / len(gaps)
    return f"{spread(means, _gap)}; {optimal * 100:.0f} %"


def _gap(ratio: float) -> str:
    return f"{ratio * 100:.3f} %"


def _deviation(seconds: Sequence[float]) -> float:
    return statistics.stdev(seconds) if len(seconds) > 1 else 0.0


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"


def draw(figure: Figure, data: Data) -> None:
    """The thesis' figure above, the gap below; a column for each kind of curves."""
    kinds = kinds_of(data)
    panels = figure.subplots(2, len(kinds), sharex=True, sharey="row", squeeze=False)
    for column, kind in enumerate(kinds):
        _draw_kind(data, kind, panels[0][column], panels[1][column])
    panels[0][0].set_ylabel("running time, ms\nmean ± standard deviation")
    panels[1][0].set_ylabel("gap to the optimum, %\nmean")
    told = panels[0][0].get_legend_handles_labels()
    figure.legend(*told, loc="outside lower center", ncols=4, fontsize="x-small")
    # All columns share these limits, so that they are set when all is drawn.
    _, most = panels[1][0].get_ylim()
    panels[1][0].set_ylim(-most / 1e4, most * 1.3)


def _draw_kind(data: Data, kind: str, times: Axes, gaps: Axes) -> None:
    counts = partitions_of(data)
    for solver in COMPARED:
        seconds = [of_all_seeds(data, "seconds", kind, count, solver) for count in counts]
        means = [statistics.fmean(one) * 1e3 for one in seconds]
        # A bar that reaches below 0 has no place on this axis.
        below = [min(_deviation(s) * 1e3, 0.9 * m) for s, m in zip(seconds, means, strict=True)]
        above = [_deviation(one) * 1e3 for one in seconds]
        times.errorbar(
            counts, means, [below, above], fmt=STYLES[solver], ms=3, capsize=2, label=SHORT[solver]
        )
        shown = [
            statistics.fmean(of_all_seeds(data, "gap_ratios", kind, n, solver)) * 100
            for n in counts
        ]
        gaps.plot(counts, shown, STYLES[solver], markersize=3)
    times.set_yscale("log")
    times.set_title(KINDS[kind])
    gaps.set_yscale("symlog", linthresh=0.01)
    gaps.set_xlabel("partitions")
    gaps.set_xticks([2, 5, 7, 10, 15, 20])
    for panel in (times, gaps):
        rule = f"the thesis' rule: {SHORT[DIRICHLET]} up to {THESIS_MOST_PARTITIONS}"
        panel.axvline(THESIS_MOST_PARTITIONS + 0.5, color="0.4", linestyle=":", label=rule)
        panel.grid(alpha=0.3)


def headlines(data: Data) -> list[Headline]:
    """The rule, and its price in time."""
    kind, few = kinds_of(data)[0], THESIS_MOST_PARTITIONS
    return [
        Headline(
            f"Algorithm 8 and LookAhead at {few} partitions ({KINDS[kind]}): mean time; mean gap",
            "; ".join(
                " and ".join(
                    told(statistics.fmean(of_all_seeds(data, name, kind, few, solver)))
                    for solver in (DIRICHLET, LOOK_AHEAD)
                )
                for name, told in (("seconds", _ms), ("gap_ratios", _gap))
            ),
            f"Algorithm 8 up to {few}, by time",
        )
    ]


def missed(data: Data) -> list[str]:
    """The certificate promises the optimum, to 0.01 %."""
    gaps = [gap for row in data["rows"] if row["solver"] == PLANNER for gap in row["gap_ratios"]]
    far = sum(gap > 1e-4 for gap in gaps)
    if not far:
        return []
    return [f"{far} of {len(gaps)} certified plans ({percent(far / len(gaps))}) miss the optimum"]


STUDY = Study(
    name="figure-8-3",
    title="Figure 8.3: running time of the two solvers",
    question="Up to how many partitions is Algorithm 8 the better solver, by time and by result?",
    beside=(
        "The genetic solver (Algorithm 8) gets slower with partitions more rapidly than hill "
        "climbing does, so it is used up to 7 partitions (section 8.4.3, Figure 8.3, which has no "
        "gap)."
    ),
    method=(
        "Partition problems of 2 to 20 servers with random weights, rates and backends, and curves "
        "cut from real traces or made at random; all solvers solve each of them in turn on one "
        "thread. The optimum is that of a dynamic programme. With the certificate is what a node "
        "has by default: a short search, then the proof. The traces, all CC BY 4.0: a cache "
        "cluster of Twitter's (Yang, Yue and Rashmi, OSDI 2020), and a web shop's database objects "
        "by day and by night (orm-busy and orm-night of cache2k; headissue GmbH, Jens Wilke)."
    ),
    measure=measure,
    conclude=conclude,
    tables=tables,
    draw=draw,
    headlines=headlines,
    differences=(
        "The thesis cut its curves from Yahoo's trace, which is not free; ours are cut from "
        "others, where those are at hand (the tables say so), and random ones stand beside them.",
        "The thesis shows the running time alone; its implementation, machine and stopping rule "
        "are not described, so times compare in their growth only.",
    ),
    missed=missed,
    traces=TRACES,
    size_inches=(7.0, 5.5),
)

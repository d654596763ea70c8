"""``experiment clients-overhead``: what sampling costs under clients that others wrote."""

from __future__ import annotations

import statistics
from typing import NamedTuple

from workloads.bench.sampling.slices import FEWEST, MedianRatio, Target, median_ratio
from workloads.bench.sampling.states import OFF, OTHER_STOCK, STOCK, STOCK_AGAIN, State
from workloads.experiment.clients.overhead_rounds import METRICS, MODULE_ON, PATCH_ON, measure
from workloads.experiment.picture import spread
from workloads.experiment.study import Data, Figure, Headline, Study, Table
from workloads.table import milliseconds

THROUGHPUT_TARGET = Target(0.99, at_most=False)


class Comparison(NamedTuple):
    """``state`` against ``base``; ``null`` has the same base and no cause to differ from it.

    The module is loaded into the stock server's own process, and the patch is switched on in its
    own. So their null is that process again; patch and stock server are two processes.
    """

    name: str
    state: State
    base: State
    null: State


COMPARISONS = (
    Comparison("stock again (null)", STOCK_AGAIN, STOCK, STOCK_AGAIN),
    Comparison("other stock process (null)", OTHER_STOCK, STOCK, OTHER_STOCK),
    Comparison("module at 1 %", MODULE_ON, STOCK, STOCK_AGAIN),
    Comparison("patch at 1 %", PATCH_ON, STOCK, OTHER_STOCK),
    Comparison("patch at 1 %, over itself off", PATCH_ON, OFF, STOCK_AGAIN),
)
SHOWN = {"module": COMPARISONS[2], "patch": COMPARISONS[4]}


def ratio(data: Data, load: str, metric: str, state: State, base: State) -> MedianRatio:
    """Compare two states over all rounds."""
    place, states = METRICS.index(metric), data["seen"][load]
    return median_ratio(
        [seen[place] for seen in states[state.name]], [seen[place] for seen in states[base.name]]
    )


def conclude(data: Data) -> str:
    """Between which bounds the medians are."""

    def told(metric: str, comparison: Comparison) -> str:
        medians = [
            ratio(data, load, metric, comparison.state, comparison.base).median
            for load in data["seen"]
        ]
        return spread(medians, lambda ratio: f"{ratio:.2f}")

    throughput, _, _, processor = METRICS
    patch, module, again, other = (
        f"{told(throughput, one)} and {told(processor, one)}"
        for one in (SHOWN["patch"], SHOWN["module"], *COMPARISONS[:2])
    )
    return (
        f"Throughput, and the server's processor time for an operation, with 1 % of the keys "
        f"sampled over none, median (least to greatest) of {len(data['seen'])} loads of other "
        f"people's clients: with the patch {patch}, with the module {module}. Where nothing is "
        f"changed: {again} in the same process, {other} between two."
    )


def tables(data: Data) -> list[Table]:
    """A table of ratios for each metric, and what a stock server does."""
    found = [
        Table(
            f"Ratio of {metric}: median over rounds, and its 95 % interval (their range, where "
            f"there are fewer than {FEWEST})",
            ["client", *(one.name for one in COMPARISONS)],
            [
                [load, *(str(ratio(data, load, metric, c.state, c.base)) for c in COMPARISONS)]
                for load in data["seen"]
            ],
        )
        for metric in METRICS
    ]
    stock = []
    for load, states in data["seen"].items():
        columns = zip(*states[STOCK.name], strict=True)
        operations, p50, p99, processor = (statistics.median(column) for column in columns)
        rounds = len(states[STOCK.name])
        stock.append(
            [
                load,
                str(rounds),
                f"{operations:,.0f}",
                milliseconds(p50),
                milliseconds(p99),
                f"{processor * 1e6:.1f} µs",
            ]
        )
    return [
        *found,
        Table(
            "The stock server itself; medians",
            ["client", "rounds", "operations/s", "p50", "p99", "processor"],
            stock,
        ),
    ]


def draw(figure: Figure, data: Data) -> None:
    """A row for each load; median ratios and their intervals."""
    panels = figure.subplots(1, 2, sharey=True)
    loads = list(data["seen"])
    shown = (
        (COMPARISONS[0], "0.6", "D", -0.3),
        (COMPARISONS[1], "0.3", "v", -0.1),
        (SHOWN["patch"], "C0", "o", 0.1),
        (SHOWN["module"], "C1", "s", 0.3),
    )
    for panel, metric in zip(panels, (METRICS[0], METRICS[-1]), strict=True):
        for comparison, colour, marker, shift in shown:
            of = [ratio(data, load, metric, comparison.state, comparison.base) for load in loads]
            panel.errorbar(
                [one.median for one in of],
                [row + shift for row in range(len(loads))],
                xerr=[[one.median - one.low for one in of], [one.high - one.median for one in of]],
                fmt=marker,
                color=colour,
                markersize=4,
                capsize=2,
                label=comparison.name,
            )
        panel.axvline(1.0, color="0.3", linewidth=0.8)
        panel.set(yticks=range(len(loads)), yticklabels=loads, xlabel=f"{metric}, ratio")
        panel.grid(axis="x", alpha=0.3)
    panels[0].invert_yaxis()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)


def headlines(data: Data) -> list[Headline]:
    """Latency, as the thesis has it, by way of sampling."""
    found = []
    for way, one in SHOWN.items():
        median, again, other = (
            statistics.median(
                ratio(data, load, "p50", of.state, of.base).median for load in data["seen"]
            )
            for of in (one, *COMPARISONS[:2])
        )
        found.append(
            Headline(
                f"median latency with 1 % of the keys sampled by the {way}, over none: median of "
                f"{len(data['seen'])} loads of other people's clients",
                f"{median:.2f} (nothing changed {again:.2f}, another process {other:.2f})",
                "1.15",
            )
        )
    return found


def missed(data: Data) -> list[str]:
    """Throughput is to be 0.99 or more; only what is clear of the null's interval counts."""
    found = []
    for comparison in SHOWN.values():
        for load in data["seen"]:
            of = ratio(data, load, "throughput", comparison.state, comparison.base)
            null = ratio(data, load, "throughput", comparison.null, STOCK)
            if THROUGHPUT_TARGET.verdict(of, null) == "missed":
                found.append(
                    f"Throughput of {load} with {comparison.name} is {of} and not "
                    f"{THROUGHPUT_TARGET}; the null pair's is {null}."
                )
    return found


STUDY = Study(
    name="clients-overhead",
    title="What sampling costs under other people's clients",
    question=(
        "Do the clients that others measure servers with feel that 1 % of the keys are sampled?"
    ),
    beside="Section 8.5.2 and Figure 8.4: the median latency is 15 % longer (YCSB, workload C).",
    method=(
        "Stock Redis 7.0.15, the same process with the module loaded for the time, and the patched "
        "one, with 1 % of the keys sampled and a process that takes the samples; a core for the "
        "servers and one for the clients. Each round is in new processes; in a round each client "
        "meets all states one right after the other, in random order. redis-benchmark with 50 "
        "clients, which tells latencies in steps of 8 µs; SET:GET 1:10 with values of 32 bytes to "
        "1 KiB by a small C program, for Debian has no memtier_benchmark; and, but for the quick "
        "form, YCSB's workload B as fast as it can, a second with the JVM's warming up in it."
    ),
    measure=measure,
    conclude=conclude,
    tables=tables,
    draw=draw,
    headlines=headlines,
    missed=missed,
    differences=(
        "The thesis' monitor gets each sampled request as it comes, and a client's machine of its "
        "own measures; here samples leave the server in batches, and a core is all that clients "
        "have.",
        "Two processes of the same file differ by some per cent, so the patch is also held against "
        "itself while it does not sample; `bench redis` takes longer and finds less noise.",
    ),
    size_inches=(8.5, 4.2),
)

"""Memory as a knob: what a function's size does to the time and the price of a plan."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from workloads.experiment.papers.memory_runs import SERVERS, WHOLE_PROCESSOR_MB, measured_runs
from workloads.experiment.picture import plain_ticks, quartiles, reach
from workloads.experiment.study import Data, Figure, Headline, Scope, Study, StudyError, Table
from workloads.experiment.thesis.costs import ask_cost_model
from workloads.table import mebibytes

KINDS = {"cold": "cold start", "warm": "warm run"}
PLANS = 1_000_000
# A plan an hour may come a second later; so time is worth a tenth of the price, and no more.
DEARER = 1.1
# Below it two sizes are told apart; with fewer runs nothing is said.
LEVEL = 0.01
LEAST_RUNS = 4
HOURLY = str(SERVERS[0])


def measure(scope: Scope) -> Data:
    """Runs of the function, and AWS' prices by the cost model.

    Raises:
        StudyError: the function fails, or the model cannot be asked.
    """
    answer = ask_cost_model()
    terms = {term["name"]: term for term in answer["controllers"]["lambda"]["terms"]}
    try:
        prices = {
            "gb_second_usd": terms["Lambda GB-s"]["usd_per_unit"],
            "request_usd": terms["Lambda requests"]["usd_per_unit"],
            **answer["prices"],
        }
    except KeyError as error:
        raise StudyError(f"the cost model has no term {error}") from error
    return {**measured_runs(scope), "prices": prices, "chosen_mb": answer["workload"]["memory_mb"]}


def usd_per_plan(data: Data, size_mb: int, seconds: float) -> float:
    """Price a run as AWS bills it: each begun millisecond times the memory, and the request."""
    billed = math.ceil(seconds * 1000) / 1000
    prices = data["prices"]
    return float(billed * size_mb / 1024 * prices["gb_second_usd"] + prices["request_usd"])


def _sizes(data: Data, servers: str) -> dict[int, dict[str, Any]]:
    return {int(size): runs for size, runs in data["runs"][servers].items()}


def _middle(runs: dict[str, Any], kind: str) -> float:
    return float(statistics.median(runs[f"{kind}_seconds"]))


def _price(data: Data, size_mb: int, runs: dict[str, Any], kind: str) -> float:
    return usd_per_plan(data, size_mb, _middle(runs, kind))


def _fitting(data: Data, servers: str) -> dict[int, dict[str, Any]]:
    """Sizes that hold what the function took at its peak."""
    return {
        size: runs
        for size, runs in _sizes(data, servers).items()
        if runs["peak_memory_bytes"] <= size << 20
    }


def cheapest_mb(data: Data, servers: str, kind: str) -> int:
    """Return the cheapest of the sizes that it fits in."""
    sizes = _fitting(data, servers)
    return min(sizes, key=lambda size: _price(data, size, sizes[size], kind))


def best_mb(data: Data, servers: str, kind: str) -> int:
    """The fastest for the money: of the sizes that it fits in, and that are hardly dearer than the
    cheapest."""
    sizes = _fitting(data, servers)
    most = _price(data, least := cheapest_mb(data, servers, kind), sizes[least], kind) * DEARER
    affordable = [size for size in sizes if _price(data, size, sizes[size], kind) <= most]
    return min(affordable, key=lambda size: _middle(sizes[size], kind))


def p_value(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Mann and Whitney's test, two-sided; ``None``: too few runs to say anything."""
    from scipy import stats

    if min(len(one), len(other)) < LEAST_RUNS:
        return None
    return float(stats.mannwhitneyu(one, other).pvalue)


def _is_enough(data: Data) -> bool:
    """Whether sizes were run often enough to prefer one."""
    return all(len(r["cold_seconds"]) >= LEAST_RUNS for r in _sizes(data, HOURLY).values())


def conclude(data: Data) -> str:
    """The cheapest size, the fastest for the money, and the one that the function has."""
    if not _is_enough(data):
        return (
            f"No verdict: fewer than {LEAST_RUNS} cold starts of a size cannot tell which one is "
            f"better. Ours has {data['chosen_mb']:,} MB."
        )
    sizes = _sizes(data, HOURLY)
    cheapest, best = (choose(data, HOURLY, "cold") for choose in (cheapest_mb, best_mb))
    times = {size: _time(_middle(runs, "cold")) for size, runs in sizes.items()}
    more = _price(data, best, sizes[best], "cold") / _price(data, cheapest, sizes[cheapest], "cold")
    words = (
        f"For a node of {HOURLY} servers in hourly cycles, each a cold start, {cheapest:,} MB "
        f"is the cheapest size that the function fits in ({times[cheapest]} to the plan), and "
        f"{best:,} MB the fastest for the money ({times[best]}, {more - 1:.0%} dearer)"
    )
    warm = best_mb(data, HOURLY, "warm")
    return f"{words}; for warm runs that is {warm:,} MB. Ours has {data['chosen_mb']:,} MB."


def tables(data: Data) -> list[Table]:
    """Times and prices, and what neighbours differ in."""
    share = (
        "the share of a processor by a control group"
        if data["is_grouped"]
        else "processor time stretched, no control group could be made"
    )
    found = []
    for servers in data["runs"]:
        sizes = _sizes(data, servers)
        rows = [
            [
                f"{size:,} MB",
                f"{min(1.0, size / WHOLE_PROCESSOR_MB):.0%}",
                *(
                    text
                    for kind in KINDS
                    for text in (
                        _told(runs[f"{kind}_seconds"]),
                        f"${_price(data, size, runs, kind) * PLANS:.2f}",
                    )
                ),
                mebibytes(runs["peak_memory_bytes"])
                + ("" if runs["peak_memory_bytes"] <= size << 20 else ": does not fit"),
            ]
            for size, runs in sizes.items()
        ]
        header = ["memory", "of a processor"]
        for kind in KINDS.values():
            header += [kind, "a million plans"]
        prices = data["prices"]
        found.append(
            Table(
                f"{servers} servers: median [quartiles] until the plan is written, and its price "
                f"(of {prices['date']}, {prices['region']}, without the free tier); {share}",
                [*header, "peak memory"],
                rows,
            )
        )
    return [*found, _neighbours(data)]


def _neighbours(data: Data) -> Table:
    rows = []
    for servers in data["runs"]:
        for (small, less), (large, more) in pairwise(_sizes(data, servers).items()):
            cells = [f"{servers} servers, {small:,} and {large:,} MB"]
            for kind in KINDS:
                p = p_value(less[f"{kind}_seconds"], more[f"{kind}_seconds"])
                ratio = _middle(less, kind) / _middle(more, kind)
                cells.append(f"{ratio:.2f}")
                cells.append("too few runs" if p is None else f"{p:.2g}")
            rows.append(cells)
    header = ["sizes"]
    for kind in KINDS.values():
        header += [f"{kind}: times as long", "p"]
    return Table(
        f"Neighbouring sizes by Mann and Whitney's test; below {LEVEL:g} they differ", header, rows
    )


def draw(figure: Figure, data: Data) -> None:
    """Time on the left, the price of a million plans on the right."""
    times, prices = figure.subplots(1, 2)
    for servers, style in zip(data["runs"], ("o", "s"), strict=False):
        sizes = _sizes(data, servers)
        for kind, (line, colour) in {"cold": ("-", "C0"), "warm": ("--", "C1")}.items():
            label = f"{KINDS[kind]}, {servers} servers"
            series = (runs[f"{kind}_seconds"] for runs in sizes.values())
            middles, around = reach(series, ends=quartiles)
            look = {"marker": style, "linestyle": line, "color": colour, "markersize": 4}
            times.errorbar(list(sizes), middles, yerr=around, capsize=2, label=label, **look)
            dollars = [_price(data, size, runs, kind) * PLANS for size, runs in sizes.items()]
            prices.plot(list(sizes), dollars, label=label, **look)
    for panel, words in ((times, "seconds to the plan"), (prices, "USD, a million plans")):
        panel.set(xscale="log", yscale="log", xlabel="memory (MB)", ylabel=words)
        panel.set_xticks([int(size) for size in data["runs"][HOURLY]])
        panel.grid(alpha=0.3)
        plain_ticks(panel.yaxis)
        panel.xaxis.set_major_formatter(lambda value, _: f"{value:.0f}")
        panel.set_xticks([], minor=True)
        panel.tick_params(axis="x", rotation=45)
    times.legend(fontsize="x-small")


def _time(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms"


def _told(seconds: Sequence[float]) -> str:
    first, middle, third = quartiles(seconds)
    if len(seconds) == 1:
        return _time(middle)
    return f"{_time(middle)} [{_time(first)}, {_time(third)}]"


def headlines(data: Data) -> list[Headline]:
    """Return what the default follows from; nothing, of too few runs."""
    if not _is_enough(data):
        return []
    best = best_mb(data, HOURLY, "cold")
    runs = _sizes(data, HOURLY)[best]
    return [
        Headline(
            "memory that is the fastest for the money, and a cold start with it",
            f"{best:,} MB, {_time(_middle(runs, 'cold'))}",
        )
    ]


def missed(data: Data) -> list[str]:
    """The function has another size than follows from it; nothing follows from too few runs."""
    if not _is_enough(data) or (best := best_mb(data, HOURLY, "cold")) == data["chosen_mb"]:
        return []
    return [f"The function has {data['chosen_mb']:,} MB, and {best:,} MB are the better size."]


STUDY = Study(
    name="memory",
    title="Memory as a knob",
    question="What does the function's memory do to the time and the price of a plan?",
    beside=(
        "90 % of the cold starts within 350 ms instead of 750 ms (Java) and 330 instead of 900 ms "
        "(JavaScript) with 512 instead of 256 MB and more calls a minute, by Mann and Whitney's "
        "test no chance (S. Quevedo and others, *Evaluating Apache OpenWhisk - FaaS*, 2020, "
        "section III-D)."
    ),
    method=(
        "Fresh processes of the real handler, in random order, which get an observation from a "
        "local store and put the plan there; a cold start is from the beginning of the process to "
        "the first plan, then five more plans are made warm. AWS gives a share of a processor "
        f"with memory, a whole one at {WHOLE_PROCESSOR_MB:,} MB: here by a control group's quota "
        "in periods of 20 ms, and where none may be made, by stretching the processor time that "
        "was measured. The store takes 30 ms for an answer, assumed for S3 as in the cost model. "
        "A run is billed by begun milliseconds, start included. Fastest for the money is the "
        "fastest size that is at most a tenth dearer than the cheapest."
    ),
    measure=measure,
    conclude=conclude,
    tables=tables,
    draw=draw,
    headlines=headlines,
    differences=(
        "The paper changes memory and the most calls a minute together, and its functions resize "
        "images; what memory alone does is not told there. Ours changes the memory alone.",
        "Only the processor's share is emulated. Memory is not bounded: the peak stands beside "
        "it, and AWS' own runtime, some tens of MB, is not in that. What AWS needs to fetch the "
        "package and to start a container is not in a cold start here, nor billed there.",
        "AWS lets a function start with more of a processor than its memory gives, which it "
        "does not promise; then cold starts of small sizes are shorter there than here, and the "
        "sizes nearer to each other.",
        "Bytecode is there, as in a package that is put together where a Python of the function's "
        "version is at hand; in another one a cold start computes longer. The processor here is "
        "x86-64, the function's is Arm, with Arm's price.",
    ),
    missed=missed,
    size_inches=(8.0, 3.8),
)

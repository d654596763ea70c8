"""The solver beside the node, in its region and in another one: which plan is in force first."""

from __future__ import annotations

import statistics
from typing import Any

from workloads.experiment.papers.placement_runs import (
    ONE_WAY_SECONDS,
    ONE_WAYS_OF_A_REQUEST,
    OTHERS,
    measure_cloud,
    measure_places,
    one_ways_of_a_cycle,
)
from workloads.experiment.picture import plain_ticks, reach, spread
from workloads.experiment.study import Data, Figure, Headline, Scope, Study, Table
from workloads.table import milliseconds

BUSY = "beside, busy"
NEAREST = "same machine"
STYLES = {
    "beside": "k-o",
    BUSY: "C3--x",
    "other process": "0.6",
    "region": "C0-s",
    "other region": "C1-.^",
}


def measure(scope: Scope) -> Data:
    """Places over numbers of servers and, in the full form, cycles of the deployed stack."""
    data: Data = {
        "servers": measure_places(scope),
        "one_way_seconds": dict(ONE_WAY_SECONDS),
        "others": OTHERS,
        "cloud": None,
        "cloud_failed": None,
    }
    if scope.is_quick:
        return data
    cloud: dict[str, Any] = {}
    try:
        for place, one_way_seconds in {NEAREST: 0.0, **ONE_WAY_SECONDS}.items():
            scope.progress(f"the stack, as far as {place}", 0.8 + 0.06 * len(cloud))
            cloud[place] = measure_cloud(place, one_way_seconds)
    except (OSError, RuntimeError) as error:
        data["cloud_failed"] = str(error).strip().splitlines()[0][:200]
    else:
        data["cloud"] = cloud
    return data


def conclude(data: Data) -> str:
    """Times of the fewest and the most servers, and who is faster than beside the node."""
    counts = list(data["servers"])
    few, many = counts[0], counts[-1]

    def told(place: str) -> str:
        times = (milliseconds(_median(data, count, place)) for count in (few, many))
        return " and ".join(times)

    text = (
        f"With {few} and {many} servers a plan is in force {told('beside')} after its observation "
        f"where the solver is beside the node, {told('region')} from its region and "
        f"{told('other region')} from another one."
    )
    busy = f"a processor that is shared with {data['others']} busy processes"
    return f"{text} {_faster(data, 'beside', 'a processor of its own')}" + (
        f" {_faster(data, BUSY, busy)}" if BUSY in data["servers"][few]["seconds"] else ""
    )


def _faster(data: Data, reference: str, words: str) -> str:
    found = {place: crossing(data, reference, place) for place in data["one_way_seconds"]}
    text = f"Against {words} beside the node,"
    if not any(found.values()):
        return f"{text} neither region is faster each time, with any of these numbers of servers."
    parts = [
        f"the {place} is {f'faster from {first} servers on' if first else 'nowhere faster'}"
        for place, first in found.items()
    ]
    return f"{text} {' and '.join(parts)}."


def crossing(data: Data, reference: str, place: str) -> str | None:
    """The number of servers from which on ``place`` is faster in each repetition."""
    found = None
    for count, of in data["servers"].items():
        pairs = zip(of["seconds"][place], of["seconds"][reference], strict=True)
        if not all(one < other for one, other in pairs):
            found = None
        elif found is None:
            found = str(count)
    return found


def tables(data: Data) -> list[Table]:
    """Times, where it crosses, and the stack's cycles."""
    places = list(next(iter(data["servers"].values()))["seconds"])
    found = [
        Table(
            "Time from an observation to its plan in force, with a new connection each time",
            ["servers", *places],
            [
                [count, *(spread(of["seconds"][place], milliseconds) for place in places)]
                for count, of in data["servers"].items()
            ],
        ),
        _break_even(data),
    ]
    return [*found, _cloud(data)] if data["cloud"] else found


def _break_even(data: Data) -> Table:
    rows = []
    for count, of in data["servers"].items():
        solving, applying = statistics.median(of["solving"]), statistics.median(of["applying"])
        row = [count, milliseconds(solving), milliseconds(applying)]
        for place in data["one_way_seconds"]:
            row.append(f"{(_median(data, count, place) - applying) / solving:.1f}")
        if BUSY in of["seconds"]:
            lost = _median(data, count, BUSY) - _median(data, count, "other process")
            row.append(milliseconds(lost / ONE_WAYS_OF_A_REQUEST) if lost > 0 else "-")
        rows.append(row)
    header = ["servers", "solving beside", "setting sizes"]
    header += [
        f"{place} wins once the node's processor is slower by a factor of"
        for place in data["one_way_seconds"]
    ]
    if any(BUSY in of["seconds"] for of in data["servers"].values()):
        header.append("beside a busy node another place wins up to a one-way delay of")
    return Table(
        "What would make another place faster than beside the node: a node whose processor is "
        "slower than the other place's (in the measurement above they are alike), or one that is "
        "busy",
        header,
        rows,
    )


def _cloud(data: Data) -> Table:
    cloud = data["cloud"]
    return Table.of(
        "Cycles of the deployed stack on an emulator that is so far from the node, two servers; "
        f"{one_ways_of_a_cycle(cloud):.1f} one-way delays a cycle",
        list(cloud),
        {
            "place": str,
            "one way": lambda place: milliseconds(cloud[place]["one_way_seconds"]),
            "plan taken": lambda place: spread(cloud[place]["taken"], milliseconds),
            "plan in force": lambda place: spread(cloud[place]["in_force"], milliseconds),
        },
    )


def draw(figure: Figure, data: Data) -> None:
    """Times over the number of servers, by place; the bars reach from least to most."""
    panel = figure.subplots()
    counts = [int(count) for count in data["servers"]]
    for place, style in STYLES.items():
        series = [of["seconds"].get(place) for of in data["servers"].values()]
        if None in series:
            continue
        middle, around = reach(series, 1000)
        panel.errorbar(counts, middle, around, fmt=style, ms=4, capsize=2, lw=1, label=place)
    panel.set(xscale="log", yscale="log", xlabel="servers of the node")
    panel.set_xticks(counts, [str(count) for count in counts])
    panel.minorticks_off()
    plain_ticks(panel.yaxis)
    panel.set_ylabel("from observation to plan in force (ms)")
    panel.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=5, fontsize="small")


def headlines(data: Data) -> list[Headline]:
    """Return the times with the fewest servers."""
    few = next(iter(data["servers"]))
    return [
        Headline(
            f"from observation to plan in force, {few} servers: solver beside the node, in its "
            "region, in another one",
            ", ".join(
                milliseconds(_median(data, few, place))
                for place in ("beside", *data["one_way_seconds"])
            ),
        )
    ]


def missed(data: Data) -> list[str]:
    """Say why the stack was not measured, if it could not be asked."""
    if data["cloud_failed"]:
        return [f"The deployed stack was not measured: {data['cloud_failed']}"]
    return []


def _median(data: Data, count: str, place: str) -> float:
    of: dict[str, Any] = data["servers"][count]["seconds"]
    return float(statistics.median(of[place]))


STUDY = Study(
    name="placement",
    title="Topology-aware placement: where the solver stands",
    question="How much sooner is a plan in force where the solver stands beside its node?",
    beside=(
        "Functions beside their data answered in 142 ms instead of 625 ms with OpenFaaS, and in "
        "794 ms instead of 1,053 ms with OpenWhisk (M. Trentin, *Topology-based Scheduling in "
        "Serverless Computing Platforms*, Università di Bologna, 2021, Table 4.7)."
    ),
    method=(
        "Observations of some numbers of servers (the first table names them) go to the solver in "
        "this process, in another one, and through a proxy with the one-way delays of the paper's "
        "pings (Table 4.3: 2.09 ms in a region, 80.7 ms to another one, there and back); the "
        "plan's sizes are set on as many real servers. In the full form one solver more is busy: "
        "its process shares a processor with others that never rest; and cycles of the deployed "
        "stack go through the same proxy, one run each."
    ),
    measure=measure,
    conclude=conclude,
    tables=tables,
    draw=draw,
    headlines=headlines,
    differences=(
        "The paper sends functions to where their data lies, and data is large; an observation has "
        "some ten or hundred KiB, so that what distance costs are round trips.",
        "TLS is left out: its handshake is one round trip more for each new connection. The "
        "function is warm: a cold start adds what the study of imports measures, wherever it is.",
        "All processors are of one machine: a function on a share of a processor, or a slower "
        "node, shifts the crossing by the factor in the second table.",
    ),
    missed=missed,
)

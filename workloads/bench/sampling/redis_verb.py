"""What sampling costs the server: stock against itself, the patch and the module, side by side.

Latency distributions of Redis alone, sampled, and under MONITOR: the thesis' Figure 8.4.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from workloads.arguments import output_file, picture_file, positive, seconds, seed
from workloads.bench.sampling.costs import METRICS, Measured, Ratio, available, ratios, verdicts
from workloads.bench.sampling.instruction_table import (
    KEYS,
    Count,
    check_page,
    count,
    count_servers,
    instruction_table,
    markdown,
    variants,
    write_page,
)
from workloads.bench.sampling.slices import KINDS, PERCENTILES, Kind, LoadProgram
from workloads.bench.sampling.states import (
    MODULE,
    MONITOR,
    OFF,
    PATCH,
    STATES,
    STOCK,
    Consumer,
    Servers,
    divided_cores,
)
from workloads.local_server import LocalServer
from workloads.table import say, text_table

# From the top; sampling is drawn as in use, and of every key.
_DRAWN = [
    STOCK,
    OFF,
    *(s for s in (*PATCH, *MODULE) if s.name.endswith(("R=0.01", "R=1"))),
    MONITOR,
]
_COLOURS = {"stock": "tab:gray", "patch": "tab:blue", "module": "tab:green", "MONITOR": "tab:red"}


def draw(measured: Sequence[Measured], path: Path) -> None:
    """A panel for each kind: box from 25 % to 75 % with the median, whiskers from 1 % to 99 %,
    a dot at 99.9 %; each the median over the slices."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter, LogLocator

    kinds = sorted({one.kind for one in measured})
    figure, panels = plt.subplots(
        (len(kinds) + 1) // 2, 2, figsize=(13, 3.6 * ((len(kinds) + 1) // 2)), squeeze=False
    )
    names = ("whislo", "q1", "med", "q3", "whishi", "fliers")
    places = [PERCENTILES.index(p) for p in (1.0, 25.0, 50.0, 75.0, 99.0, 99.9)]
    for panel, kind in zip(panels.flat, kinds, strict=False):
        boxes = []
        for state in _DRAWN:
            slices = [m.slice for m in measured if (m.kind, m.state) == (kind, state)]
            shown = np.median([s.latency_seconds for s in slices], axis=0)[places] * 1e3
            boxes.append({"label": state.name, **dict(zip(names, shown, strict=True))})
            boxes[-1]["fliers"] = [boxes[-1]["fliers"]]
        drawn = panel.bxp(
            boxes, orientation="horizontal", patch_artist=True, widths=0.6,
            medianprops={"color": "black"}, flierprops={"marker": ".", "markersize": 7},
        )  # fmt: skip
        for state, box in zip(_DRAWN, drawn["boxes"], strict=True):
            box.set_facecolor(_COLOURS[state.name.split()[0]])
        panel.axvline(boxes[0]["med"], color="tab:gray", linewidth=0.8, linestyle=":")
        panel.invert_yaxis()
        panel.set(title=str(kind), xscale="log", xlabel="latency, ms")
        panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        panel.xaxis.set_minor_formatter(FuncFormatter(lambda *_: ""))
        panel.grid(axis="x", alpha=0.3)
    figure.suptitle("box 25–75 %, bar at the median, whiskers 1–99 %, dot 99.9 %; dotted: stock")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


HELP = (
    "Throughput, latency and processor time of Redis while it is sampled, by the patch and by the "
    "module, at several rates, with a consumer that listens, never comes or has stopped; beside "
    "MONITOR and beside the same server unsampled. All in turn, in short slices in random order, "
    "in new processes each round; medians of the ratios with 95 % intervals. Instructions for "
    "commands on keys that are not sampled, from callgrind. About 18 minutes; needs a quiet "
    "machine."
)
FULL_ROUNDS, FULL_SLICE_SECONDS = 40, 0.2
QUICK_ROUNDS, QUICK_SLICE_SECONDS = 6, 0.03
QUICK_KEYS = 256  # to count instructions with
OVERLOAD = Kind("get", 64)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--quick",
        action="store_true",
        help="take two minutes: few rounds of short slices, and few counts",
    )
    parser.add_argument(
        "--only",
        choices=("instructions", "times"),
        help="measure only these; instructions need no quiet machine",
    )
    parser.add_argument(
        "--page",
        type=Path,
        metavar="FILE",
        help="only count instructions, of a cache's commands on every server that is built, and "
        "write the table into this page (redis_patch/MODULE.md); about five minutes",
    )
    parser.add_argument(
        "--rounds",
        type=positive,
        metavar="N",
        help=f"rounds to measure (default: {FULL_ROUNDS}, quick {QUICK_ROUNDS})",
    )
    parser.add_argument(
        "--slice",
        type=seconds,
        metavar="DURATION",
        help="length of a slice "
        f"(default: {FULL_SLICE_SECONDS:g}s, quick {QUICK_SLICE_SECONDS:g}s)",
    )
    parser.add_argument("--json", type=output_file, metavar="FILE", help="write every slice here")
    parser.add_argument(
        "--picture", type=picture_file, metavar="FILE", help="draw the latencies (.png, .svg, .pdf)"
    )
    parser.add_argument("--seed", type=seed, default=1, help="seed of the order (default: 1)")


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, write; the exit code: 0, 1 if something is not built, 2 for wrong usage."""
    if arguments.picture and arguments.only == "instructions":
        return _refused(2, "--picture draws times, and --only instructions measures none")
    if arguments.slice == 0:
        return _refused(2, "--slice must be longer than 0")
    if arguments.page:
        return _write_page(arguments.page)
    began = time.time()
    why_not = "not asked for" if arguments.only == "times" else available()
    try:
        counts = [] if why_not else _count_instructions(arguments.quick)
        measured = [] if arguments.only == "instructions" else list(measure(arguments))
    except FileNotFoundError as error:
        return _refused(1, str(error))
    print(instruction_table(counts) if counts else f"instructions: not counted, {why_not}")
    found = ratios(measured)
    if measured:
        print(f"\n{tables(found)}\n")
        print("\n".join(map(str, verdicts(found))))
    if arguments.json:
        result = {
            "began": began,
            "cores": len(os.sched_getaffinity(0)),
            "instructions": [one._asdict() for one in counts],
            "instructions_not_counted": why_not,
            **as_json(measured, found),
        }
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    if arguments.picture:
        draw(measured, arguments.picture)
    return 0


def _refused(code: int, sentence: str) -> int:
    say(f"bench redis: {sentence}")
    return code


def _write_page(page: Path) -> int:
    why_not = available()
    if why_not:
        return _refused(1, why_not)
    try:
        check_page(page)
        table = markdown(count_servers())
        write_page(page, table)
    except (OSError, ValueError) as error:
        return _refused(2, str(error))
    print(table)
    return 0


def _count_instructions(quick: bool) -> list[Count]:
    names = ("stock", "stock again", "patch off", "patch R=0", "module R=0")
    chosen = [one for one in variants("redis") if not quick or one.name in names]
    say(f"bench redis: counting instructions of {len(chosen)} servers")
    return count(chosen, QUICK_KEYS if quick else KEYS)


def measure(arguments: argparse.Namespace) -> Iterator[Measured]:
    """Measure all slices, and yield them in the order of measurement."""
    rounds = arguments.rounds or (QUICK_ROUNDS if arguments.quick else FULL_ROUNDS)
    usual_seconds = QUICK_SLICE_SECONDS if arguments.quick else FULL_SLICE_SECONDS
    slice_seconds = arguments.slice or usual_seconds
    order = random.Random(arguments.seed)
    with divided_cores() as server_core, LoadProgram() as load, Consumer() as consumer:
        for number in range(rounds):
            say(f"bench redis: round {number + 1} of {rounds}")
            seed = order.getrandbits(32)

            def overload(server: LocalServer, seed: int = seed) -> None:
                load.run(server, OVERLOAD, slice_seconds, seed)

            with Servers(consumer, overload, server_core, order) as servers:
                for kind in order.sample(KINDS, len(KINDS)):
                    for state in order.sample(STATES, len(STATES)):
                        with servers.held_in(state) as server:
                            # Whatever came before, the server's memory is in the caches again.
                            load.run(server, kind, slice_seconds / 10, seed)
                            found = load.run(server, kind, slice_seconds, seed)
                        yield Measured(number, kind, state, found)


def tables(found: Sequence[Ratio]) -> str:
    """Lay out a table for each metric: a line a comparison, a column a kind."""
    kinds = list(dict.fromkeys(ratio.kind for ratio in found))
    cells = {(r.metric, r.comparison, r.kind): str(r.found) for r in found}
    comparisons = list(dict.fromkeys(ratio.comparison for ratio in found))
    return "\n\n".join(
        text_table(
            [metric, *map(str, kinds)],
            [[str(c), *(cells[metric, c, kind] for kind in kinds)] for c in comparisons],
        )
        for metric in METRICS
    )


def as_json(measured: Sequence[Measured], found: Sequence[Ratio]) -> dict[str, Any]:
    """Every slice, every ratio, every verdict."""
    return {
        "percentiles": PERCENTILES,
        "slices": [
            {
                "round": one.round,
                **one.kind._asdict(),
                "state": one.state.name,
                **one.slice._asdict(),
            }
            for one in measured
        ],
        "ratios": [
            {
                **{part: state.name for part, state in ratio.comparison._asdict().items()},
                **ratio.kind._asdict(),
                "metric": ratio.metric,
                **ratio.found._asdict(),
            }
            for ratio in found
        ],
        "verdicts": [str(verdict) for verdict in verdicts(found)],
    }

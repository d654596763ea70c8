"""``experiment real-gain``: mixes on real servers, beside the simulation of the same requests."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sidecar.servers.actuator import IDLE_SECONDS
from sidecar.traces.file import TraceError
from solver_lambda.documents.reader import DocumentError
from workloads.arguments import (
    ORM_BUSY,
    ORM_NIGHT,
    add_figures,
    add_traces,
    output_file,
    seconds,
    seed,
    write_json,
)
from workloads.experiment.gain.mix import Mix, Requests, mix_files, record
from workloads.experiment.gain.oracle import Oracle
from workloads.experiment.gain.simulated_server import OVERHEAD_BYTES, SimulatedServer
from workloads.experiment.gain.simulation import (
    STEPS_A_CYCLE,
    Division,
    Outcome,
    redis_like,
    simulate,
)
from workloads.experiment.gain.spreds_division import SpredsDivision
from workloads.experiment.real_gain.play import Played, node_settings, play
from workloads.experiment.real_gain.report import Run, apart, by_cycle, compared
from workloads.node_programs import moves_in, running_sidecar
from workloads.table import mebibytes, say, text_table

# What a simulation has to get right: changes of all kinds, and lives that end.
AGREE = ("two", "swap", "flash-crowd", "smaller-objects", "larger-objects", "expiring")
AGREE_RATIO = 0.03
ALIKE = "with Redis' overhead and clocks"

HELP = "mixes with real servers and a real sidecar, in compressed time, beside their simulation"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--mix", action="append", metavar="NAME|FILE", help="default: swap")
    parser.add_argument(
        "--agree",
        action="store_true",
        help=f"run {', '.join(AGREE)}, and end with exit code 3 where the simulation's gain, late "
        f"gain, or access time with equal shares is more than {100 * AGREE_RATIO:.0f} %% off",
    )
    parser.add_argument(
        "--cycle",
        type=seconds,
        default=8.0,
        metavar="TIME",
        help="how long a cycle of the mix takes (default: 8s)",
    )
    parser.add_argument("--seed", type=seed, default=1, help="of the requests (default: 1)")
    add_figures(parser)
    parser.add_argument(
        "--log", type=output_file, metavar="FILE", help="also write what the sidecar says here"
    )
    add_traces(parser, ORM_BUSY, ORM_NIGHT)


def run(arguments: argparse.Namespace) -> int:
    """Run and return exit code 0; 1: the sidecar or a server failed, or sizes exceeded the budget;
    2: a mix cannot be read; 3: simulation and real servers do not agree, where that is asked."""
    names = arguments.mix or (AGREE if arguments.agree else ["swap"])
    try:
        mixes = mix_files(names, quick=False, traces=arguments.traces)
        runs = {mix.name: _run(mix, arguments) for mix in mixes.values()}
    except (DocumentError, TraceError) as error:
        say(f"experiment real-gain: {error}")
        return 2
    except (RuntimeError, OSError) as error:
        say(f"experiment real-gain: {error}")
        return 1
    figures = {
        name: {way: one.to_json() for way, one in ways.items()} for name, ways in runs.items()
    }
    write_json(arguments.json, figures)
    if not arguments.agree:
        return 0
    differ = {name: apart(ways["real"], ways[ALIKE]) for name, ways in runs.items()}
    for name, ratio in differ.items():
        print(f"{name}: simulation and real servers are {100 * ratio:.1f} points apart at most")
    return 3 if max(differ.values()) > AGREE_RATIO else 0


def _run(mix: Mix, arguments: argparse.Namespace) -> dict[str, Run]:
    requests = record(mix, arguments.seed)
    cycle_seconds: float = arguments.cycle
    say(f"{mix.name}: {mix.cycles} cycles of {cycle_seconds:g} s, with equal shares")
    equal = play(mix, requests, cycle_seconds, lambda _: nullcontext())
    say("and with SPREDS")
    with tempfile.TemporaryDirectory(prefix="spreds-gain-") as name:
        folder = Path(name)
        try:
            spreds = play(
                mix,
                requests,
                cycle_seconds,
                lambda running: running_sidecar(node_settings(mix, cycle_seconds), running, folder),
            )
        finally:
            if arguments.log and (folder / "sidecar.log").exists():
                shutil.copy(folder / "sidecar.log", arguments.log)
        moves = moves_in(folder)
    say("and simulated")
    weighed = _weighed(requests, [taken.weights for taken in equal.taken])
    whole = _weighed(requests, [taken.whole_weights for taken in equal.taken])
    # In compressed time, the clocks of Redis and of an idle sidecar that looks whether memory is to
    # be handed over tick more rarely.
    steps_a_look = max(1, round(IDLE_SECONDS * STEPS_A_CYCLE / cycle_seconds))
    tick_seconds = mix.cycle_seconds / cycle_seconds
    simulated = _simulated(
        mix,
        {
            "simulated": _Way(requests, requests, arguments.seed),
            ALIKE: _Way(
                weighed,
                whole,
                arguments.seed,
                [taken.beside_bytes for taken in equal.taken],
                [taken.beside_bytes for taken in spreds.taken],
                steps_a_look,
                tick_seconds,
            ),
        },
    )
    alike = simulated[ALIKE]
    real = Run(equal.outcome, spreds.outcome, alike.simulated_equal, alike.static, moves)
    runs = {"real": real, **simulated}
    print(by_cycle(mix, runs))
    print(f"\n{compared(runs)}\n")
    print(_overheads(mix, requests, equal))
    most_bytes = max(equal.most_bytes, spreds.most_bytes)
    print(
        f"\nmaxmemory of all servers was {mebibytes(most_bytes)} at most, of "
        f"{mebibytes(mix.budget_bytes)}; the load was "
        f"{max(equal.late_seconds, spreds.late_seconds):.2f} s late at most"
    )
    if most_bytes > mix.budget_bytes:
        raise RuntimeError("the sizes exceeded the budget")
    return runs


def _weighed(
    requests: Sequence[Requests], weights: Sequence[npt.NDArray[np.float64]]
) -> list[Requests]:
    return [
        replace(one, sizes_bytes=np.maximum(1, of_keys - OVERHEAD_BYTES).astype(np.uint32))
        for one, of_keys in zip(requests, weights, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class _Way:
    """Describes a way to simulate a mix.

    Attributes:
        whole: the requests whose sizes have all that a server holds, for the best sizes that stay.
        beside_bytes: of each server, see ``SimulatedServer``; empty: servers without hash tables.
        adapted_beside_bytes: the same with SPREDS, whose clients take some as well.
        lru_clock_seconds: of simulated time pass between two ticks.
    """

    requests: Sequence[Requests]
    whole: Sequence[Requests]
    seed: int
    beside_bytes: Sequence[int] = ()
    adapted_beside_bytes: Sequence[int] = ()
    steps_a_look: int = 1
    lru_clock_seconds: float = 1.0

    def make(self, number: int, requests: Requests, maxmemory: int) -> SimulatedServer:
        beside_bytes = self.beside_bytes[number - 1] if self.beside_bytes else None
        return redis_like(number, requests, maxmemory, self.lru_clock_seconds, beside_bytes)


def _simulated(mix: Mix, ways: Mapping[str, _Way]) -> dict[str, Run]:
    with ProcessPoolExecutor() as pool:
        tasks = {
            name: (pool.submit(_fixed, mix, way), pool.submit(_spreds, mix, way))
            for name, way in ways.items()
        }
        runs = {}
        for name, (fixed, adapted) in tasks.items():
            (equal, static), spreds = fixed.result(), adapted.result()
            runs[name] = Run(equal, spreds, equal, static, spreds.moves)
        return runs


def _spreds(mix: Mix, way: _Way) -> Outcome:
    division = SpredsDivision(1.0, way.seed, way.steps_a_look)
    adapted = replace(way, beside_bytes=way.adapted_beside_bytes)
    return simulate(mix, way.requests, division, None, adapted.make)


def _fixed(mix: Mix, way: _Way) -> tuple[Outcome, Outcome]:
    """Simulate with equal shares, and with the best sizes that stay."""
    best = Oracle(mix, way.whole).best_bytes()
    equal, static = (
        simulate(mix, way.requests, Division(), sizes, way.make) for sizes in (None, best)
    )
    return equal, static


def _overheads(mix: Mix, requests: Sequence[Requests], equal: Played) -> str:
    rows = []
    for server, one, taken in zip(mix.servers, requests, equal.taken, strict=True):
        asked = np.unique(np.concatenate(one.cycles))
        own = one.sizes_bytes[asked].mean()
        rows.append([server.name, f"{own:.0f}", f"{taken.whole_weights[asked].mean() - own:.0f}"])
    header = ["bytes of a key, mean", "own", f"in Redis beside (simulated: {OVERHEAD_BYTES})"]
    return text_table(header, rows)

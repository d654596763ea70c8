"""One plan a day to many thousands: what they cost, and what more of them gain."""

from __future__ import annotations

import dataclasses
import os
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from solver_lambda.planning.planner import make_plan
from workloads.bench.solver.partition_instances import RANDOM_CURVES, node_observation
from workloads.experiment.gain.mix import Mix, MixServer, Phase, read_mix, record
from workloads.experiment.gain.simulation import Division, simulate
from workloads.experiment.gain.spreds_division import SpredsDivision
from workloads.experiment.picture import reach, spread
from workloads.experiment.study import Data, Figure, Headline, Scope, Study, Table
from workloads.experiment.thesis.costs import ask_cost_model
from workloads.table import milliseconds, percent

# Plans a day that are priced, and whose load on a core is told.
PRICED = (1, 24, 96, 288, 1440, 10_000)
CONTROLLERS = {"lambda": "Lambda", "fargate": "Fargate", "instance": "always-on t4g.micro"}
# Servers of the node whose plans are timed.
SERVERS = (3, 20, 100)
UNITS = 4096
OBJECT_BYTES = 800.0
PLANS = 15
# The mix of the gain: two servers that swap their demands after eight hours.
MIX = Path(__file__).parents[1] / "gain/mixes/swap.toml"
SIMULATED = (3, 6, 12, 24, 96)
QUICK_SIMULATED = (12, 24)
RATE = 0.1
DAY_SECONDS = 86_400.0


def measure(scope: Scope) -> Data:
    """Measure times, costs and gains.

    Raises:
        StudyError: the cost model cannot be asked.
    """
    plans = 3 if scope.is_quick else PLANS
    seconds = {}
    for servers in SERVERS[:2] if scope.is_quick else SERVERS:
        scope.progress(f"plans of {servers} servers", 0.0)
        seconds[str(servers)] = [_plan_seconds(servers, seed) for seed in range(plans)]
    priced = PRICED[1:3] if scope.is_quick else PRICED
    costs = {}
    for cycles in priced:
        scope.progress(f"the price of {cycles:,} a day", 0.1)
        costs[str(cycles)] = _usd_a_year(cycles)
    return {"seconds": seconds, "usd_a_year": costs, "gain": _gains(scope)}


def _plan_seconds(servers: int, seed: int) -> float:
    generator = np.random.default_rng((servers, seed))
    make_curve = list(RANDOM_CURVES.values())[seed % len(RANDOM_CURVES)]
    observation = node_observation(generator, servers, UNITS, make_curve, OBJECT_BYTES)
    started = time.process_time()
    make_plan(observation, now_seconds=0.0)
    return time.process_time() - started


def _usd_a_year(cycles: int) -> dict[str, float]:
    controllers = ask_cost_model("--cycles-per-day", str(cycles))["controllers"]
    return {name: one["usd"] for name, one in controllers.items()}


def _gains(scope: Scope) -> list[dict[str, Any]]:
    """Measure changes of the mean access time against equal shares, by plans a day and seed."""
    days = QUICK_SIMULATED if scope.is_quick else SIMULATED
    cases = [(plans, seed) for plans in days for seed in scope.seeds]
    rows: dict[int, dict[str, Any]] = {
        plans: {"plans_a_day": plans, "change_ratio": [], "moves": []} for plans in days
    }
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        done = pool.map(_gain, *zip(*((*case, scope.is_quick) for case in cases), strict=True))
        for place, ((plans, _), (change, moves)) in enumerate(zip(cases, done, strict=True)):
            scope.progress(f"{plans} plans a day, simulated", 0.2 + 0.8 * place / len(cases))
            rows[plans]["change_ratio"].append(change)
            rows[plans]["moves"].append(moves)
    return list(rows.values())


def _gain(plans: int, seed: int, is_quick: bool) -> tuple[float, int]:
    mix = with_cycles(read_mix(MIX), DAY_SECONDS / plans, 4 if is_quick else 1)
    requests = record(mix, seed)
    salt = int(np.random.default_rng(seed).integers(1 << 63))
    ours = simulate(mix, requests, SpredsDivision(RATE, salt))
    equal = simulate(mix, requests, Division())
    return ours.access_seconds() / equal.access_seconds() - 1, ours.moves


def with_cycles(mix: Mix, cycle_seconds: float, thinned: int = 1) -> Mix:
    """Put the same requests into cycles of another length; one of ``thinned`` of them.

    Only for a mix whose phases ask as much in each cycle, and begin with one of the new ones.
    """
    ratio = cycle_seconds / mix.cycle_seconds
    servers = []
    for server in mix.servers:
        phases = tuple(
            Phase(
                round((phase.first_cycle - 1) / ratio) + 1,
                (round(phase.requests[0] * ratio / thinned),),
                phase.load,
            )
            for phase in server.phases
        )
        servers.append(
            MixServer(server.name, server.weight, server.backend_latency_seconds, phases)
        )
    return dataclasses.replace(
        mix, cycles=round(mix.cycles / ratio), cycle_seconds=cycle_seconds, servers=tuple(servers)
    )


def _core_ratio(data: Data, servers: str, plans: float) -> float:
    return float(median(data["seconds"][servers]) * plans / DAY_SECONDS)


def _saturation(data: Data, servers: str) -> float:
    """Plans a day with which planning takes a quarter of the time (section 8.1.2)."""
    return float(DAY_SECONDS / 4 / median(data["seconds"][servers]))


def conclude(data: Data) -> str:
    """Say where more plans end."""
    servers = list(data["seconds"])[-1]
    rows = data["gain"]
    told = ", ".join(
        f"{median(row['change_ratio']):+.1%} with {row['plans_a_day']}" for row in rows
    )
    return (
        f"Where two servers swap their demands, the mean access time changes by {told} plans a "
        f"day. Planning for {servers} servers takes a quarter of one core's time from "
        f"{_saturation(data, servers):,.0f} plans a day on."
    )


def tables(data: Data) -> list[Table]:
    """Make tables of gain, time and money."""
    return [
        Table.of(
            "Change of the mean access time against equal shares, median (least to greatest)",
            data["gain"],
            {
                "plans a day": lambda row: str(row["plans_a_day"]),
                "change": lambda row: spread(row["change_ratio"], "{:+.1%}".format),
                "moves of memory": lambda row: spread(row["moves"], "{:.0f}".format),
            },
        ),
        Table.of(
            "Processor time of a plan, median (least to greatest), and where it takes a quarter of "
            "one core (section 8.1.2)",
            list(data["seconds"]),
            {
                "servers": str,
                "of a plan": lambda servers: spread(data["seconds"][servers], milliseconds),
                "plans a day": lambda servers: f"{_saturation(data, servers):,.0f}",
            },
        ),
        Table(
            "Without AWS' free tier, alarms included, USD a year; and planning for 3 servers "
            "inside the sidecar",
            ["plans a day", *CONTROLLERS.values(), "of a core, embedded"],
            [
                [
                    f"{int(plans):,}",
                    *(f"${usd[one]:,.2f}" for one in CONTROLLERS),
                    percent(_core_ratio(data, next(iter(data["seconds"])), int(plans))),
                ]
                for plans, usd in data["usd_a_year"].items()
            ],
        ),
    ]


def draw(figure: Figure, data: Data) -> None:
    """Draw what more plans gain on the left, what they cost on the right."""
    left, right = figure.subplots(1, 2)
    rows = data["gain"]
    plans = [row["plans_a_day"] for row in rows]
    middles, around = reach((row["change_ratio"] for row in rows), 100)
    left.errorbar(plans, middles, around, fmt="C0o-", capsize=3)
    left.axhline(0, color="black", linewidth=0.8)
    left.set(xscale="log", xlabel="plans a day", ylabel="mean access time against equal shares, %")
    left.minorticks_off()
    left.set_xticks(plans, [str(one) for one in plans])
    days = [int(one) for one in data["usd_a_year"]]
    for (name, words), style in zip(CONTROLLERS.items(), ("C0o-", "C1s--", "C7^:"), strict=True):
        right.plot(days, [usd[name] for usd in data["usd_a_year"].values()], style, label=words)
    right.set(xscale="log", yscale="log", xlabel="plans a day", ylabel="USD a year")
    right.legend(fontsize="small")
    for panel in (left, right):
        panel.grid(alpha=0.3)


def headlines(data: Data) -> list[Headline]:
    """Return the time of a plan for a small node."""
    servers, seconds = next(iter(data["seconds"].items()))
    return [
        Headline(
            f"processor time of a plan for {servers} servers, median", milliseconds(median(seconds))
        )
    ]


STUDY = Study(
    name="growth-plans",
    title="Plans a day",
    question="What do more plans a day gain, and where does making them end?",
    beside="The thesis takes 1 to 48 cycles a day as reasonable (section 8.5.2; 96 in 8.5.4), and "
    "plans in a quarter of the time between two of them at most (section 8.1.2).",
    method=(
        "Gain: the mix `swap` of `experiment gain`, simulated servers with exact LRU under SPREDS' "
        f"own monitors and planner, R = {RATE}; the same requests whatever the cycle. Processor "
        f"time: random curves on {UNITS:,} units, with the certificate. Costs: "
        "`python -m infra.costs`."
    ),
    measure=measure,
    conclude=conclude,
    tables=tables,
    draw=draw,
    headlines=headlines,
    differences=(
        "The planner looks at its memories every twelfth of a cycle and may plan early, so a day "
        "can have more plans than cycles; `growth-servers` and `cycle` have the times of whole "
        "cycles.",
    ),
    size_inches=(8.0, 3.4),
)

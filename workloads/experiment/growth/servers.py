"""One node with two to a hundred servers: a cycle's time, and what its samples teach."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from sidecar.settings.team_settings import TeamSettings
from solver_lambda.documents.keys import settings_key
from solver_lambda.documents.plan import AdaptationPlan
from workloads.experiment.growth.learning import learn
from workloads.experiment.picture import spread
from workloads.experiment.study import Data, Figure, Headline, Scope, Study, Table
from workloads.load import zipf_keys
from workloads.local_node import wait_until
from workloads.local_server import LocalServer, equal_shares, running_servers, sizes_in_force
from workloads.lookaside import LookAsideClient
from workloads.node_programs import NODE, NodeServer, NodeSettings, plans_in, running_sidecar
from workloads.processes import deaf_processes, usage
from workloads.table import milliseconds, percent

REQUESTS_PER_SECOND = 10_000
# Of the load.
LOAD_KEYS = 5_000
SKEW = 0.8
VALUE_BYTES = 600
DRAWN_REQUESTS = 200_000
TURN_SECONDS = 0.05
SERVERS = (2, 5, 10, 20, 50, 100)
QUICK_SERVERS = (3,)
SERVER_BYTES = 4 << 20
# The teams' minima change from cycle to cycle, so that each plan moves memory.
HIGH_BYTES, LOW_BYTES = 5 << 20, 2 << 20
CYCLE_SECONDS = 1.5
QUICK_CYCLE_SECONDS = 0.7
# Of a cycle that is due by its samples (the default), for the node.
SAMPLES_A_CYCLE = 500_000
CYCLES_A_SEED = 2
WARM_UP_CYCLES = 2
LOOK_SECONDS = 0.002
KEYS, SAMPLED_SHARE, LIVE_OBJECTS = 1_000_000, 0.01, 8192


def paced_load(urls: Sequence[str], seed: int) -> AbstractContextManager[None]:
    """Load until the end of the block: the same for all servers together, however many they are."""
    return deaf_processes(_send, [(list(urls), seed)])


def _send(urls: Sequence[str], seed: int) -> None:
    random = np.random.default_rng(seed)
    keys = [b"key:%d" % key for key in zipf_keys(LOAD_KEYS, SKEW, DRAWN_REQUESTS, random).tolist()]
    each = REQUESTS_PER_SECOND * TURN_SECONDS / len(urls)
    place = 0
    with ExitStack() as stack:
        clients = [stack.enter_context(LookAsideClient(url)) for url in urls]
        begun = time.monotonic()
        for turn in range(1 << 62):
            for client in clients:
                count = int(each + random.random())  # parts of a request are drawn
                if count:
                    part = keys[place : place + count]
                    client.request(part, [VALUE_BYTES] * count, [0.0] * count)
                    place = (place + count) % (DRAWN_REQUESTS - REQUESTS_PER_SECOND)
            time.sleep(max(0.0, begun + (turn + 1) * TURN_SECONDS - time.monotonic()))


def measure(scope: Scope) -> Data:
    """A node of each size."""
    counts = QUICK_SERVERS if scope.is_quick else SERVERS
    rows = []
    for place, count in enumerate(counts):
        scope.progress(f"{count} servers", place / len(counts))
        samples = SAMPLES_A_CYCLE // count // (50 if scope.is_quick else 1)
        errors = [
            learn(KEYS, SAMPLED_SHARE, samples, LIVE_OBJECTS, seed).mean_error
            for seed in scope.seeds
        ]
        rows.append(
            {"servers": count, "samples": samples, "mean_error": errors, **_node(count, scope)}
        )
    cycle_seconds = QUICK_CYCLE_SECONDS if scope.is_quick else CYCLE_SECONDS
    return {"cycle_seconds": cycle_seconds, "rows": rows}


def _node(count: int, scope: Scope) -> dict[str, Any]:
    """Times of cycles that move memory, on real servers."""
    cycle_seconds = QUICK_CYCLE_SECONDS if scope.is_quick else CYCLE_SECONDS
    settings = NodeSettings(
        servers=[NodeServer(f"server-{number:03}", 1.0, 0.05) for number in range(count)],
        budget_bytes=count * SERVER_BYTES,
        cycle_seconds=cycle_seconds,
        rss_wait_seconds=0.0,
        forecast="last",
        sections={"limits": {"maximum_minimum": HIGH_BYTES}},
    )
    with tempfile.TemporaryDirectory(prefix="spreds-growth-") as text, ExitStack() as stack:
        folder = Path(text)
        names = [one.name for one in settings.servers]
        servers = stack.enter_context(running_servers(equal_shares(names, settings.budget_bytes)))
        urls = [server.url for server in servers.values()]
        stack.enter_context(paced_load(urls, scope.seeds[0]))
        sidecar = stack.enter_context(running_sidecar(settings, servers, folder))
        cycles = _moving_cycles(folder, servers)
        for _ in islice(cycles, 0 if scope.is_quick else WARM_UP_CYCLES):
            pass
        begun, before = time.monotonic(), usage(sidecar.process.pid)
        found = list(islice(cycles, CYCLES_A_SEED * len(scope.seeds)))
        after, ended = usage(sidecar.process.pid), time.monotonic()
    return {
        "planned_seconds": [one for one, _ in found],
        "in_force_seconds": [one for _, one in found],
        "processor_ratio": (after.processor_seconds - before.processor_seconds) / (ended - begun),
        "rss_bytes": after.rss_bytes,
    }


def _moving_cycles(folder: Path, servers: dict[str, LocalServer]) -> Iterator[tuple[float, float]]:
    """Yield two numbers of seconds for each plan that changes a size: from when the node was looked
    at until the plan was made, and until it was in force.

    Raises:
        TimeoutError: none came for a minute, or it was not carried out.
    """
    last = 0
    for turn in range(1 << 62):
        _set_minima(folder, list(servers)[turn % 2 :: 2], list(servers)[1 - turn % 2 :: 2])
        plan = _next_plan(folder, last)
        last = plan.cycle
        wanted = {one.name: one.maxmemory_bytes for one in plan.servers}
        # Between two looks the processor is the sidecar's.
        wait_until(
            lambda: sizes_in_force(servers) == wanted,  # noqa: B023 - called in this turn only
            lambda: f"the plan of cycle {last} was not carried out",  # noqa: B023
            LOOK_SECONDS,
        )
        now = time.time()
        begun = plan.observation_made_at_seconds
        yield plan.made_at_seconds - begun, now - begun


def _set_minima(folder: Path, high: list[str], low: list[str]) -> None:
    """Set what the teams of the servers ask for in the next cycle."""
    for names, size_bytes in ((high, HIGH_BYTES), (low, LOW_BYTES)):
        for name in names:
            settings = TeamSettings(
                set_by="experiment growth-servers",
                set_at=datetime.now(UTC).isoformat(),
                values={"minimum_bytes": size_bytes},
            )
            path = folder / "documents" / settings_key(NODE, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(f".{path.name}")
            part.write_bytes(settings.dumps())
            part.replace(path)


def _next_plan(folder: Path, last: int) -> AdaptationPlan:
    """The first plan after a cycle that changes a size."""
    found: list[AdaptationPlan] = []

    def comes() -> bool:
        found[:] = [
            plan
            for plan in plans_in(folder, last)
            if any(one.maxmemory_bytes != one.maxmemory_before_bytes for one in plan.servers)
        ]
        return bool(found)

    wait_until(comes, lambda: "no plan came for a minute that changes a size", LOOK_SECONDS)
    return found[0]


def conclude(data: Data) -> str:
    """Compare the fewest servers with the most."""
    rows = [data["rows"][0], data["rows"][-1]][: len(data["rows"])]
    times = " and ".join(
        f"{milliseconds(median(row['in_force_seconds']))} with {row['servers']} servers"
        for row in rows
    )
    errors = " and ".join(
        f"{median(row['mean_error']):.3f} with {row['samples']:,} a server" for row in rows
    )
    return (
        f"From looking at the servers to sizes in force a cycle takes {times}. Curves from the "
        f"samples of one cycle alone are off by {errors}."
    )


def tables(data: Data) -> list[Table]:
    """Make a row for each node."""
    return [
        Table.of(
            "Median (least to greatest)",
            data["rows"],
            {
                "servers": lambda row: str(row["servers"]),
                "plan made after": lambda row: spread(row["planned_seconds"], milliseconds),
                "in force after": lambda row: spread(row["in_force_seconds"], milliseconds),
                "of a core": lambda row: percent(row["processor_ratio"]),
                "resident": lambda row: f"{row['rss_bytes'] / (1 << 20):.0f} MiB",
                "samples a server": lambda row: f"{row['samples']:,}",
                "error of their curve": lambda row: spread(row["mean_error"], "{:.4f}".format),
            },
        )
    ]


def draw(figure: Figure, data: Data) -> None:
    """Times on the left, errors on the right."""
    left, right = figure.subplots(1, 2)
    counts = [row["servers"] for row in data["rows"]]
    for key, style, label in (
        ("planned_seconds", "C0o-", "plan made"),
        ("in_force_seconds", "C1s--", "sizes in force"),
    ):
        left.plot(counts, [median(row[key]) * 1e3 for row in data["rows"]], style, label=label)
    left.set(xlabel="servers on the node", ylabel="ms since the servers were looked at")
    left.legend(fontsize="small")
    right.plot(counts, [median(row["mean_error"]) for row in data["rows"]], "C2^-")
    right.set(xlabel="servers on the node", ylabel="error of a curve from one cycle's samples")
    for panel in (left, right):
        panel.set_ylim(0, 1.08 * panel.get_ylim()[1])
        panel.grid(alpha=0.3)


def missed(data: Data) -> list[str]:
    """Nodes whose cycles take longer than they may."""
    return [
        f"with {row['servers']} servers a cycle takes {milliseconds(seconds)}, and one is due each "
        f"{milliseconds(data['cycle_seconds'])}"
        for row in data["rows"]
        if (seconds := median(row["in_force_seconds"])) > data["cycle_seconds"]
    ]


def headlines(data: Data) -> list[Headline]:
    """Return the cycle's time with the most servers."""
    row = data["rows"][-1]
    return [
        Headline(
            f"a cycle of {row['servers']} servers, from looking at them to sizes in force",
            milliseconds(median(row["in_force_seconds"])),
        )
    ]


STUDY = Study(
    name="growth-servers",
    title="Servers on a node",
    question="How long is a cycle, and how good are its curves, as servers share one node?",
    beside="The thesis has two servers, and solver times for more (Figure 8.3).",
    method=(
        f"Real servers of {SERVER_BYTES >> 20} MiB each, `spreds run` with the controller in it, "
        f"and {REQUESTS_PER_SECOND:,} requests a second for all servers together. The teams of one "
        "half of the servers and then of the other ask for a higher minimum, so that each plan "
        'changes every size; sizes are taken at once, as in the thesis (`forecast = "last"`). '
        "One load for all cycles. The error is of a curve learnt from "
        f"nothing but a server's share of {SAMPLES_A_CYCLE:,} samples, the default of a cycle, as "
        "in `experiment growth-samples`."
    ),
    measure=measure,
    conclude=conclude,
    tables=tables,
    draw=draw,
    headlines=headlines,
    missed=missed,
    differences=(
        "All servers, clients and the sidecar share two cores, so a hundred servers also wait for "
        "each other.",
    ),
    size_inches=(8.0, 3.4),
)

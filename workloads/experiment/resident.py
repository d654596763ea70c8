"""What ``maxmemory`` leaves out: resident memory of real servers under a churning load, with and
without ``memory.rss_budget``."""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from workloads.background_work import in_background
from workloads.local_server import LocalServer, equal_shares, running_servers
from workloads.lookaside import LookAsideClient
from workloads.node_programs import NodeServer, NodeSettings, running_sidecar

HELP = "hold resident memory of real servers under a churning load, and measure it"
SERVERS = 4
BACKEND_SECONDS, CYCLE_SECONDS = 0.02, 60.0
# The mean of the values drifts between these and back: pages are left half empty.
VALUE_BYTES = (120, 1500)
DRIFT_SECONDS = 300.0
KEYS = 400_000
BATCH_REQUESTS = 100
SETTLING_SHARE = 1 / 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--budget", type=int, default=160, metavar="MIB", help="default: 160")
    parser.add_argument("--seconds", type=float, default=600, help="of each run (default: 600)")
    parser.add_argument(
        "--only", choices=("without", "with"), help="one run, without or with memory.rss_budget"
    )
    parser.add_argument(
        "--steady", action="store_true", help="values keep their sizes, 405 to 1,215 bytes"
    )
    parser.add_argument(
        "--json", action="store_true", help="print JSON, with a row for each second"
    )


def run(options: argparse.Namespace) -> int:
    """Measure and print; 0 once it is done."""
    found = {
        name: _measured(options.budget, options.seconds, held=name == "with", steady=options.steady)
        for name in ("without", "with")
        if options.only in (None, name)
    }
    if options.json:
        print(json.dumps(found, indent=1))
        return 0
    for name, rows in found.items():
        settled = rows[int(len(rows) * SETTLING_SHARE) :]
        resident = sorted(row["rss_bytes"] / 2**20 for row in settled)
        sizes = [row["maxmemory_bytes"] / 2**20 for row in settled]
        print(
            f"{name} memory.rss_budget, budget {options.budget} MiB, after "
            f"{SETTLING_SHARE * options.seconds:.0f} s: resident memory {resident[0]:.0f} to "
            f"{resident[-1]:.0f} MiB, median {statistics.median(resident):.0f}; "
            f"maxmemory {min(sizes):.0f} to {max(sizes):.0f} MiB"
        )
    return 0


def _measured(budget_mib: int, seconds: float, *, held: bool, steady: bool) -> list[dict[str, Any]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spreds-resident-")))
        budget_bytes = budget_mib << 20
        names = [f"s{place}" for place in range(SERVERS)]
        settings = NodeSettings(
            [NodeServer(name, 1.0, BACKEND_SECONDS) for name in names],
            budget_bytes,
            CYCLE_SECONDS,
            sections={
                "memory": {"rss_budget": budget_bytes} if held else {},
                "sampling": {"rate": 0.1},
            },
        )
        running = stack.enter_context(running_servers(equal_shares(names, budget_bytes)))
        sidecar = stack.enter_context(running_sidecar(settings, running, folder))
        servers = list(running.values())
        stack.enter_context(in_background(partial(_request, servers, steady)))
        rows = list(_rows(servers, seconds))
        print(_told(sidecar.log.read_text()), end="")
    return rows


def _rows(servers: list[LocalServer], seconds: float) -> Iterator[dict[str, Any]]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found: list[dict[str, Any]] = [server.client.info("memory") for server in servers]
        yield {
            "rss_bytes": sum(one["used_memory_rss"] for one in found),
            "used_bytes": sum(one["used_memory"] for one in found),
            "maxmemory_bytes": sum(one["maxmemory"] for one in found),
        }
        time.sleep(1.0)


def _request(servers: list[LocalServer], steady: bool, stop: threading.Event) -> None:
    choice = random.Random(1)
    began = time.monotonic()
    with ExitStack() as stack:
        clients = [stack.enter_context(LookAsideClient(server.url)) for server in servers]
        while not stop.is_set():
            turns = (time.monotonic() - began) / DRIFT_SECONDS
            for place, client in enumerate(clients):
                share = 0.5 if steady else abs((turns + 2 * place / SERVERS) % 2 - 1)
                middle = VALUE_BYTES[0] + share * (VALUE_BYTES[1] - VALUE_BYTES[0])
                batch = [b"key%d" % int(KEYS * choice.random() ** 2) for _ in range(BATCH_REQUESTS)]
                sizes = [int(middle * choice.uniform(0.5, 1.5)) for _ in batch]
                client.request(batch, sizes, [0.0] * len(batch))


def _told(log: str) -> str:
    """Return how often the budget was lowered and raised."""
    changes = re.findall(r"the budget is .* now, it was .*", log)
    return "".join(f"{line}\n" for line in [*changes[:3], f"{len(changes)} changes"])

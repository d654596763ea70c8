"""The sidecar beside four servers at full load: what it takes, and whether that grows."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sidecar.control.client import SidecarClient
from workloads.arguments import at_least, between
from workloads.load import zipf_keys
from workloads.local_server import LocalServer, equal_shares, running_servers
from workloads.lookaside import LookAsideClient
from workloads.node_programs import NodeServer, NodeSettings, running_sidecar
from workloads.processes import Usage, deaf_processes, usage
from workloads.table import say

BATCH_REQUESTS = 200
DRAWN_REQUESTS = 2_000_000
SKEW = 0.9
VALUE_BYTES = 500
# Keys of the servers differ, so that plans have something to divide.
KEYS = (40_000, 80_000, 160_000, 320_000)
HELP = """The sidecar beside four servers at full load: what it takes, and whether that grows. Needs
'make setup', and takes an hour and some seconds. processor_ratio: share of one core; rss_mib: least
and most of the last two thirds; lost_plans: observations that no plan answered; flat: resident
memory within a tenth, and one thread more at most. Exit code 1 if it is not flat, a plan was lost,
or the sidecar ended."""
SERVER_MIB = 24
BACKEND_SECONDS = 0.02
CYCLE_SECONDS = 60.0
LOOK_SECONDS = 5.0
# Curves and histories are filled by then.
SETTLING_SHARE = 1 / 3
LOAD_PROCESSES = 2
# Four looks or more are judged.
LEAST_SECONDS = 30.0
LOG_LINES = 15


def full_load(servers: Sequence[LocalServer], processes: int) -> AbstractContextManager[None]:
    """Load until the end of the block. Each process sends to its share of the servers in turn."""
    urls = [server.url for server in servers]
    shares = [(urls[place::processes], KEYS[place::processes]) for place in range(processes)]
    return deaf_processes(_send, shares)


def _send(urls: Sequence[str], keys: Sequence[int]) -> None:
    os.nice(5)  # the servers and the sidecar come first
    random = np.random.default_rng(1)
    names = [
        [b"key:%d" % key for key in zipf_keys(count, SKEW, DRAWN_REQUESTS, random).tolist()]
        for count in keys
    ]
    sizes, backend = [VALUE_BYTES] * BATCH_REQUESTS, [0.0] * BATCH_REQUESTS
    place = 0
    with ExitStack() as stack:
        clients = [stack.enter_context(LookAsideClient(url)) for url in urls]
        while True:
            for client, wanted in zip(clients, names, strict=True):
                client.request(wanted[place : place + BATCH_REQUESTS], sizes, backend)
            place = (place + BATCH_REQUESTS) % (DRAWN_REQUESTS - BATCH_REQUESTS)


@dataclass(frozen=True)
class Look:
    """``seconds``: since the load began; ``samples``: received since the sidecar began."""

    seconds: float
    usage: Usage
    samples: int
    lost_batches: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds", type=_seconds, default=3600, help="at least 30 (default: 3600, an hour)"
    )
    parser.add_argument(
        "--rate",
        type=between(0, 1),
        default=0.01,
        help="share of the keys that is sampled, above 0 and at most 1 (default: 0.01)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, with every look")


def _seconds(text: str) -> float:
    seconds = at_least(0)(text)
    if seconds < LEAST_SECONDS:
        raise argparse.ArgumentTypeError(
            f"must be at least {LEAST_SECONDS:g}, not {text!r}: it looks every {LOOK_SECONDS:g} s, "
            "and judges growth by the last two thirds of the looks"
        )
    return seconds


def run(options: argparse.Namespace) -> int:
    """Soak and print; 1 if memory or threads grew, a plan was lost, or the sidecar ended."""
    with tempfile.TemporaryDirectory(prefix="spreds-soak-") as name:
        log = Path(name, "sidecar.log")
        try:
            looks, plans, observations, requests = _soak(Path(name), options.seconds, options.rate)
        except (OSError, RuntimeError) as error:
            say(f"experiment soak: {error}".splitlines()[0])
            if log.exists():
                lines = log.read_text(errors="replace").splitlines()[-LOG_LINES:]
                say("\n".join(["the sidecar's log ends:", *lines]))
            return 1
        except KeyboardInterrupt:
            say("experiment soak: interrupted; all that was started is ended")
            raise
    found = _summary(looks, plans, observations, requests)
    if options.json:
        rows = [{**look.__dict__, "usage": look.usage.__dict__} for look in looks]
        print(json.dumps({**found, "looks": rows}, indent=1))
    else:
        for key, value in found.items():
            print(f"{key}: {value}")
    return 0 if found["flat"] and found["lost_plans"] == 0 else 1


def _soak(folder: Path, seconds: float, rate: float) -> tuple[list[Look], int, int, int]:
    names = [f"s{place}" for place in range(len(KEYS))]
    settings = NodeSettings(
        [NodeServer(name, 1.0, BACKEND_SECONDS) for name in names],
        (SERVER_MIB << 20) * len(names),
        CYCLE_SECONDS,
        sections={"sampling": {"rate": rate}, "cycle": {"samples": 10**9}},
    )
    with (
        running_servers(equal_shares(names, settings.budget_bytes)) as servers,
        running_sidecar(settings, servers, folder) as sidecar,
    ):
        with full_load(list(servers.values()), LOAD_PROCESSES):
            client = SidecarClient(folder / "state.json.sock", 60.0)
            looks = _looks(sidecar.process.pid, client, seconds)
        requests = sum(map(_requests, servers.values()))
        kept = {
            kind: len(list((folder / "documents").rglob(f"{kind}s/**/*.json")))
            for kind in ("plan", "observation")
        }
    return looks, kept["plan"], kept["observation"], requests


def _looks(pid: int, sidecar: SidecarClient, seconds: float) -> list[Look]:
    began = time.monotonic()
    looks: list[Look] = []
    while (age := time.monotonic() - began) < seconds:
        samples = sidecar.status()["samples"]
        looks.append(Look(age, usage(pid), samples["received"], samples["lost_batches"]))
        time.sleep(LOOK_SECONDS)
    return looks


def _requests(server: LocalServer) -> int:
    found: Any = server.client.info("stats")
    return int(found["total_commands_processed"])


def _summary(looks: list[Look], plans: int, observations: int, requests: int) -> dict[str, Any]:
    settled = looks[int(len(looks) * SETTLING_SHARE) :]
    first, last = settled[0], settled[-1]
    seconds = last.seconds - first.seconds
    processor = last.usage.processor_seconds - first.usage.processor_seconds
    samples = last.samples - first.samples
    hours = [look.seconds / 3600 for look in settled]
    rss = [look.usage.rss_bytes / (1 << 20) for look in settled]
    slope = float(np.polyfit(hours, rss, 1)[0])
    threads = {look.usage.threads for look in settled}
    descriptors = {look.usage.descriptors for look in settled}
    return {
        "seconds": round(looks[-1].seconds, 1),
        "requests_per_second": round(requests / looks[-1].seconds),
        "samples_per_second": round(samples / seconds),
        "lost_batches": last.lost_batches,
        "processor_ratio": round(processor / seconds, 4),
        "processor_microseconds_per_sample": round(processor / samples * 1e6, 2)
        if samples
        else None,
        "rss_mib": [round(min(rss), 1), round(max(rss), 1)],
        "rss_mib_per_hour": round(slope, 2),
        "threads": sorted(threads),
        "descriptors": sorted(descriptors),
        "observations": observations,
        "plans": plans,
        # The last one may be on its way.
        "lost_plans": max(0, observations - plans - 1),
        "flat": max(rss) <= 1.1 * min(rss) and max(threads) <= min(threads) + 1,
    }

"""What a look from outside costs the server: a sidecar that looks, and the same one stopped."""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sidecar.look.server_questions import MOST_AT_ONCE
from sidecar.servers.connection.server_reading import INFO_SECTIONS
from workloads.arguments import output_file, positive, seconds, seed
from workloads.bench.sampling.costs import METRICS, Command, CountedServer, available
from workloads.bench.sampling.instruction_table import undisturbed
from workloads.bench.sampling.slices import CLIENTS, Kind, LoadProgram, Slice, fill, median_ratio
from workloads.bench.sampling.states import divided_cores
from workloads.local_node import wait_until
from workloads.local_server import LocalServer, built
from workloads.node_programs import NodeServer, NodeSettings, StartedSidecar, started_sidecar
from workloads.table import say, text_table

HELP = (
    "Throughput, latency and processor time of a stock Redis while a sidecar looks at its keys "
    "from outside, beside the same server and sidecar, which is stopped; in turn, in slices of "
    "some seconds in random order. Medians of the ratios with 95 % intervals. Instructions for "
    "each question, from callgrind. Five minutes; needs a quiet machine."
)
KINDS = (Kind("get", 1), Kind("get", 16))
# A stopped sidecar is measured twice, so that what the machine differs by is seen.
ON, OFF, OFF_AGAIN = "looked at", "not", "not, again"
QUICK_ROUNDS, QUICK_SLICE_SECONDS = 1, 1.5
COUNTED_KEYS, GET = 1024, "GET"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="one round of short slices")
    parser.add_argument(
        "--only",
        choices=("instructions", "times"),
        help="measure only these; instructions need no quiet machine",
    )
    parser.add_argument(
        "--rounds", type=positive, default=12, metavar="N", help="rounds (default: %(default)s)"
    )
    parser.add_argument(
        "--slice", type=seconds, default=4.0, metavar="DURATION", help="of a slice (default: 4s)"
    )
    parser.add_argument("--json", type=output_file, metavar="FILE", help="write every slice here")
    parser.add_argument("--seed", type=seed, default=1, help="seed of the order (default: 1)")


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, write; exit code 1 if something is not built, or the sidecar failed."""
    rounds = QUICK_ROUNDS if arguments.quick else arguments.rounds
    slice_seconds = QUICK_SLICE_SECONDS if arguments.quick else arguments.slice
    why_not = "not asked for" if arguments.only == "times" else available()
    try:
        counted = {} if why_not else instructions()
        print(instruction_words(counted) if counted else f"instructions: not counted, {why_not}")
        if arguments.only == "instructions":
            slices = {}
        else:
            slices = measure(rounds, slice_seconds, random.Random(arguments.seed))
            print(f"\n{table(slices)}")
    except (FileNotFoundError, RuntimeError) as error:
        say(f"bench look: {error}")
        return 1
    if arguments.json:
        rows = [
            {"state": state, **kind._asdict(), "slices": [one._asdict() for one in found]}
            for (state, kind), found in slices.items()
        ]
        result = {"instructions": counted, "slices": rows}
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


def instructions(keys: int = COUNTED_KEYS) -> dict[str, float]:
    """Count what a stock server executes for each question of a look, and for a GET beside.

    Raises:
        FileNotFoundError: the server is not built.
        RuntimeError: it did not come up.
    """
    names = [b"key:%012d" % number for number in range(keys)]
    streams: dict[str, tuple[list[Command], int]] = {
        "SET": ([("SET", name, b"x" * 100) for name in names], 1),
        GET: ([("GET", name) for name in names], 1),
        "GET, as many at once": ([("GET", name) for name in names], MOST_AT_ONCE),
        "OBJECT IDLETIME of a key": ([("OBJECT", "IDLETIME", one) for one in names], MOST_AT_ONCE),
        "OBJECT IDLETIME of one that is gone": (
            [("OBJECT", "IDLETIME", b"none" + one) for one in names],
            MOST_AT_ONCE,
        ),
        "SCAN, for each key": ([("SCAN", 0, "COUNT", keys)], 1),
        "INFO": ([("INFO", *INFO_SECTIONS)], 1),
    }
    with CountedServer({}, built("bin/redis-server-stock")) as server:
        counted = {
            name: undisturbed(server, stream, pipeline)
            for name, (stream, pipeline) in streams.items()
        }
    counted["SCAN, for each key"] /= keys
    return counted


def instruction_words(counted: dict[str, float]) -> str:
    """Lay out a line a question, and how many GETs it is worth."""
    get = counted[GET]
    rows = [[name, f"{count:,.0f}", f"{count / get:.1f}"] for name, count in counted.items()]
    return text_table(["", "instructions", "GETs"], rows)


def measure(
    rounds: int, slice_seconds: float, order: random.Random
) -> dict[tuple[str, Kind], list[Slice]]:
    """Slices of each state and kind, one a round.

    Raises:
        FileNotFoundError: the server is not built.
        RuntimeError: the sidecar failed.
    """
    found: dict[tuple[str, Kind], list[Slice]] = {}
    with ExitStack() as stack:
        core = stack.enter_context(divided_cores())
        load = stack.enter_context(LoadProgram())
        server = stack.enter_context(_server(core))
        sidecar = stack.enter_context(_looking(server))
        for number in range(rounds):
            say(f"bench look: round {number + 1} of {rounds}")
            for kind in order.sample(KINDS, len(KINDS)):
                for state in order.sample((ON, OFF, OFF_AGAIN), 3):
                    with _stopped(sidecar, is_so=state != ON):
                        load.run(server, kind, slice_seconds / 10, number)
                        measured = load.run(server, kind, slice_seconds, number)
                    found.setdefault((state, kind), []).append(measured)
    return found


@contextmanager
def _server(core: set[int]) -> Iterator[LocalServer]:
    """A full cache of as many keys as a look follows, and some more."""
    settings = {"maxmemory": "64mb", "maxmemory-policy": "allkeys-lru", "maxclients": CLIENTS + 50}
    with LocalServer(settings, built("bin/redis-server-stock")) as server:
        for thread in Path(f"/proc/{server.process.pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), core)
        fill(server)
        yield server


@contextmanager
def _looking(server: LocalServer) -> Iterator[StartedSidecar]:
    """A sidecar that has found the server's keys."""
    settings = NodeSettings([NodeServer("cache", 1.0, 0.02)], 64 << 20, 3600.0)
    with (
        tempfile.TemporaryDirectory(prefix="spreds-look-") as folder,
        started_sidecar(settings, {"cache": server}, Path(folder)) as sidecar,
    ):

        def asked() -> int:
            stats = server.client.info("commandstats").get("cmdstat_object|idletime", {})
            return int(stats.get("calls", 0))

        wait_until(lambda: asked() > 20_000, sidecar.log.read_text)
        yield sidecar


@contextmanager
def _stopped(sidecar: StartedSidecar, *, is_so: bool) -> Iterator[None]:
    """The sidecar for as long as the block, where that is so."""
    if not is_so:
        time.sleep(1.0)  # it goes on with what is due
        yield
        return
    sidecar.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        sidecar.process.send_signal(signal.SIGCONT)


def table(slices: dict[tuple[str, Kind], list[Slice]]) -> str:
    """A row for each metric and state, against the stopped sidecar; a column a kind."""
    rows = []
    for metric, value in METRICS.items():
        for state in (OFF_AGAIN, ON):
            cells = [
                median_ratio(*(list(map(value, slices[one, kind])) for one in (state, OFF)))
                for kind in KINDS
            ]
            rows.append([f"{metric}: {state} / {OFF}", *map(str, cells)])
    return text_table(["median [95 %]", *map(str, KINDS)], rows)

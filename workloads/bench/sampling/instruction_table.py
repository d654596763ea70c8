"""Instructions that sampling adds to one command: patch and module, beside the stock server.

What sampling costs each command of a cache, on each server: the table of a page, as Markdown.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import zmq

from sidecar.samples.wire_format import DEFAULT_MODULUS
from workloads.bench.sampling.costs import Command, CountedServer
from workloads.local_server import BUILD, SupportedServer, built, supported_servers
from workloads.table import say, text_table

SALT = 24301  # any; the same keys are sampled in each run
KEYS = 2048
VALUE_BYTES = 100
PIPELINES = (1, 16)
RATES = (0.0, 0.001, 0.01, 1.0)
MOST_COUNTS = 5
AGREEMENT = 5  # instructions a command
CONNECT_LIMIT_MS = 20_000


class Variant(NamedTuple):
    """Describes one way to run a server."""

    name: str
    binary: Path
    settings: dict[str, object]
    # ``spreds-`` or ``spreds.`` if it samples, so that it needs an endpoint.
    knob_prefix: str | None = None


class Count(NamedTuple):
    """Mean instructions for one command; ``added`` is the difference to the first variant."""

    variant: str
    command: str
    pipeline: int
    instructions: float
    added: float


def variants(server: str, rates: tuple[float, ...] = RATES) -> list[Variant]:
    """The stock server first, twice, then all that can be compared with it.

    Raises:
        FileNotFoundError: a binary is not built.
    """
    supported = supported_servers()[server]
    stock = built(supported.stock_binary)
    found = [Variant("stock", stock, {}), Variant("stock again", stock, {})]

    def sampling(way: str, binary: Path, settings: dict[str, object], prefix: str) -> None:
        found.append(Variant(f"{way} off", binary, settings))
        for rate in rates:
            knobs = {f"{prefix}threshold": round(rate * DEFAULT_MODULUS), f"{prefix}salt": SALT}
            name = f"{way} R={rate:g}"
            found.append(Variant(name, binary, {**settings, **knobs}, prefix))

    if supported.patched_binary:
        sampling("patch", built(supported.patched_binary), {}, "spreds-")
    if "module" not in supported.ways:
        return found
    module, empty = f"{built('lib/spreds.so')}", f"{built('lib/empty.so')}"
    found.append(Variant("empty module", stock, {"loadmodule": empty}))
    found.append(Variant("empty filter", stock, {"loadmodule": f"{empty} filter"}))
    sampling("module", stock, {"loadmodule": module}, "spreds.")
    return found


def commands(keys: int = KEYS) -> dict[str, list[Command]]:
    """Return what is counted, by name; the SETs come first, and make the keys."""
    names = [b"%012d" % number for number in range(keys)]
    return {
        "set": [("SET", b"key:" + name, b"x" * VALUE_BYTES) for name in names],
        "get, hit": [("GET", b"key:" + name) for name in names],
        "get, miss": [("GET", b"none" + name) for name in names],
    }


@contextmanager
def _listened(variant: Variant) -> Iterator[CountedServer]:
    """The variant's server, with somebody who receives its samples."""
    if variant.knob_prefix is None:
        with CountedServer(variant.settings, variant.binary) as server:
            yield server
        return
    with (
        tempfile.TemporaryDirectory(prefix="spreds-samples-") as folder,
        zmq.Context() as context,
        context.socket(zmq.PULL) as listener,
        listener.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED) as connections,
    ):
        endpoint = f"ipc://{folder}/samples"
        listener.bind(endpoint)
        settings = {**variant.settings, f"{variant.knob_prefix}endpoint": endpoint}
        with CountedServer(settings, variant.binary) as server:
            if not connections.poll(CONNECT_LIMIT_MS):
                raise RuntimeError(f"{variant.name}: the server did not connect to {endpoint}")
            yield server
        listener.disable_monitor()


def count(
    chosen: list[Variant],
    keys: int = KEYS,
    streams: Callable[[int], dict[str, list[Command]]] = commands,
) -> list[Count]:
    """Count every command on every variant, the first of which is the base, on ``keys`` keys.

    Raises:
        RuntimeError: a server did not come up, or does not send its samples.
    """
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # instructions do not depend on the time
        found = list(pool.map(lambda variant: _instructions(variant, streams(keys)), chosen))
    return [
        Count(variant.name, *column, instructions, instructions - found[0][column])
        for variant, columns in zip(chosen, found, strict=True)
        for column, instructions in columns.items()
    ]


def undisturbed(server: CountedServer, stream: list[Command], pipeline: int) -> float:
    """The least of the counts, when two agree: into one may fall a module's heartbeat, which
    asks the server for its counters (some 350,000 instructions on Valkey)."""
    counts: list[float] = []
    for _ in range(MOST_COUNTS):
        counts = sorted([*counts, server.instructions_per_command(stream, pipeline)])
        if len(counts) > 1 and counts[1] - counts[0] < AGREEMENT:
            break
    return counts[0]


def _instructions(
    variant: Variant, streams: dict[str, list[Command]]
) -> dict[tuple[str, int], float]:
    """Count the instructions of each command, by its name and pipeline."""
    with _listened(variant) as server:
        return {
            (name, pipeline): undisturbed(server, stream, pipeline)
            for name, stream in streams.items()
            for pipeline in PIPELINES
        }


def instruction_table(counts: list[Count]) -> str:
    """Lay out a line a variant, with what it adds to the first; a column a command and pipeline."""
    columns = list(dict.fromkeys((c.command, c.pipeline) for c in counts))
    cells = {(c.variant, c.command, c.pipeline): c for c in counts}
    first = counts[0].variant
    rows = []
    for name in dict.fromkeys(c.variant for c in counts):
        of_variant = [cells[name, *column] for column in columns]
        rows.append(
            [name]
            + [
                f"{c.instructions:,.0f}" if name == first else f"{c.added:+,.1f}"
                for c in of_variant
            ]
        )
    header = [f"{command} -P {pipeline}" for command, pipeline in columns]
    return text_table(["instructions a command", *header], rows)


PAGE_KEYS = 320
GROUP = 10  # keys of one MGET
BEGIN, END = "<!-- counted: begin -->", "<!-- counted: end -->"


def cache_commands(keys: int) -> dict[str, list[Command]]:
    """Return commands by name; those that make the keys come first, those that remove them last."""
    names = [b"key:%012d" % number for number in range(keys)]
    value = b"x" * VALUE_BYTES
    groups = [names[start : start + GROUP] for start in range(0, keys, GROUP)]
    return {
        "SET": [("SET", name, value) for name in names],
        "GET, hit": [("GET", name) for name in names],
        "GET, miss": [("GET", b"non" + name[3:]) for name in names],
        "MGET of ten": [("MGET", *group) for group in groups if len(group) == GROUP],
        "EXISTS": [("EXISTS", name) for name in names],
        "TTL": [("TTL", name) for name in names],
        "EXPIRE": [("EXPIRE", name, 1000) for name in names],
        "SET ... EX": [("SET", name, value, "EX", 1000) for name in names],
        "INCR": [("INCR", b"num" + name[3:]) for name in names],
        "HSET": [("HSET", b"map" + name[3:], "field", value) for name in names],
        "HGET": [("HGET", b"map" + name[3:], "field") for name in names],
        "SET and DEL, each": [c for name in names for c in (("SET", name, value), ("DEL", name))],
    }


def _is_built(server: SupportedServer) -> bool:
    needed = [server.stock_binary, "lib/spreds.so", "lib/empty.so"]
    return all((BUILD / name).exists() for name in [*needed, server.patched_binary or needed[0]])


def count_servers() -> dict[tuple[str, str], list[Count]]:
    """Return what sampling adds to commands on keys that are not sampled, by server and way, of
    every server that is built."""
    found: dict[tuple[str, str], list[Count]] = {}
    for server in filter(_is_built, supported_servers().values()):
        say(f"bench redis: counting instructions of {server.title}")
        names = {"stock", "empty filter", "patch R=0", "module R=0"}
        chosen = [one for one in variants(server.name, (0.0,)) if one.name in names]
        counts = count(chosen, PAGE_KEYS, cache_commands)
        for variant, way in {
            "patch R=0": "patch",
            "module R=0": "module",
            "empty filter": "filter",
        }.items():
            of_variant = [one for one in counts if one.variant == variant]
            if of_variant:
                found[server.title, way] = of_variant
    return found


def markdown(found: dict[tuple[str, str], list[Count]]) -> str:
    """A line a command, a column a server and way: unpipelined / 16 pipelined."""
    columns = list(found)
    rows = list(dict.fromkeys(one.command for one in found[columns[0]]))
    cells = {
        (column, one.command, one.pipeline): f"{one.added:,.0f}"
        for column, counts in found.items()
        for one in counts
    }
    lines = [
        "| | " + " | ".join(f"{title}, {way}" for title, way in columns) + " |",
        "|---" * (len(columns) + 1) + "|",
    ]
    lines += [
        f"| {row} | "
        + " | ".join(f"{cells[c, row, 1]} / {cells[c, row, 16]}" for c in columns)
        + " |"
        for row in rows
    ]
    return "\n".join(lines)


_BETWEEN = re.compile(f"{re.escape(BEGIN)}\n.*?{re.escape(END)}", re.DOTALL)


def check_page(page: Path) -> None:
    """Whether a table can be written into a page.

    Raises:
        OSError: the page cannot be read.
        ValueError: it has no marks for the table to stand between.
    """
    if not _BETWEEN.search(page.read_text()):
        raise ValueError(f"{page} has no lines {BEGIN} and {END} for the table to stand between")


def write_page(page: Path, table: str) -> None:
    """Put the table between the two marks of a page that has them."""
    page.write_text(_BETWEEN.sub(lambda _: f"{BEGIN}\n{table}\n{END}", page.read_text()))

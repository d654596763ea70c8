"""Instructions that sampling adds to one command: patch and module, beside the stock server."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import zmq

from sidecar.samples.wire_format import DEFAULT_MODULUS
from workloads.bench.sampling.instructions import Command, CountedServer
from workloads.local_server import built
from workloads.supported_servers import supported_servers
from workloads.table import text_table

SALT = 24301  # any; the same keys are sampled in each run
KEYS = 2048
VALUE_BYTES = 100
PIPELINES = (1, 16)
RATES = (0.0, 0.001, 0.01, 1.0)
MOST_COUNTS = 5
AGREEMENT = 5  # instructions a command
CONNECT_LIMIT_MS = 20_000


class Variant(NamedTuple):
    """One way to run a server."""

    name: str
    binary: Path
    settings: dict[str, object]
    knob_prefix: str | None = None
    """``spreds-`` or ``spreds.`` if it samples, so that it needs an endpoint."""


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
    module, empty = f"{built('lib/spreds.so')}", f"{built('lib/empty.so')}"
    found = [Variant("stock", stock, {}), Variant("stock again", stock, {})]

    def sampling(way: str, binary: Path, settings: dict[str, object], prefix: str) -> None:
        found.append(Variant(f"{way} off", binary, settings))
        for rate in rates:
            knobs = {f"{prefix}threshold": round(rate * DEFAULT_MODULUS), f"{prefix}salt": SALT}
            name = f"{way} R={rate:g}"
            found.append(Variant(name, binary, {**settings, **knobs}, prefix))

    if supported.patched_binary:
        sampling("patch", built(supported.patched_binary), {}, "spreds-")
    found.append(Variant("empty module", stock, {"loadmodule": empty}))
    found.append(Variant("empty filter", stock, {"loadmodule": f"{empty} filter"}))
    sampling("module", stock, {"loadmodule": module}, "spreds.")
    return found


def commands(keys: int = KEYS) -> dict[str, list[Command]]:
    """What is counted, by name; the SETs come first, and make the keys."""
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


def _undisturbed(server: CountedServer, stream: list[Command], pipeline: int) -> float:
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
    """Of a command, by its name and pipeline."""
    with _listened(variant) as server:
        return {
            (name, pipeline): _undisturbed(server, stream, pipeline)
            for name, stream in streams.items()
            for pipeline in PIPELINES
        }


def instruction_table(counts: list[Count]) -> str:
    """One line a variant, with what it adds to the first; a column a command and pipeline."""
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

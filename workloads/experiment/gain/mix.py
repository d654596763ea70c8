"""A mix: servers, what is asked of them cycle by cycle, and the memory that they share."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sidecar.config.fields import duration, size
from sidecar.config.node import DEFAULT_MINIMUM_BYTES
from solver_lambda.documents.keys import SERVER_PATTERN
from solver_lambda.documents.reader import DocumentError, Fields
from workloads.arguments import TRACES_FOLDER
from workloads.experiment.gain.loads import IntArray, Load, MissingTraceError, read_load
from workloads.table import say

CACHE_LATENCY_SECONDS = 200e-6
# Beside the servers' minima.
LEAST_SPARE_BYTES = 1 << 20
MIXES = Path(__file__).with_name("mixes")
QUICK = ("three", "swap", "loop-fits", "alternating", "growing", "equals")


@dataclass(frozen=True)
class Targets:
    """Bounds of what a ``Score`` has under the same names, for each salt.

    Attributes:
        share, late_share: at least; of stationary mixes.
        loss_ratio, worst_cycle_ratio: at most.
        moves: at most; ``None``: any number.
    """

    share: float = 0.90
    late_share: float = 0.97
    loss_ratio: float = 0.002
    worst_cycle_ratio: float = 0.10
    moves: int | None = None


def read_targets(table: Fields) -> Targets:
    """Read from a mix's file what differs from the default targets. Raises DocumentError."""
    given: dict[str, Any] = {
        one.name: table.integer(one.name, low=0)
        if one.name == "moves"
        else table.number(one.name, low=-1)
        for one in fields(Targets)
        if table.has(one.name)
    }
    table.done()
    return Targets(**given)


@dataclass(frozen=True)
class Phase:
    """What is asked of a server from one cycle (1 is the first) until the next phase.

    ``requests``: in each cycle; where it has several numbers, one after the other, and again.
    """

    first_cycle: int
    requests: tuple[int, ...]
    load: Load


@dataclass(frozen=True)
class MixServer:
    """Describes one server of a mix; ``ttl_seconds``: that each fill sets, 0 is none."""

    name: str
    weight: float
    backend_latency_seconds: float
    phases: tuple[Phase, ...]
    ttl_seconds: float = 0.0

    def phase(self, cycle: int) -> Phase:
        """Return the phase that a cycle is in."""
        return [phase for phase in self.phases if phase.first_cycle <= cycle][-1]

    def requests(self, cycle: int) -> int:
        """Return the number of requests in a cycle."""
        counts = self.phase(cycle).requests
        return counts[(cycle - self.phase(cycle).first_cycle) % len(counts)]


@dataclass(frozen=True)
class Mix:
    """``budget_bytes`` as ``maxmemory`` counts; ``changes``: the load is not stationary."""

    name: str
    description: str
    budget_bytes: int
    cycles: int
    cycle_seconds: float
    changes: bool
    targets: Targets
    servers: tuple[MixServer, ...]


def read_mix(path: Path, traces: Path = TRACES_FOLDER) -> Mix:
    """A mix from its TOML file; its traces are beside it, or in the folder ``traces``.

    Raises:
        DocumentError: it cannot be read, or something in it is wrong; ``MissingTraceError``: only
            a trace's file is missing.
        TraceError: a trace cannot be read.
    """
    try:
        with path.open("rb") as file:
            table = tomllib.load(file)
    except OSError as error:
        raise DocumentError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DocumentError(f"{path}: is no TOML: {error}") from None
    fields = Fields(table, str(path))
    folders = (path.parent, traces)
    mix = Mix(
        name=path.stem,
        description=fields.text("description") if fields.has("description") else "",
        budget_bytes=size(fields, "budget"),
        cycles=fields.integer("cycles", 16, low=2, high=1000),
        cycle_seconds=duration(fields, "cycle", default=3600.0, above=0),
        changes=fields.boolean("changes", False),
        targets=read_targets(fields.table("targets", {})),
        servers=tuple(_read_server(item, folders) for item in fields.tables("server")),
    )
    fields.check_distinct("server", (server.name for server in mix.servers))
    fields.done()
    if len(mix.servers) < 2:
        raise fields.refuse("server", "must be two servers or more: memory is divided between them")
    least = len(mix.servers) * DEFAULT_MINIMUM_BYTES + LEAST_SPARE_BYTES
    if mix.budget_bytes < least:
        raise fields.refuse(
            "budget",
            f"must be at least {least >> 20}mb for so many servers, not {fields.given('budget')}",
        )
    return mix


def _read_server(fields: Fields, folders: Sequence[Path]) -> MixServer:
    name = fields.text("name")
    if not SERVER_PATTERN.fullmatch(name):
        raise fields.refuse("name", f"must be letters, digits, dots and hyphens, not {name!r}")
    server = MixServer(
        name,
        fields.number("weight", 1.0, low=0),
        duration(fields, "backend_latency", above=CACHE_LATENCY_SECONDS),
        tuple(_read_phase(item, folders) for item in fields.tables("phase")),
        duration(fields, "ttl", above=0) if fields.has("ttl") else 0.0,
    )
    fields.done()
    starts = [phase.first_cycle for phase in server.phases]
    if starts[0] != 1 or starts != sorted(set(starts)):
        raise fields.refuse("phase", "must begin with from = 1, and go on in order")
    return server


def _read_phase(fields: Fields, folders: Sequence[Path]) -> Phase:
    given = fields.value("requests")
    counts = given if isinstance(given, list) and given else [given]
    for count in counts:
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise fields.refuse("requests", f"must be whole numbers of at least 0, not {count!r}")
    phase = Phase(
        fields.integer("from", 1, low=1), tuple(counts), read_load(fields.table("load"), folders)
    )
    fields.done()
    return phase


def mix_files(names: Sequence[str] | None, quick: bool, traces: Path) -> dict[Path, Mix]:
    """The mixes that are asked for, by name or file; ``None``: those that are bundled.

    Of the bundled, one whose traces are missing is left out, and told of, unless it is named.

    Raises:
        DocumentError, TraceError: one cannot be read.
    """
    chosen = names or (QUICK if quick else sorted(path.stem for path in MIXES.glob("*.toml")))
    mixes = {}
    for path in map(_path_of, chosen):
        try:
            mixes[path] = read_mix(path, traces)
        except MissingTraceError as error:
            if names:
                raise
            say(f"experiment gain: without {path.stem}: {error}")
    return mixes


def _path_of(name: str) -> Path:
    bundled = MIXES / f"{name}.toml"
    return bundled if bundled.exists() else Path(name)


@dataclass(frozen=True, eq=False)
class Requests:
    """Holds the requests of one server.

    Attributes:
        cycles: keys of each cycle, in order.
        sizes_bytes: key and value of each key.
        ttl_seconds: that each fill sets; 0 is none.
    """

    cycles: list[IntArray]
    sizes_bytes: npt.NDArray[np.uint32]
    ttl_seconds: float = 0.0

    def steps(self, cycle: int, steps: int) -> list[IntArray]:
        """A cycle's requests, of as many equal times."""
        return np.array_split(self.cycles[cycle], steps)


def record(mix: Mix, seed: int) -> list[Requests]:
    """Record the requests of each server, in the mix's order."""
    return [_record(server, mix.cycles, seed + place) for place, server in enumerate(mix.servers)]


def _record(server: MixServer, cycles: int, seed: int) -> Requests:
    random = np.random.default_rng(seed)
    had: dict[int, int] = {}
    # Keys of different loads are different keys, unless it is the same load again.
    first_key: dict[Load, int] = {}
    sizes: list[npt.NDArray[np.uint32]] = []
    drawn = []
    for cycle in range(1, cycles + 1):
        load, count = server.phase(cycle).load, server.requests(cycle)
        if load not in first_key:
            first_key[load] = sum(map(len, sizes))
            sizes.append(load.sizes_bytes(random))
        start = had.get(first_key[load], 0)
        drawn.append(load.keys(start, count, random) + first_key[load])
        had[first_key[load]] = start + count
    return Requests(drawn, np.concatenate(sizes), server.ttl_seconds)

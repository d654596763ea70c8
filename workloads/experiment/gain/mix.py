"""A mix: servers, what is asked of them cycle by cycle, and the memory that they share."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sidecar.config.fields import duration, size
from sidecar.config.node import DEFAULT_MINIMUM_BYTES
from solver_lambda.documents.keys import SERVER_PATTERN
from solver_lambda.documents.reader import DocumentError, Fields
from workloads.experiment.gain.loads import Load, read_load
from workloads.experiment.gain.targets import Targets, read_targets
from workloads.shared_traces import TRACES_FOLDER

CACHE_LATENCY_SECONDS = 200e-6
# Beside the servers' minima.
LEAST_SPARE_BYTES = 1 << 20


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
    """One server of a mix; ``ttl_seconds``: that each fill sets, 0 is none."""

    name: str
    weight: float
    backend_latency_seconds: float
    phases: tuple[Phase, ...]
    ttl_seconds: float = 0.0

    def phase(self, cycle: int) -> Phase:
        """In a cycle."""
        return [phase for phase in self.phases if phase.first_cycle <= cycle][-1]

    def requests(self, cycle: int) -> int:
        """In a cycle."""
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
        fields.integer("from", 1, low=1),
        tuple(counts),
        read_load(fields.table("load"), folders),
    )
    fields.done()
    return phase

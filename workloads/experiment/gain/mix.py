"""A mix: servers, what is asked of them cycle by cycle, and the memory that they share."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from sidecar.config.fields import duration, size
from solver_lambda.documents.keys import SERVER_PATTERN
from solver_lambda.documents.reader import DocumentError, Fields
from workloads.experiment.gain.loads import Load, read_load

CACHE_LATENCY_SECONDS = 200e-6


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
    """One server of a mix."""

    name: str
    weight: float
    backend_latency_seconds: float
    phases: tuple[Phase, ...]

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
    servers: tuple[MixServer, ...]


def read_mix(path: Path) -> Mix:
    """A mix from its TOML file.

    Raises:
        DocumentError: it cannot be read, or something in it is wrong.
    """
    try:
        with path.open("rb") as file:
            table = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise DocumentError(f"{path}: {error}") from None
    fields = Fields(table, str(path))
    mix = Mix(
        name=path.stem,
        description=fields.text("description", ""),
        budget_bytes=size(fields, "budget"),
        cycles=fields.integer("cycles", 16, low=2, high=1000),
        cycle_seconds=duration(fields, "cycle", default=3600.0, above=0),
        changes=fields.boolean("changes", False),
        servers=tuple(_read_server(item, path.parent) for item in fields.tables("server")),
    )
    fields.check_distinct("server", (server.name for server in mix.servers))
    fields.done()
    return mix


def _read_server(fields: Fields, folder: Path) -> MixServer:
    name = fields.text("name")
    if not SERVER_PATTERN.fullmatch(name):
        raise fields.refuse("name", f"must be letters, digits, dots and hyphens, not {name!r}")
    server = MixServer(
        name,
        fields.number("weight", 1.0, low=0),
        duration(fields, "backend_latency", above=CACHE_LATENCY_SECONDS),
        tuple(_read_phase(item, folder) for item in fields.tables("phase")),
    )
    fields.done()
    starts = [phase.first_cycle for phase in server.phases]
    if starts[0] != 1 or starts != sorted(set(starts)):
        raise fields.refuse("phase", "must begin with from = 1, and go on in order")
    return server


def _read_phase(fields: Fields, folder: Path) -> Phase:
    given = fields.value("requests")
    counts = given if isinstance(given, list) and given else [given]
    for count in counts:
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise fields.refuse("requests", f"must be whole numbers of at least 0, not {count!r}")
    phase = Phase(
        fields.integer("from", 1, low=1),
        tuple(counts),
        read_load(fields.table("load"), folder),
    )
    fields.done()
    return phase

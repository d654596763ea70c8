"""Reads the node's configuration, one TOML file; refuses it in a sentence if anything is wrong."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from sidecar.config.addresses import place_of, read_server_url
from sidecar.config.controller_config import ControllerConfig, read_controller
from sidecar.config.fields import (
    as_written,
    duration,
    lasting_secret_path,
    reads_secrets,
    secret,
    secret_key,
    size,
)
from sidecar.config.listeners import KnownListeners
from sidecar.config.log_config import LogConfig, read_log
from sidecar.config.memory import MemoryConfig, read_memory
from sidecar.config.operators import OperatorsConfig, read_operators
from sidecar.config.planning import read_planning
from sidecar.config.prices import Prices, read_prices
from sidecar.config.sampling import SamplingConfig, read_sampling
from sidecar.config.settings_limits import SettingsLimits, read_limits
from sidecar.config.tls import TlsConfig, read_tls
from solver_lambda.documents.keys import NODE_PATTERN, SERVER_PATTERN
from solver_lambda.documents.planning_settings import PlanningSettings
from solver_lambda.documents.reader import DocumentError, Fields
from solver_lambda.documents.server_settings import BOUNDS, SERVER_SETTINGS
from solver_lambda.documents.units import format_size

# What may be done with plans; the first is what a new installation does.
MODES = ("recommend", "apply")
# How a server is sampled; ``auto``: by what it has, and where it has nothing, by looking at it.
SAMPLERS = ("auto", "module", "patch", "look")
FLOORS = ("none", "before")
DEFAULT_MINIMUM_BYTES = 2 << 20
DEFAULT_CACHE_LATENCY_SECONDS = 200e-6


@dataclass(frozen=True)
class ServerConfig:
    """Describes one Redis server of the node.

    Attributes:
        backend_latency_seconds: bd of (8.2); ``None``: as measured.
        cache_latency_seconds: cd of (8.2).
        maximum_bytes: ``None``: as much as there is.
        bounds: as in the observation.
        cache: it may lose keys, also where clients take work from it.
        sampler: one of ``SAMPLERS``.
        floor: one of ``FLOORS``: whether it keeps hitting as often as with its size before SPREDS.
        password_from: the key that told the password, with what it names.
        password_path: the file that it was read from, and is read from again where it is refused.
        source: the file that has all this, for messages.
        listeners: users that are known to listen at the address; of no file.
    """

    name: str
    url: str
    weight: float = 1.0
    backend_latency_seconds: float | None = None
    cache_latency_seconds: float = DEFAULT_CACHE_LATENCY_SECONDS
    minimum_bytes: int = DEFAULT_MINIMUM_BYTES
    maximum_bytes: int | None = None
    bounds: Mapping[str, float] = field(default_factory=dict)
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    password_from: str | None = None
    password_path: Path | None = None
    source: str = ""
    tls: TlsConfig | None = None
    cache: bool = False
    floor: str = FLOORS[0]
    sampler: str = SAMPLERS[0]
    listeners: KnownListeners | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class CycleConfig:
    """An observation is due at the maximum age, or when each server has sent an equal share of
    ``samples``."""

    samples: int = 500_000
    maximum_age_seconds: float = 3600.0


@dataclass(frozen=True)
class SidecarConfig:
    """Has everything that an operator tells the sidecar.

    Attributes:
        forecasts: plans look ahead, and memory is handed over as it is filled; otherwise the last
            window counts, and sizes are taken at once, as in the thesis.
        mode: ``recommend``: plans are made and shown; ``apply``: and carried out; ``None``: the
            file does not say, which is ``recommend`` until somebody orders otherwise.
    """

    node: str
    memory: MemoryConfig
    sampling: SamplingConfig
    cycle: CycleConfig
    controller: ControllerConfig
    planning: PlanningSettings
    limits: SettingsLimits
    servers: tuple[ServerConfig, ...]
    state_file: Path | None = None
    forecasts: bool = True
    operators: OperatorsConfig = field(default_factory=OperatorsConfig)
    log: LogConfig = field(default_factory=LogConfig)
    mode: str | None = None
    prices: Prices = field(default_factory=Prices)

    def needs_restart_after(self, old: SidecarConfig) -> list[str]:
        """Return what a reload cannot change: everything but who plans, when and for what."""
        before, after = old._fixed(), self._fixed()
        return [key for key, value in after.items() if value != before[key]]

    def _fixed(self) -> dict[str, object]:
        return {
            "node": self.node,
            "[memory]": self.memory.as_written,
            "[sampling]": self.sampling,
            "state_file": self.state_file,
            "planning.forecast": self.forecasts,
            # A token is read again where its file changes.
            "[operators]": replace(
                self.operators, token=None if self.operators.token_path else self.operators.token
            ),
            "[log]": self.log,
            "the servers or how to reach them": [
                (item.name, item.url, item.username, item.password_from, item.tls, item.sampler)
                for item in self.servers
            ],
        }


def load_config(path: Path | str, *, secrets: bool = True) -> SidecarConfig:
    """Read and check a configuration file.

    Args:
        secrets: whether passwords, tokens and keys are read as well; otherwise something else
            stands in their place, for who only speaks to the running sidecar.

    Raises:
        DocumentError: one sentence naming the file, the key and the value at fault.
    """
    path = Path(path)
    try:
        text = path.read_text("utf-8")
        table = tomllib.loads(text)
    except OSError as error:
        raise DocumentError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # ValueError also for a number of 4,301 digits
        hint = _unquoted(text, error) if isinstance(error, tomllib.TOMLDecodeError) else ""
        raise DocumentError(f"{path}: not a TOML file: {error}{hint}") from error
    before = reads_secrets.set(secrets)
    try:
        return read_config(Fields(table, str(path)), path.parent)
    finally:
        reads_secrets.reset(before)


def _unquoted(text: str, error: tomllib.TOMLDecodeError) -> str:
    """Say what is wrong with the line at fault, if it is what most people forget."""
    place = re.search(r"at line (\d+)", str(error))
    line = text.split("\n")[int(place[1]) - 1] if place else ""
    option = re.match(r"\s*(\w+)\s*=\s*[\w./%:-]*[A-Za-z%/][\w./%:-]*\s*(#|$)", line)
    if "('server',)" in str(error) or re.search(r"^\s*\[server\]", text, re.MULTILINE):
        return ": each server begins with [[server]], in double brackets"
    return f": the value of {option[1]} must stand in quotes" if option else ""


def read_config(fields: Fields, folder: Path) -> SidecarConfig:
    """Check the table of a file; relative paths in it start at ``folder``.

    Raises:
        DocumentError: as ``load_config``.
    """
    node = fields.text("node")
    if not NODE_PATTERN.fullmatch(node):
        raise fields.refuse("node", f"must be lower-case letters, digits and hyphens, not {node!r}")
    memory = read_memory(fields.table("memory"), folder)
    cycle = _read_cycle(fields.table("cycle", {}))
    planning = read_planning(
        fields.value("planning", {}),
        fields.source,
        "planning",
        cycle_seconds=cycle.maximum_age_seconds,
    )
    servers = tuple(_read_server(table, folder) for table in fields.tables("server"))
    _check_servers(fields, servers, memory)
    state_file = folder / fields.text("state_file") if fields.has("state_file") else None
    config = SidecarConfig(
        node=node,
        memory=memory,
        sampling=read_sampling(fields.table("sampling")),
        cycle=cycle,
        controller=read_controller(fields.table("controller", {}), folder),
        planning=planning.settings,
        forecasts=planning.forecasts,
        limits=read_limits(fields.table("limits", {}), memory.budget_bytes // len(servers) // 2),
        servers=servers,
        state_file=state_file,
        operators=read_operators(fields.table("operators", {}), folder, state_file),
        log=read_log(fields.table("log", {})),
        mode=fields.text("mode", choices=MODES) if fields.has("mode") else None,
        prices=read_prices(fields.table("prices", {})),
    )
    fields.done()
    return config


def _read_cycle(fields: Fields) -> CycleConfig:
    cycle = CycleConfig(
        samples=fields.integer("samples", CycleConfig.samples, low=1),
        maximum_age_seconds=duration(
            fields, "maximum_age", default=CycleConfig.maximum_age_seconds, above=0
        ),
    )
    fields.done()
    return cycle


def _read_server(fields: Fields, folder: Path) -> ServerConfig:
    name = fields.text("name")
    if not SERVER_PATTERN.fullmatch(name):
        raise fields.refuse(
            "name", f"must be letters, digits, dots, hyphens and underscores, not {name!r}"
        )
    given = {setting.name: as_written(fields, setting) for setting in SERVER_SETTINGS}
    given = {name: value for name, value in given.items() if value is not None}
    if "minimum_bytes" in given:
        given["minimum_bytes"] = max(1, given["minimum_bytes"])  # to Redis, 0 is no limit
    url = read_server_url(fields, "url")
    server = ServerConfig(
        name=name,
        url=url,
        bounds={name: given[name] for name in BOUNDS if name in given},
        **{name: value for name, value in given.items() if name not in BOUNDS},
        cache_latency_seconds=duration(
            fields, "cache_latency", default=DEFAULT_CACHE_LATENCY_SECONDS
        ),
        maximum_bytes=size(fields, "maximum", low=1) if fields.has("maximum") else None,
        username=fields.text("username") if fields.has("username") else None,
        password=secret(fields, "password", folder),
        password_from=secret_key(fields, "password"),
        password_path=lasting_secret_path(fields, "password", folder),
        source=fields.source,
        tls=read_tls(fields, folder, url),
        cache=fields.boolean("cache", False),
        floor=fields.text("floor", FLOORS[0], FLOORS),
        sampler=fields.text("sampler", SAMPLERS[0], SAMPLERS),
    )
    fields.done()
    if server.maximum_bytes is not None and server.maximum_bytes < server.minimum_bytes:
        raise fields.refuse(
            "maximum",
            f"{format_size(server.maximum_bytes)} is below the minimum "
            f"{format_size(server.minimum_bytes)}",
        )
    return server


def _check_servers(fields: Fields, servers: tuple[ServerConfig, ...], memory: MemoryConfig) -> None:
    fields.check_distinct("server", (server.name for server in servers))
    by_place: dict[tuple[str, int], str] = {}
    for server in servers:
        other = by_place.setdefault(place_of(server.url), server.name)
        if other != server.name:
            raise fields.refuse(
                "server", f"has {other!r} and {server.name!r} at one address: {server.url!r}"
            )
    minima = sum(server.minimum_bytes for server in servers)
    # Where M is a share of what there is, minima may be cut (sidecar/servers/sizes/budget_fit.py).
    if minima > memory.budget_bytes and memory.budget_share is None:
        raise fields.refuse(
            "server",
            f"minima sum to {format_size(minima)}, more than memory.budget, "
            f"{format_size(memory.budget_bytes)}: lower server.minimum (by default "
            f"{format_size(DEFAULT_MINIMUM_BYTES)}), or raise memory.budget",
        )

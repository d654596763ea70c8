"""A node's programs, as processes beside servers of ours.

``spreds run``, with the controller in it unless another is named, and the solver as a service
(``python -m solver_lambda serve``).
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from sidecar.config.node import DEFAULT_CACHE_LATENCY_SECONDS
from solver_lambda.documents.keys import plan_key
from solver_lambda.documents.plan import AdaptationPlan
from workloads.local_node import wait_until
from workloads.local_server import LocalServer
from workloads.processes import running_program


def node_file(table: Mapping[str, Any]) -> str:
    """TOML of values, tables of values, and lists of such tables."""
    lines = _pairs({key: value for key, value in table.items() if not _is_nested(value)})
    for name, value in table.items():
        if isinstance(value, Mapping):
            lines += ["", f"[{name}]", *_pairs(value)]
        elif _is_nested(value):
            for row in value:
                lines += ["", f"[[{name}]]", *_pairs(row)]
    return "\n".join([*lines, ""])


def _is_nested(value: object) -> bool:
    return isinstance(value, Mapping | list)


def _pairs(table: Mapping[str, Any]) -> list[str]:
    # Texts, numbers and truth are in JSON as in TOML.
    return [f"{key} = {json.dumps(value)}" for key, value in table.items()]


NODE = "experiment"
EMBEDDED = '[controller]\nkind = "embedded"\nfolder = "documents"\n'


@dataclass(frozen=True)
class NodeServer:
    """One server, as its team describes it; the weight is w of (8.1), the latency bd of (8.2)."""

    name: str
    weight: float
    backend_latency_seconds: float


@dataclass(frozen=True)
class NodeSettings:
    """What an operator would say, but for times, which may be compressed, and sampling, of all
    keys.

    Attributes:
        servers: in the order of the file.
        budget_bytes: M, of (8.1).
        cycle_seconds: a plan is due so often.
        rss_wait_seconds: growth waits so long for resident memory; ``None``: as by default.
        cache_latency_seconds: cd of (8.2).
        forecast: ``competing``, the default, or ``last``: plan by the last cycle, and take the
            sizes at once, as in the thesis.
        sections: what else the file says, or says otherwise, by section.
        of_each: what else it says of each server.
        node: its name.
        controller: the text of ``[controller]``.
    """

    servers: Sequence[NodeServer]
    budget_bytes: int
    cycle_seconds: float
    rss_wait_seconds: float | None = None
    cache_latency_seconds: float = DEFAULT_CACHE_LATENCY_SECONDS
    forecast: str = "competing"
    sections: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    of_each: Mapping[str, object] = field(default_factory=dict)
    node: str = NODE
    controller: str = EMBEDDED


@dataclass(frozen=True)
class StartedSidecar:
    """A sidecar that runs; its process, its log and its servers."""

    process: subprocess.Popen[str]
    log: Path
    servers: Mapping[str, LocalServer]

    def wait_until_sampled(self) -> None:
        """Return when it samples all servers, or looks at them. Raises RuntimeError if it ended."""

        def is_over() -> bool:
            looked_at = self.log.read_text().count("is looked at from outside")
            return (
                self.process.poll() is not None
                or looked_at >= len(self.servers)
                or all(map(is_sampled, self.servers.values()))
            )

        wait_until(is_over, self.log.read_text)
        self.check()

    def check(self) -> None:
        """Raises RuntimeError if it ended."""
        if self.process.poll() is not None:
            code, said = self.process.returncode, self.log.read_text()[-4000:].strip()
            raise RuntimeError(f"the sidecar ended with exit code {code}: {said}")


@contextmanager
def running_sidecar(
    settings: NodeSettings, running: Mapping[str, LocalServer], folder: Path
) -> Iterator[StartedSidecar]:
    """Run a sidecar until the end of the block; ``folder`` gets its log and its documents.

    Raises:
        RuntimeError: it did not start, or ended before it was told to.
    """
    with started_sidecar(settings, running, folder) as sidecar:
        sidecar.wait_until_sampled()
        yield sidecar


@contextmanager
def started_sidecar(
    settings: NodeSettings,
    running: Mapping[str, LocalServer],
    folder: Path,
    environment: dict[str, str] | None = None,
    log: Path | None = None,
) -> Iterator[StartedSidecar]:
    """Start a sidecar, which is not waited for; its log may lie elsewhere.

    Raises:
        RuntimeError: it ended before it was told to.
    """
    config, log = folder / "node.toml", log or folder / "sidecar.log"
    table = node_table(settings, running, folder)
    config.write_text(f"{node_file(table)}\n{settings.controller}")
    command = ["sidecar.cli", "run", str(config)]
    with running_program(command, log, signal.SIGTERM, environment=environment) as process:
        sidecar = StartedSidecar(process, log, running)
        yield sidecar
        sidecar.check()


def plans_in(folder: Path, after: int = 0) -> list[AdaptationPlan]:
    """Return what it planned ``after`` a cycle, in order."""
    kept = (folder / "documents" / plan_key(NODE, 0)).parent
    paths = sorted(path for path in kept.glob("[!.]*") if int(path.stem) > after)
    return [AdaptationPlan.loads(path.read_bytes(), path.name) for path in paths]


def moves_in(folder: Path) -> int:
    """Return how many of its plans changed sizes."""
    return sum(plan.decision == "apply" for plan in plans_in(folder))


def is_sampled(server: LocalServer) -> bool:
    """Whether the sidecar has turned its sampler on."""
    return bool(server.client.config_get("spreds-endpoint").get("spreds-endpoint"))


def node_table(
    settings: NodeSettings, running: Mapping[str, LocalServer], folder: Path
) -> dict[str, Any]:
    """Return what the node's file says, but for its controller."""
    table: dict[str, Any] = {
        "node": settings.node,
        "state_file": "state.json",
        "mode": "apply",
        "memory": {"budget": settings.budget_bytes},
        "sampling": {"endpoint": f"ipc://{folder}/samples", "rate": 1.0},
        "cycle": {"maximum_age": f"{settings.cycle_seconds}s"},
        "planning": {"forecast": settings.forecast},
        "server": [
            {
                "name": server.name,
                "url": running[server.name].url,
                "weight": server.weight,
                "backend_latency": f"{server.backend_latency_seconds}s",
                "cache_latency": f"{settings.cache_latency_seconds}s",
                **settings.of_each,
            }
            for server in settings.servers
        ],
    }
    if settings.rss_wait_seconds is not None:
        table["memory"]["rss_wait"] = f"{settings.rss_wait_seconds:.6f}s"
    for section, more in settings.sections.items():
        table[section] = {**table.get(section, {}), **more}
    return table


HOST = "127.0.0.1"
START_SECONDS = 30.0
LOOK_SECONDS = 0.02


class SolverService(NamedTuple):
    """Tells of a solver in a process of its own; its log is a JSON line a plan."""

    port: int
    process_id: int

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/"


@contextmanager
def running_service(
    log: Path, environment: dict[str, str] | None = None, arguments: Sequence[str] = ("--port", "0")
) -> Iterator[SolverService]:
    """Start one, at a free port unless ``arguments`` say otherwise, and end it.

    Raises:
        RuntimeError: it did not start.
    """
    command = ["solver_lambda", "serve", *arguments]
    with running_program(command, log, signal.SIGTERM, environment=environment) as process:
        until = time.monotonic() + START_SECONDS
        while not (said := log.read_text()).endswith("\n"):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the solver's service did not start: {said[-500:]}")
            time.sleep(LOOK_SECONDS)
        try:
            port = json.loads(said.splitlines()[0])["port"]
        except (ValueError, KeyError) as error:
            raise RuntimeError(f"the solver's service did not start: {said[-500:]}") from error
        yield SolverService(port, process.pid)

"""``spreds run`` beside servers of ours, with the controller in it unless another is named."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sidecar.config.node import DEFAULT_CACHE_LATENCY_SECONDS
from solver_lambda.documents.keys import plan_key
from solver_lambda.documents.plan import AdaptationPlan
from workloads.local_node import wait_until
from workloads.local_server import LocalServer
from workloads.node_file import node_file
from workloads.running_program import running_program

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
    node: str = NODE
    controller: str = EMBEDDED


@dataclass(frozen=True)
class StartedSidecar:
    """A sidecar that runs; its process, its log and its servers."""

    process: subprocess.Popen[str]
    log: Path
    servers: Mapping[str, LocalServer]

    def wait_until_sampled(self) -> None:
        """Return when it samples all servers. Raises RuntimeError if it ended."""
        wait_until(
            lambda: self.process.poll() is not None or all(map(is_sampled, self.servers.values())),
            self.log.read_text,
        )
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
    """Until the end of the block; ``folder`` gets its log and its documents.

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
) -> Iterator[StartedSidecar]:
    """The same, which is not waited for.

    Raises:
        RuntimeError: it ended before it was told to.
    """
    config, log = folder / "node.toml", folder / "sidecar.log"
    table = node_table(settings, running, folder)
    config.write_text(f"{node_file(table)}\n{settings.controller}")
    command = ["sidecar.cli", "run", str(config)]
    with running_program(command, log, signal.SIGTERM, environment=environment) as process:
        sidecar = StartedSidecar(process, log, running)
        yield sidecar
        sidecar.check()


def plans_in(folder: Path, after: int = 0) -> list[AdaptationPlan]:
    """What it planned ``after`` a cycle, in order."""
    kept = (folder / "documents" / plan_key(NODE, 0)).parent
    paths = sorted(path for path in kept.glob("[!.]*") if int(path.stem) > after)
    return [AdaptationPlan.loads(path.read_bytes(), path.name) for path in paths]


def moves_in(folder: Path) -> int:
    """How many of its plans changed sizes."""
    return sum(plan.decision == "apply" for plan in plans_in(folder))


def is_sampled(server: LocalServer) -> bool:
    """Whether the sidecar has turned its sampler on."""
    return bool(server.client.config_get("spreds-endpoint").get("spreds-endpoint"))


def node_table(
    settings: NodeSettings, running: Mapping[str, LocalServer], folder: Path
) -> dict[str, Any]:
    """What the node's file says, but for its controller."""
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
            }
            for server in settings.servers
        ],
    }
    if settings.rss_wait_seconds is not None:
        table["memory"]["rss_wait"] = f"{settings.rss_wait_seconds:.6f}s"
    for section, more in settings.sections.items():
        table[section] = {**table.get(section, {}), **more}
    return table

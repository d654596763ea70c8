"""A node for faults: real servers under load, the real sidecar, and an observer."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from workloads.experiment.faults.stage.node_servers import OBJECT_BYTES, PATCH, USER, NodeServer
from workloads.experiment.faults.stage.sidecar_process import SidecarProcess
from workloads.experiment.faults.stage.sightings import NamedGaps, Sightings, sightings
from workloads.experiment.faults.stage.waiting import wait_for
from workloads.processes import running_program

MIB = 1 << 20
BUDGET_MIB = 48
# Keys of each server: more than all the memory that it can get.
KEYS = 20_000
LOOKS_PER_SECOND = 120
CYCLE_SECONDS = 1.0
# Nothing here takes so long; who waits for it in vain has found a fault.
WAIT_SECONDS = 90.0
RSS_GROWTH_BYTES = 24 * MIB

_FILE = """
node = "faults"
state_file = "{state_file}"
mode = "apply"
[memory]
budget = "{budget_mib}MiB"
rss_wait = "0s"
{memory}
[sampling]
endpoint = "ipc://{folder}/samples"
rate = 0.1
[cycle]
samples = 100000000
maximum_age = "{cycle}s"
[planning]
minimum_gain_ratio = 0.0
forecast = "{forecast}"
{controller}
"""
_SERVER = """
[[server]]
name = "{name}"
url = "unix://{path}"
username = "{user}"
password_env = "SPREDS_FAULTS_PASSWORD"
backend_latency = "50ms"
"""


class StageError(RuntimeError):
    """What must come did not."""


class FaultNode:
    """A context manager, at work when entered.

    Attributes:
        servers, sidecar, gaps: its parts.
        budget_bytes: M.
        first_bytes: sizes at the beginning, by server.
        shares: of the last plan that was ordered, by server.
        cloud, function: a ``LocalCloud`` and its ``PlayedFunction``, in rows that have them.
    """

    def __init__(
        self,
        servers: int = 3,
        *,
        way: str = PATCH,
        proxied: bool = True,
        settings: Mapping[str, object] | None = None,
        memory: str = "",
        controller: str = '[controller]\nkind = "embedded"',
        state_file: Path | None = None,
        forecast: str = "last",
        environment: Mapping[str, str] | None = None,
        cloud: Any = None,
        function: Any = None,
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="spreds-faults-"))
        self.budget_bytes = BUDGET_MIB * MIB
        self.gaps = NamedGaps()
        self.servers: list[NodeServer] = []
        self.shares: dict[str, int] = {}
        self._number = 0
        self._memory, self._controller = memory, controller
        self._forecast = forecast
        self.cloud, self.function = cloud, function
        # A client of AWS keeps as many connections as it had calls at once.
        self.spare_descriptors = 4 if cloud else 0
        self._stack = ExitStack()
        self._stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.sidecar = SidecarProcess(
            self.folder,
            state_file,
            {"SPREDS_FAULTS_PASSWORD": "none is needed", **(environment or {})},
        )
        try:
            first_bytes = self.budget_bytes // servers
            self.first_bytes = dict.fromkeys("abcdefgh"[:servers], first_bytes)
            for number in range(servers):
                name = "abcdefgh"[number]
                server = NodeServer(name, first_bytes, way, proxied, dict(settings or {}))
                self.servers.append(self._stack.enter_context(server))
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Self:
        try:
            for server in self.servers:
                server.fill(self.budget_bytes // len(self.servers) // OBJECT_BYTES)
            paths = [str(server.path) for server in self.servers]
            self._run("observer", str(self.folder / "seen"), str(LOOKS_PER_SECOND), *paths)
            self._run("requests", str(KEYS), str(OBJECT_BYTES), *paths)
            self.write_file()
            self._stack.callback(self._end_sidecar)
            self.plan(*[1] * len(self.servers))
            if self.function is not None:
                self.function.begin(self.folder)
            self.sidecar.start()
            self.sidecar.wait_until_ready()
            self.converge()
            self.resources = self.sidecar.resources()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def write_file(self) -> None:
        """Write the sidecar's file."""
        text = _FILE.format(
            state_file=self.sidecar.state_file,
            budget_mib=BUDGET_MIB,
            memory=self._memory,
            folder=self.folder,
            cycle=CYCLE_SECONDS,
            forecast=self._forecast,
            controller=self._controller,
        )
        for server in self.servers:
            text += _SERVER.format(name=server.name, path=server.sidecar_path, user=USER)
        Path(self.sidecar.file).write_text(text)

    def _run(self, module: str, *words: str) -> None:
        command = [f"workloads.experiment.faults.stage.{module}", *words]
        log = self.folder / f"{module}.log"
        self._stack.enter_context(running_program(command, log, signal.SIGTERM))

    def _end_sidecar(self) -> None:
        self.sidecar.send(signal.SIGCONT)
        self.sidecar.end(signal.SIGKILL)

    def plan(self, *shares: int) -> None:
        """New targets: the budget in these proportions."""
        self._number += 1
        names = [server.name for server in self.servers]
        self.shares = dict(zip(names, shares, strict=True))
        self.sidecar.order_plan(self._number, self.shares)

    def sizes_bytes(self) -> dict[str, int | None]:
        """Return the sizes in force; ``None`` of a server that does not answer."""
        return {server.name: server.maxmemory_bytes() for server in self.servers}

    def is_converged(self) -> bool:
        """Whether all have what the last order's plan says, made while all could move, and nobody
        is in shrink mode."""
        plan = self.full_plan()
        return (
            plan is not None
            and self.sizes_bytes() == plan
            and all(server.shrink_knobs() == server.knobs for server in self.servers)
        )

    def full_plan(self) -> dict[str, int] | None:
        """Return the last plan's sizes, if it is of the last order and for all servers."""
        plans = self.sidecar.plans()
        if not plans or plans[-1].number != self._number or plans[-1].free < len(self.servers):
            return None
        return plans[-1].sizes_bytes

    def full_plans(self) -> int:
        """Count the plans that were made of the last order while all servers could move."""
        return sum(
            plan.number == self._number and plan.free == len(self.servers)
            for plan in self.sidecar.plans()
        )

    def converge(self, limit_seconds: float = WAIT_SECONDS) -> int:
        """Wait for the planned sizes; return how many such plans it took. Raises StageError."""
        before = self.full_plans()
        if not wait_for(self.is_converged, limit_seconds):
            raise StageError(f"sizes do not come to the plan's: {self.described()}")
        return self.full_plans() - before

    def described(self) -> str:
        """Describe the node for people."""
        log = self.sidecar.log()[-1500:].strip()
        knobs = {server.name: server.shrink_knobs() for server in self.servers}
        return (
            f"sizes {self.sizes_bytes()}, wanted {self.full_plan()}, knobs {knobs}, sidecar "
            f"{'runs' if self.sidecar.runs else 'does not run'}; its log ends: {log}"
        )

    def seen(self) -> Sightings:
        """Return what the observer saw until now."""
        return sightings(self.folder / "seen", self.budget_bytes)

    def resources_grew(self) -> str:
        """Return what the sidecar has more of than at the beginning, in words; empty if nothing."""
        before = self.resources
        now = before

        def is_no_more() -> bool:
            nonlocal now
            now = self.sidecar.resources()
            return not (
                now.rss_bytes > before.rss_bytes + RSS_GROWTH_BYTES
                or now.threads > before.threads
                or now.descriptors > before.descriptors + self.spare_descriptors
            )

        # Threads that answer somebody, and files of state that is written, are gone soon.
        if wait_for(is_no_more, 30.0):
            return ""
        return f"the sidecar had {before}, and has {now}"

"""A node that faults befall, and what is said of it in the end."""

from __future__ import annotations

import signal
from typing import Any

from workloads.experiment.faults.stage.node import (
    BUDGET_MIB,
    MIB,
    WAIT_SECONDS,
    FaultNode,
    StageError,
)
from workloads.experiment.faults.stage.script import Verdict
from workloads.experiment.faults.stage.sightings import SILENT_SECONDS, growths_too_early
from workloads.experiment.faults.stage.waiting import pause, wait_for

# After a fault the plan that was under way may be for another state; then one has to do.
CYCLES = 2
LOG_BYTES_PER_SECOND = 1024
RESUME_SECONDS = 3.0
# What it says of its servers when it starts, and again of what has befallen them.
START_LOG_BYTES = 1000


class FaultStage(FaultNode):
    """Is a ``workloads.experiment.faults.stage.script.Stage``.

    Attributes:
        cycles: the most that it took, after a fault was over, until all was as planned.
        most_cycles: that it may take.
    """

    def __init__(self, servers: int = 3, **options: Any) -> None:
        super().__init__(servers, **options)
        self.cycles = 0
        self.most_cycles = CYCLES
        self._resumed = False

    def kill_server(self, server: int) -> None:
        if self.servers[server].runs:
            self.servers[server].kill()
            self.gaps.end(f"{self._name(server)} hangs")
            self.gaps.end(f"{self._name(server)} evicts nothing")
            self.gaps.end(f"{self._name(server)} refuses CONFIG SET")
            self.gaps.end(f"{self._name(server)} holds what cannot be evicted")

    def start_server(self, server: int, maxmemory_mib: float) -> None:
        if not self.servers[server].runs:
            # Before it is there, since it takes connections before we hear that it does.
            self.gaps.offend(f"{self._name(server)} starts with its own file's size")
            self.servers[server].start(round(maxmemory_mib * MIB))
            self.gaps.offend(f"{self._name(server)} starts with its own file's size")

    def hang_server(self, server: int) -> None:
        if self.servers[server].runs:
            self.gaps.trouble(f"{self._name(server)} hangs", SILENT_SECONDS)
            self.servers[server].hang()

    def wake_server(self, server: int) -> None:
        self.servers[server].wake()
        self.gaps.end(f"{self._name(server)} hangs")

    def kill_sidecar(self) -> None:
        self.gaps.trouble("the sidecar is away")
        self.sidecar.end(signal.SIGKILL)
        self.gaps.end("the sidecar hangs")

    def start_sidecar(self) -> None:
        self.gaps.trouble("the sidecar is away")
        self.sidecar.start()
        if self.sidecar.wait_until_ready():
            self.gaps.end("the sidecar is away")

    def terminate_sidecar(self) -> None:
        self.gaps.trouble("the sidecar is away")
        self.sidecar.send(signal.SIGCONT)
        self.gaps.end("the sidecar hangs")
        self.sidecar.end(signal.SIGTERM)

    def hang_sidecar(self) -> None:
        if self.sidecar.runs:
            self.gaps.trouble("the sidecar hangs")
            self.sidecar.send(signal.SIGSTOP)

    def wake_sidecar(self) -> None:
        self.sidecar.send(signal.SIGCONT)
        self.gaps.end("the sidecar hangs")

    def set_by_hand(self, server: int, maxmemory_mib: float) -> None:
        self.gaps.offend(f"{self._name(server)} was set by hand")
        self.servers[server].ask("CONFIG SET", "maxmemory", round(maxmemory_mib * MIB))
        self.gaps.offend(f"{self._name(server)} was set by hand")

    def policy(self, server: int, policy: str) -> None:
        name = f"{self._name(server)} evicts nothing"
        if policy == "noeviction":
            self.gaps.trouble(name)
        else:
            self.gaps.end(name)
        self.servers[server].ask("CONFIG SET", "maxmemory-policy", policy)

    def refuse(self, server: int) -> None:
        self.gaps.trouble(f"{self._name(server)} refuses CONFIG SET", 1.0, 1.0)
        self.servers[server].may_set(False)

    def accept(self, server: int) -> None:
        self.servers[server].may_set(True)
        self.gaps.end(f"{self._name(server)} refuses CONFIG SET")

    def delay(self, server: int, seconds: float) -> None:
        proxy = self.servers[server].proxy
        assert proxy is not None
        self.gaps.trouble(f"{self._name(server)}'s replies are late or lost", SILENT_SECONDS)
        proxy.hurt()
        proxy.delay_seconds = seconds

    def drop_replies(self, server: int) -> None:
        proxy = self.servers[server].proxy
        assert proxy is not None
        self.gaps.trouble(f"{self._name(server)}'s replies are late or lost", SILENT_SECONDS)
        proxy.hurt()
        proxy.is_mute = True

    def pass_replies(self, server: int) -> None:
        proxy = self.servers[server].proxy
        assert proxy is not None
        proxy.heal()
        self.gaps.end(f"{self._name(server)}'s replies are late or lost")

    def pin(self, server: int, mebibytes: float) -> None:
        self.gaps.trouble(f"{self._name(server)} holds what cannot be evicted")
        self.servers[server].pin(mebibytes)

    def unpin(self, server: int) -> None:
        self.servers[server].unpin()
        self.gaps.end(f"{self._name(server)} holds what cannot be evicted")

    def wait(self, seconds: float) -> None:
        pause(seconds)

    def settle(self) -> None:
        self.wake_sidecar()
        for number, server in enumerate(self.servers):
            self.wake_server(number)
            if not server.runs:
                self.start_server(number, BUDGET_MIB / len(self.servers))
            if server.proxy:
                self.pass_replies(number)
            self.accept(number)
            self.policy(number, "allkeys-lru")
            self.unpin(number)
        self.sidecar.disarm()
        self.start_sidecar()
        self.sidecar.order("resume")
        self._resumed = True

    def converge(self, limit_seconds: float = WAIT_SECONDS) -> int:
        """Converge as the node does. A size set by hand that the sidecar sees only after it was
        told to resume holds: then it is told again."""
        before = self.full_plans()
        if self._resumed and not wait_for(self.is_converged, RESUME_SECONDS):
            self.sidecar.order("resume")
        super().converge(limit_seconds)
        return self.full_plans() - before

    def _name(self, server: int) -> str:
        return self.servers[server].name

    def recover(self) -> None:
        """All faults are over: wait until all is as planned. Raises StageError."""
        self.settle()
        self.cycles = max(self.cycles, self.converge())

    def verdict(self) -> Verdict:
        wrong = []
        try:
            self.cycles = max(self.cycles, self.converge())
            wrong += [self.resources_grew()]
        except (StageError, OSError) as error:
            wrong.append(str(error))
        if self.cycles > self.most_cycles:
            wrong.append(f"it took {self.cycles} cycles until all was as planned")
        if left := self.seen().unexcused(self.gaps.excuses()):
            seconds = sum(until - since for since, until in left)
            wrong.append(f"above the budget for {seconds:.3f} s that nothing excuses")
        if not self.gaps.has_offences:
            wrong += [
                f"too early: {line}"
                for line in growths_too_early(
                    self.sidecar.steps(), self.budget_bytes, self.first_bytes
                )
            ][:1]
        rate = self.sidecar.log_bytes_per_second(START_LOG_BYTES)
        if rate > LOG_BYTES_PER_SECOND:
            wrong.append(f"the log grows by {rate:.0f} bytes a second")
        seen = self.seen()
        return Verdict(
            ok=not any(wrong),
            words="; ".join(filter(None, wrong)),
            above_budget_seconds=seen.above_seconds,
            longest_above_seconds=seen.longest_above_seconds,
            named_gaps=self.gaps.names(),
        )

"""A stage without servers: the real code that sets sizes, over models, in simulated time.

Faults are those of ``Stage``. What is kept on file survives the sidecar, and so does what it sent
to a server that hangs. Not modelled: two sidecars, disks, clocks that jump, and a sidecar that
stops between two of its own commands and goes on later.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress

from sidecar.config.node import DEFAULT_MINIMUM_BYTES, ServerConfig
from sidecar.servers.connection.server_reading import ServerReading
from workloads.experiment.faults.model.model_line import MakeSidecar, ModelLine, Sidecar
from workloads.experiment.faults.model.model_server import (
    BASELINE_BYTES,
    MIB,
    ModelRules,
    ModelServer,
)
from workloads.experiment.faults.model.simulated_time import SimulatedClock
from workloads.experiment.faults.stage.script import Verdict

BUDGET_BYTES = 48 * MIB
# Less often than in truth: each step costs the time of the machine that runs the model.
BUSY_SECONDS = 0.1
IDLE_SECONDS = 0.5
CYCLE_SECONDS = 30.0
# The longest pause of a server that refused is 300 s.
SETTLE_SECONDS = 900.0
# What was so for so long stays so: the sidecar has seen everybody by then.
STEADY_SECONDS = 5.0
_TRY_SECONDS = 5.0
# What happens happens after one of the next commands of the sidecar, if it sends any in its next
# step; it is killed before one, or after.
_PLACES = 7


def _nothing() -> None:
    """Do nothing."""


class _Killed(BaseException):
    """Takes the place of ``kill -9``: no handler of the sidecar's may stop it."""


class ModelStage:
    """Models what ``Stage`` has.

    Attributes:
        servers: in truth.
        rules: what was broken.
    """

    def __init__(self, clock: SimulatedClock, servers: int, make_sidecar: MakeSidecar) -> None:
        self._clock = clock
        self._make_sidecar = make_sidecar
        share_bytes = BUDGET_BYTES // servers
        self.servers = [ModelServer(f"s{place}", share_bytes) for place in range(servers)]
        self.rules = ModelRules(self.servers, BUDGET_BYTES)
        self._configs = [
            ServerConfig(server.name, "redis://127.0.0.1:1") for server in self.servers
        ]
        self._plan_bytes = {server.name: server.maxmemory_bytes for server in self.servers}
        self._sidecar: Sidecar | None = None
        self._hangs = self._is_planned = False
        self._commands = 0
        self._hit_at = 0
        self._hit: Callable[[], None] = _nothing
        self._dies = False
        self._next_try_at = 0.0
        self._above_seconds = self._above_now_seconds = self._longest_above_seconds = 0.0
        clock.on_advance, clock.on_result = self._live, self._read
        self.start_sidecar()

    # As LineWatch has it.

    def sends(self, server: ModelServer, size_bytes: float | None) -> None:
        self._pass_place()
        if size_bytes is not None and server.is_alive and not server.refuses:
            self.rules.judge(server, size_bytes)

    def waits(self, server: ModelServer, size_bytes: float | None) -> None:
        if size_bytes is not None:
            self.rules.sent(server, size_bytes)

    def takes(self, server: ModelServer, size_bytes: float | None, life: int) -> None:
        if size_bytes is not None:
            self.rules.took(server, size_bytes, life)

    def took(self) -> None:
        self._pass_place()
        if self._commands >= self._hit_at:
            hit, self._hit = self._hit, _nothing
            hit()

    def _pass_place(self) -> None:
        self._commands += 1
        if self._dies and self._commands >= self._hit_at:
            raise _Killed

    def seen(self, server: ModelServer) -> None:
        unevictable = BASELINE_BYTES + server.pinned_bytes
        self.rules.seen(
            server.name, server.limit_bytes, server.used_bytes, unevictable, evicts=server.evicts
        )

    def _read(self, reading: ServerReading) -> None:
        name, _, _start = reading.run_id.partition("-")
        limit_bytes = reading.maxmemory_bytes or math.inf
        used, unevictable = reading.counted_bytes, reading.unevictable_bytes
        self.rules.seen(name, limit_bytes, used, unevictable, evicts=reading.evicts)

    def plan(self, *shares: int) -> None:
        spare_bytes = BUDGET_BYTES - len(self.servers) * DEFAULT_MINIMUM_BYTES
        self._plan_bytes = {
            server.name: DEFAULT_MINIMUM_BYTES + spare_bytes * share // sum(shares)
            for server, share in zip(self.servers, shares, strict=True)
        }
        self._is_planned = False
        self._hand_over()

    def kill_server(self, server: int) -> None:
        self._in_a_step(self.servers[server].kill)

    def start_server(self, server: int, maxmemory_mib: float) -> None:
        self.servers[server].start(round(maxmemory_mib * MIB))

    def hang_server(self, server: int) -> None:
        self._in_a_step(self.servers[server].hang)

    def wake_server(self, server: int) -> None:
        self.servers[server].wake()

    def kill_sidecar(self) -> None:
        if self._sidecar is not None and not self._hangs:
            self._hit_at, self._dies = self._next_place(), True
            with suppress(_Killed):
                self._step(self._sidecar)
            self._dies = False
        self._end_sidecar()

    def start_sidecar(self) -> None:
        if self._sidecar is not None:
            return
        lines = [self._line(place) for place in range(len(self.servers))]
        self._sidecar = self._make_sidecar(lines)
        self._sidecar.begin()
        self._hand_over()

    def terminate_sidecar(self) -> None:
        if self._sidecar is not None and not self._hangs:
            self._sidecar.terminate()
            self._end_sidecar()

    def hang_sidecar(self) -> None:
        self._hangs = self._sidecar is not None

    def wake_sidecar(self) -> None:
        self._hangs = False
        self._hand_over()

    def set_by_hand(self, server: int, maxmemory_mib: float) -> None:
        self._tell(server, maxmemory_bytes=round(maxmemory_mib * MIB))

    def policy(self, server: int, policy: str) -> None:
        self._tell(server, evicts=policy != "noeviction")

    def refuse(self, server: int) -> None:
        self._tell(server, refuses=True)

    def accept(self, server: int) -> None:
        self._tell(server, refuses=False)

    def delay(self, server: int, seconds: float) -> None:
        self._delay(server, seconds)

    def drop_replies(self, server: int) -> None:
        self._delay(server, math.inf)

    def pass_replies(self, server: int) -> None:
        self._delay(server, 0.0)

    def pin(self, server: int, mebibytes: float) -> None:
        self._tell(server, pinned_bytes=round(mebibytes * MIB))

    def unpin(self, server: int) -> None:
        self._tell(server, pinned_bytes=0)

    def wait(self, seconds: float) -> None:
        until = self._clock.now + seconds
        while self._clock.now < until:
            pause_seconds = IDLE_SECONDS
            if self._sidecar is not None and not self._hangs:
                self._step(self._sidecar)
                if self._clock.now >= self._next_try_at:
                    self._next_try_at = self._clock.now + _TRY_SECONDS
                    self._sidecar.try_again()
                if not self._sidecar.is_settled:
                    pause_seconds = BUSY_SECONDS
            self._clock.advance(min(pause_seconds, until - self._clock.now))

    def settle(self) -> None:
        for place, server in enumerate(self.servers):
            self.start_server(place, 16)
            server.wake()
            server.refuses, server.evicts = False, True
            server.delay_seconds, server.pinned_bytes = 0.0, 0
        self.wake_sidecar()
        self.start_sidecar()
        self._is_planned = False
        self._hand_over()

    def verdict(self) -> Verdict:
        """Say in words what broke, and where the servers have not come to what was planned last."""
        now, cycles = self._clock.now, 1
        until, there_since = now + SETTLE_SECONDS, now
        while self._clock.now < min(until, there_since + STEADY_SECONDS):
            self.wait(IDLE_SECONDS)
            if self._missing():
                there_since = self._clock.now
            if self._clock.now >= now + cycles * CYCLE_SECONDS:
                cycles += 1
                self._is_planned = False
                self._hand_over()
        words = [*self.rules.broken, *self._missing()]
        return Verdict(
            not words, "; ".join(words), self._above_seconds, self._longest_above_seconds, []
        )

    def _missing(self) -> list[str]:
        found = []
        for server in self.servers:
            wanted_bytes = self._plan_bytes[server.name]
            if server.maxmemory_bytes != wanted_bytes:
                found.append(
                    f"{server.name} has {server.maxmemory_bytes} bytes instead of {wanted_bytes}"
                )
            if not server.is_as_it_was:
                found.append(f"{server.name} is left in a shrink: {server.knobs}")
        return found

    def _line(self, place: int) -> ModelLine:
        return ModelLine(
            self._configs[place], self.servers[place], self._clock, self, self.rules.life
        )

    def _tell(self, place: int, **settings: int) -> None:
        """Somebody tells a server, if it listens."""
        server = self.servers[place]

        def tell() -> None:
            if server.is_alive and not server.hangs:
                for name, value in settings.items():
                    setattr(server, name, value)

        self._in_a_step(tell)

    def _delay(self, place: int, seconds: float) -> None:
        def delay() -> None:
            self.servers[place].delay_seconds = seconds

        self._in_a_step(delay)

    def _next_place(self) -> int:
        return self._commands + self._commands % _PLACES + 1

    def _in_a_step(self, hit: Callable[[], None]) -> None:
        """It happens while the sidecar is at work, or at least after that."""
        if self._sidecar is not None and not self._hangs:
            self._hit_at, self._hit = self._next_place(), hit
            self._step(self._sidecar)
            hit, self._hit = self._hit, _nothing
        hit()

    def _step(self, sidecar: Sidecar) -> None:
        self.rules.begin_step()
        sidecar.step()

    def _end_sidecar(self) -> None:
        self._sidecar, self._hangs = None, False
        self._clock.forget_jobs()
        self.rules.forget()

    def _hand_over(self) -> None:
        if self._sidecar is not None and not self._hangs and not self._is_planned:
            self._sidecar.plan(self._plan_bytes)
            self._is_planned = True

    def _live(self, seconds: float) -> None:
        for server in self.servers:
            server.live(seconds)
        if self.rules.total_bytes() > BUDGET_BYTES:
            self._above_seconds += seconds
            self._above_now_seconds += seconds
            self._longest_above_seconds = max(self._longest_above_seconds, self._above_now_seconds)
        else:
            self._above_now_seconds = 0.0

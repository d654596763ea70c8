"""Brings plans, orders, checks and history of one sidecar together."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Mapping, Sequence

from sidecar.base.log_setup import EVENT
from sidecar.base.metrics import Metrics
from sidecar.base.plain_text import quoted
from sidecar.config.effective_file import changed_options
from sidecar.config.node import SidecarConfig
from sidecar.control.enforcement import Enforcement
from sidecar.control.gain_by_curves import RecommendedGain, with_step
from sidecar.control.history import History, history_path
from sidecar.control.order_handler import OrderHandler
from sidecar.control.plan_application import PlanApplication
from sidecar.control.plan_rollback import PlanRollback
from sidecar.control.predicted_hits import predicted_hit_ratios
from sidecar.control.series import Series
from sidecar.control.server_events import ServerEvents
from sidecar.control.server_outages import set_again
from sidecar.curves.read_counts import ReadCounts
from sidecar.observing.observation_cycle import ObservationCycle
from sidecar.preflight.cgroup_watch import CgroupWatch
from sidecar.servers.actuator import Actuator
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.servers.sizes.fallen_budget import BUDGET_FELL
from sidecar.state.asked_observations import AskedObservations, asked_path
from sidecar.state.sidecar_state import SizeChange
from sidecar.state.state_store import StateStore
from solver_lambda.documents.observation import Observation, ServerObservation
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.documents.reader import DocumentError
from solver_lambda.documents.units import format_size
from solver_lambda.documents.words import time_words

# A measured latency is never quite the same.
_SAME_RATIO = 0.1


class MissWeights:
    """Knows what a miss of each server counts: its weight and its backend's latency, as they
    change.

    It is of one node, as it was when it last changed; nothing changes for a server that is new."""

    def __init__(self) -> None:
        self._servers: dict[str, ServerObservation] = {}

    def look(self, observation: Observation) -> str | None:
        """Say what has changed, for people; ``None``: nothing has."""
        weights, latencies = [], []
        for now in observation.servers:
            # Without a latency it is not known yet what its misses cost.
            if not now.backend_latency_seconds:
                continue
            before = self._servers.setdefault(now.name, now)
            was, latency = before.backend_latency_seconds, now.backend_latency_seconds
            least = _SAME_RATIO * was if now.backend_latency_source == "measured" else 0.0
            if before.weight != now.weight:
                weights.append(f"{now.name} {before.weight:g} -> {now.weight:g}")
            if abs(latency - was) > least:
                latencies.append(f"{now.name} {time_words(was)} -> {time_words(latency)}")
            elif before.weight == now.weight:
                continue
            self._servers[now.name] = now
        told = [
            f"{what} changed: {', '.join(ways)}"
            for what, ways in (("weights", weights), ("latency", latencies))
            if ways
        ]
        return "; ".join(told) or None


LOOK_SECONDS = 1.0
# Where sizes cannot be set, somebody may have made room since.
TRY_SECONDS = 10.0

log = logging.getLogger(__name__)


class ControlPlane:
    """Decides for one sidecar. ``lock`` keeps plans, observations and orders apart; all methods
    take it.

    Attributes:
        plans, orders, verification, history, series, cgroups, server_events: its parts.
        trouble: why no size can be set, for people; ``None``: it can.
        recommended: what plans that are not carried out would have saved.
        gain: what those have saved that were; ``None``: SPREDS has kept no sizes so far.
    """

    def __init__(
        self,
        config: SidecarConfig,
        store: StateStore,
        lock: threading.RLock,
        actuator: Actuator,
        metrics: Metrics,
    ) -> None:
        self._store = store
        self._lock = lock
        self._actuator = actuator
        self._config = config
        self._cycle: ObservationCycle | None = None
        self._looked_at = self._next_try_at = 0.0
        self.trouble: str | None = None
        self.history = History(history_path(config.state_file) if config.state_file else None)
        self._asked = asked = AskedObservations(asked_path(config.state_file))
        self._enforcement = Enforcement(config, store, actuator)
        self.plans = PlanApplication(
            config, store, lock, self._enforcement, metrics, self.history, asked.get
        )
        self.verification = PlanRollback(store, self._enforcement, self.history, metrics, asked.get)
        self.orders = OrderHandler(
            config,
            store,
            lock,
            actuator,
            self._enforcement,
            self.plans,
            self.verification,
            self.history,
        )
        self.series = Series(config.cycle.maximum_age_seconds)
        self.recommended = RecommendedGain(time.time())
        # On file with each observation.
        self.gain = store.now.gain
        self._yardstick = MissWeights()
        self.cgroups = CgroupWatch()
        self.server_events = ServerEvents(store.now.run_ids)
        self._enforcement.changed = self._resized
        self.plans.on_carried_out = self._carried_out
        self.plans.on_recommended = self._recommended

    def follow(self, cycle: ObservationCycle) -> None:
        """Judge plans by these observations."""
        self._cycle = cycle
        cycle.before_observation, cycle.observed = self._conclude, self._observed
        cycle.asked = self._asked

    @property
    def observation(self) -> Observation | None:
        """Return the last observation."""
        return self._cycle.last_observation if self._cycle else None

    @property
    def weighed(self) -> Sequence[ServerObservation]:
        """Return each server with its weight and latency, as they were observed last."""
        last = self._asked.last
        return last.servers if last is not None else ()

    @property
    def mode(self) -> str:
        """Return ``recommend`` or ``apply``."""
        return self._store.now.control.mode_with(self._config.mode)

    def begin(self, readings: Mapping[str, ServerReading | None]) -> None:
        """Take over the servers as they were found, or only watch them, also while a server cannot
        be brought under the budget."""
        with self._lock:
            with self._store.update() as state:
                state.keep_to(_what_plans_keep_to(self._config))
            self._enforcement.found(readings)
            went = self._take_over_or_watch()
            does = "keeps sizes" if self._store.now.control.sets_sizes else "sets nothing"
            words = f"the sidecar started; its mode is {self.mode}, it {does}{went}"
            self.history.add("start", words)

    def _take_over_or_watch(self) -> str:
        """Set sizes or only watch; say which changed by it, see ``Enforcement.begin``."""
        control = self._store.now.control
        self._next_try_at = time.monotonic() + TRY_SECONDS
        self.trouble = None
        if control.pause is None and (control.engaged or self.mode == "apply"):
            try:
                return self._enforcement.begin()
            except DocumentError as error:
                self.trouble = f"no size can be set: {error}"
                log.warning("%s", self.trouble)
        self._actuator.watch()
        return ""

    def _take_over(self) -> None:
        if went := self._take_over_or_watch():
            self.history.add("budget", f"sizes are kept from now on{went}")

    def use(self, config: SidecarConfig) -> None:
        """Go on with another configuration."""
        with self._lock:
            words = "; ".join(changed_options(self._config, config)) or "it says the same"
            log.info("reloaded: %s", words, extra=EVENT)
            self.history.add("reload", f"the node's file was read again: {words}")
            with self._store.update() as state:
                state.keep_to(_what_plans_keep_to(config))
            self._config = config
            self.plans.config = self.orders.config = self._enforcement.config = config
            if self.mode == "apply" and not self._store.now.control.engaged:
                self._take_over()

    def tick(self) -> None:
        """Do what is due; the main loop calls it each turn."""
        now_seconds = time.time()
        with self._lock:
            self.orders.tick(now_seconds)
            if abs(now_seconds - self._looked_at) < LOOK_SECONDS:
                return
            self._looked_at = now_seconds
            # A full disk may have room again.
            for kept in (self._store, self.history, self._asked):
                kept.write_again()
            if self.trouble is not None and time.monotonic() >= self._next_try_at:
                self._take_over()
            readings = self._actuator.readings
            errors = self._actuator.errors()
            for name, words in self.server_events.events(now_seconds, readings, errors):
                has_bytes = one.maxmemory_bytes if (one := readings.get(name)) else 0
                words += set_again(name, words, self._store.now, has_bytes)
                self.history.add("server", words, server=name)
            for name in self.server_events.refusals.lasting(now_seconds):
                self.verification.refused_writes(name)
            self.verification.lost_keys(self.server_events.buffers.just_now)
            self.verification.take_readings(readings)
            self.series.take_readings(
                now_seconds, readings, self.observation, self.predicted_hit_ratios()
            )

    def fitted(
        self, before_bytes: Mapping[str, int], sizes_bytes: Mapping[str, int], why: str
    ) -> None:
        """Note that sizes were changed for the budget's sake, and by no plan."""
        with self._lock:
            moved = {n: size for n, size in sizes_bytes.items() if size != before_bytes[n]}
            held = self._store.now.control.held
            for name, size_bytes in moved.items():
                words = "somebody set it by hand" if name in held else why
                self._resized(name, before_bytes[name], size_bytes, words)
            ways = ", ".join(
                f"{name} {format_size(before_bytes[name])} -> {format_size(size)}"
                for name, size in moved.items()
            )
            before = {name: before_bytes[name] for name in moved}
            self.history.add(
                "budget", f"{why}: {ways}", sizes_before_bytes=before, sizes_bytes=moved
            )
            if why == BUDGET_FELL:
                self.verification.disturbed(f"sizes were changed: {why}")

    def note_step(self, counts: Mapping[str, ReadCounts], seconds: float) -> None:
        """Note that a step of the curves is over that took so long."""
        with self._lock:
            self.verification.step(counts, seconds)
            readings = self._actuator.readings
            in_force = {name: reading.size_bytes for name, reading in readings.items()}
            self._step_gain(counts, in_force, seconds)
            if self.mode == "apply":
                self.recommended = RecommendedGain(time.time())
            else:
                self.recommended.step(counts, in_force, seconds)

    def _step_gain(
        self, counts: Mapping[str, ReadCounts], in_force_bytes: Mapping[str, int], seconds: float
    ) -> None:
        """Count the gain while sizes are kept, and where all servers had one before."""
        control = self._store.now.control
        installed = control.installed_bytes
        if not control.engaged or self.observation is None or 0 in installed.values():
            return
        servers = self.observation.servers
        self.gain = with_step(self.gain, servers, counts, in_force_bytes, installed, seconds)

    def problems(self) -> list[str]:
        """Say what keeps decisions from being carried out or kept, for people."""
        waiting = ", ".join(self._store.now.control.restoring_bytes)
        return [
            *(
                one
                for one in (self.trouble, self.plans.problem, self._actuator.guard.problem)
                if one
            ),
            *([] if self._store.is_saved else ["the state file cannot be written"]),
            *([f"still to be given back as before SPREDS: {waiting}"] if waiting else []),
        ]

    def predicted_hit_ratios(self) -> dict[str, float]:
        """Return what the curves say of the sizes that are wanted now."""
        wanted: dict[str, int] = {}
        if not self._actuator.looks_on:
            held, targets = self._store.now.control.held, self._store.now.targets_bytes
            wanted = {name: size for name, size in targets.items() if name not in held}
        return predicted_hit_ratios(self.observation, self._actuator.readings, wanted)

    def _conclude(self) -> None:
        with self._lock:
            self.verification.take_readings(self._actuator.read_all())
            self.verification.conclude(self.observation)

    def _observed(self, observation: Observation) -> None:
        """Sums of milliseconds begin anew where these count otherwise from now on."""
        with self._lock:
            with self._store.update() as state:
                state.gain = self.gain
            if words := self._yardstick.look(observation):
                self.history.add("yardstick", words, signed=self._signed(words))
                self.series.mark(observation.made_at_seconds, words)
                self.recommended = RecommendedGain(time.time())

    def _signed(self, words: str) -> dict[str, str]:
        """Return who signed the settings in force of the servers that ``words`` names."""
        settings = self._cycle.last_settings if self._cycle else {}
        named = settings.keys() & words.replace(",", " ").split()
        return {name: quoted(settings[name].set_by) for name in sorted(named)}

    def _carried_out(
        self,
        plan: AdaptationPlan,
        in_force_bytes: Mapping[str, int],
        before_bytes: Mapping[str, int],
    ) -> None:
        # One may still be on its way to what was planned before; a slip by hand was nobody's plan.
        real, slips = self._enforcement.sizes_in_force(), self._enforcement.contested()
        had = {**in_force_bytes, **{name: real[name] for name in real.keys() - slips}}
        self.verification.begin(plan, in_force_bytes, before_bytes)
        self.verification.take_readings(self._actuator.read_all())
        for server in plan.servers:
            if server.maxmemory_bytes != server.maxmemory_before_bytes:
                from_bytes = had.get(server.name, server.maxmemory_before_bytes)
                self._note_change(
                    server.name, from_bytes, server.maxmemory_bytes, server.reason, plan.cycle
                )
        self.recommended = RecommendedGain(time.time())

    def _resized(self, name: str, from_bytes: int, to_bytes: int, words: str) -> None:
        """Note a change by no plan: what was recommended is told from then on."""
        self._note_change(name, from_bytes, to_bytes, words)
        self.recommended = RecommendedGain(time.time())

    def _note_change(
        self, name: str, from_bytes: int, to_bytes: int, words: str, cycle: int | None = None
    ) -> None:
        change = SizeChange(time.time(), from_bytes, to_bytes, cycle, words)
        with self._store.update() as state:
            state.last_changes = {**state.last_changes, name: change}

    def _recommended(self, plan: AdaptationPlan) -> None:
        if self.observation is not None and self.observation.cycle == plan.cycle:
            sizes = {server.name: server.maxmemory_bytes for server in plan.servers}
            self.recommended.recommend(self.observation.servers, sizes, time.time())


def _what_plans_keep_to(config: SidecarConfig) -> str:
    """Return a digest of what the node's file says of sizes: it outlives a restart."""
    servers = [
        (one.name, one.weight, one.minimum_bytes, one.maximum_bytes, one.floor, dict(one.bounds))
        for one in config.servers
    ]
    told = repr((servers, config.memory.as_written, config.planning, config.limits))
    return hashlib.sha256(told.encode()).hexdigest()[:32]

"""Observes the servers when it is due, and asks the controller for a plan."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sidecar.base.log_setup import ROUTINE
from sidecar.base.metrics import Metrics
from sidecar.config.node import SidecarConfig
from sidecar.config.sampling import DEFAULT_RATE
from sidecar.controllers.controller import Controller
from sidecar.curves.decaying_counts import STEPS_A_CYCLE
from sidecar.curves.monitor import ServerMonitor
from sidecar.curves.other_policies import OtherPolicy
from sidecar.half_lives.planning_basis import PlanningBasis
from sidecar.observing.observer import (
    much_needed,
    observe,
    pending_request,
    wanted_bounds,
    with_unlimited,
)
from sidecar.observing.server_snapshot import ServerSnapshot, planned_bytes, resumed, that_fit
from sidecar.servers.actuator import Actuator
from sidecar.servers.connection.reading_window import LastingNeeds
from sidecar.servers.sizes.reserved_memory import (
    excess_bytes,
    on_the_way,
    reserved_for_unseen,
    to_put_back,
)
from sidecar.servers.sizes.shrink_floor import sizes_without_passing_needs
from sidecar.servers.sizes.transitions import ServerState
from sidecar.settings.background_settings import BackgroundSettings
from sidecar.settings.team_settings import TeamSettings
from sidecar.state.asked_observations import AskedObservations
from sidecar.state.sidecar_state import ObservedLatency
from sidecar.state.state_store import StateStore
from solver_lambda.documents.observation import Observation
from solver_lambda.documents.units import format_duration

log = logging.getLogger(__name__)

# A due observation waits so long for sizes that are on their way.
LONGEST_UNREST_SECONDS = 60.0
# A new installation shows a first plan so soon, if plans are only recommended.
FIRST_PLAN_SECONDS = 300.0


class ObservationCycle:
    """Observes for one sidecar. ``lock`` keeps plans and observations apart; ``changes_sizes`` says
    whether the last plan was carried out and changes sizes.

    Attributes:
        last_observation, was_early: the last one that was made; whether the load asked for it.
        other_policies: what they would make of each server, as of that observation.
        last_settings: the teams' settings that it used, or the first will use, by server.
        before_observation: called each time before the servers are looked at for one.
        observed: called with each that was made, before a plan is asked for.
        take_samples: called when they have been: what they served is to be in the samples. The
            same is done at the end of each step.
        asked: keeps them for those who judge plans; ``settings``: reads those of teams.
        shrinking_since: when each server that has not come to the size that it is to have now was
            first seen so, at an observation (monotonic).
        silent_seconds: of a server by its name, how long no sample has come.
    """

    def __init__(
        self,
        config: SidecarConfig,
        monitors: Mapping[str, ServerMonitor],
        basis: PlanningBasis,
        actuator: Actuator,
        store: StateStore,
        lock: threading.RLock,
        changes_sizes: Callable[[], bool],
        settings: BackgroundSettings,
        metrics: Metrics,
    ) -> None:
        self.config = config
        self.last_observation: Observation | None = None
        self.was_early = False
        self.other_policies: Mapping[str, tuple[OtherPolicy, ...]] = {}
        self.last_settings: Mapping[str, TeamSettings] = settings.in_force
        self.before_observation: Callable[[], None] = lambda: None
        self.observed: Callable[[Observation], None] = lambda _: None
        self.take_samples: Callable[[], None] = lambda: None
        self.silent_seconds: Callable[[str], float] = lambda _: 0.0
        self.asked = AskedObservations(None)
        self.shrinking_since: Mapping[str, float] = {}
        self._monitors = monitors
        self._planning_basis = basis
        self._actuator = actuator
        self._store = store
        self._lock = lock
        self._changes_sizes = changes_sizes
        self.settings = settings
        self._metrics = metrics
        self._outstanding: tuple[Observation, float] | None = None
        self._observed_at = time.monotonic()
        self._held_then: frozenset[str] = frozenset()
        self._lasting_needs = LastingNeeds(config.cycle.maximum_age_seconds)

    @property
    def samples(self) -> int:
        """Count all servers' samples since the last observation. Each counts with an equal share of
        the most that is wanted: none alone shortens the cycles of all. At a rate that found itself
        they count as at the default rate: curves want more, and plans do not."""
        share = math.ceil(self.config.cycle.samples / len(self._monitors))
        return sum(min(self._counted(one), share) for one in self._monitors.values())

    def _counted(self, monitor: ServerMonitor) -> int:
        count, last = monitor.samples_since_observation, monitor.last_batch
        if last is None or not (last.threshold and self.config.sampling.is_automatic):
            return count
        return round(count * min(1.0, DEFAULT_RATE * last.modulus / last.threshold))

    @property
    def latest_at_seconds(self) -> float:
        """Return the Unix time at which the next observation is due, if it is not earlier."""
        age_seconds = time.monotonic() - self._observed_at
        return time.time() - age_seconds + self._longest_seconds

    def ask_again(self, controller: Controller) -> None:
        """Ask another controller that has come: no cycle is lost, and whichever plan comes first is
        taken. What the file has overtaken is not asked again."""
        if self._outstanding is None:
            return
        if self._store.now.applied_cycle >= self._outstanding[0].cycle:
            self._outstanding = None
            self._planning_basis.planned(applied=False)
        else:
            self._outstanding = (self._outstanding[0], time.monotonic())
            controller.ask(self._outstanding[0])

    def supervise(self, controller: Controller, is_stopped: Callable[[], bool]) -> None:
        """Take note of plans that came or did not, and observe when it is due; to be repeated."""
        now = time.monotonic()
        self._planning_basis.may_go_back(self._store.now.control.engaged)
        self._planning_basis.look(now, self._planned_bytes())
        if self._outstanding is not None:
            observation, asked_at = self._outstanding
            if self._store.now.applied_cycle >= observation.cycle:
                self._outstanding = None
                self._planning_basis.planned(applied=self._changes_sizes())
            elif now - asked_at > self.config.controller.plan_deadline_seconds:
                self._outstanding = None
                self._planning_basis.planned(applied=False)
                self._metrics.plans_overdue.inc()
                log.warning("cycle %d: no plan in time", observation.cycle)
                controller.overdue(observation)
            return
        if self.settings.is_asked:
            settings = self.settings.answer()
            if settings is not None:
                self._observed_at = now
                self._observe(settings, controller, is_stopped)
        elif self._is_due(now - self._observed_at) and self._is_at_rest(now - self._observed_at):
            # The store may be slow; samples are received meanwhile.
            self.settings.ask()

    def _is_at_rest(self, age_seconds: float) -> bool:
        """Whether sizes have come to rest, or were waited for long enough: one server that never
        does, whatever the reason, must not hold up the plans of all."""
        overdue_seconds = age_seconds - self._longest_seconds
        is_at_rest = self._actuator.settled or self._actuator.pace.is_waiting
        return is_at_rest or overdue_seconds >= LONGEST_UNREST_SECONDS

    @property
    def _is_only_recommended(self) -> bool:
        return bool(self._store.now.control.objection(self.config.mode, time.time()))

    @property
    def _longest_seconds(self) -> float:
        """Return how long the next observation may take to come."""
        longest_seconds = self.config.cycle.maximum_age_seconds
        is_first = self.last_observation is None and self._is_only_recommended
        return min(longest_seconds, FIRST_PLAN_SECONDS) if is_first else longest_seconds

    def _is_due(self, age_seconds: float) -> bool:
        # One that is only recommended can wait for the cycle's end.
        is_early = self._planning_basis.is_early and not self._is_only_recommended
        # Unused memory that a server had by hand is nobody's until a plan comes.
        was_resumed = bool(self._held_then - self._store.now.control.held.keys())
        enough = self.samples >= self.config.cycle.samples or is_early or was_resumed
        # It is not due earlier, whatever anybody sends: rules count time in cycles.
        enough = enough and age_seconds >= self.config.cycle.maximum_age_seconds / STEPS_A_CYCLE
        return enough or age_seconds >= self._longest_seconds

    def _observe(
        self,
        settings: dict[str, TeamSettings],
        controller: Controller,
        is_stopped: Callable[[], bool],
    ) -> None:
        now_seconds = time.time()
        self._planning_basis.look(self._observed_at, self._planned_bytes(), at_once=True)
        self.before_observation()
        seen = self._snapshots(settings)
        if is_stopped():
            return
        if not seen:
            self._metrics.observations_without_servers.inc()
            log.warning("no server answers: nothing to observe")
            return
        cycle = max(self._store.now.last_cycle + 1, int(now_seconds))
        with self._lock:
            seen = resumed(seen, self._store.now.control.held, self._actuator.targets())
            states = self._actuator.states()
            self._note_sizes(states)
            budget_bytes = self._actuator.budget.bytes
            seen = that_fit(seen, self._actuator.readings, states, budget_bytes)
            observation = observe(
                self.config,
                cycle,
                now_seconds,
                seen,
                reserved_for_unseen(states, planned_bytes(seen), budget_bytes),
                excess_bytes(states, {item.config.name: item.least_used_bytes for item in seen}),
                budget_bytes,
                is_beside_unread=len(seen) < len(self._monitors),
            )
            self._actuator.intermediate_sizes.bounds_bytes = wanted_bounds(observation)
            self._planning_basis.forget_first(self._store.now.replicas)
            basis = self._planning_basis.basis
            self.was_early = self._planning_basis.is_early and not self._is_only_recommended
            observation = with_unlimited(self._judged(observation, seen), seen)
            with self._store.update() as state:
                state.ask(pending_request(observation))
                state.first_bytes = self._planning_basis.first_bytes
                state.latencies = {one.name: ObservedLatency.of(one) for one in observation.servers}
            # The last one that was answered may still be carried out by order.
            self.asked.keep(observation, {*self._store.now.asked, self._store.now.applied_cycle})
        self._outstanding = (observation, time.monotonic())
        self.last_observation, self.last_settings = observation, settings
        self.observed(observation)
        self._tell(observation, len(seen), basis)
        controller.ask(observation)

    def _judged(self, observation: Observation, seen: list[ServerSnapshot]) -> Observation:
        has = {name: one.size_bytes for name, one in self._actuator.readings.items()}
        needs = much_needed(self.config, seen, self._actuator.budget.bytes)
        return self._planning_basis.judged(observation, has, needs)

    def _tell(self, observation: Observation, seen: int, basis: str) -> None:
        self._metrics.observations.inc()
        servers = f"{seen} of {len(self.config.servers)} servers"
        if self._is_only_recommended:  # that is never early
            basis = basis.removesuffix(", early")
        words = f"{servers}, window {format_duration(observation.window_seconds)}; by {basis}"
        log.info("observed: cycle %d, %s", observation.cycle, words, extra=ROUTINE)

    def _note_sizes(self, states: Sequence[ServerState]) -> None:
        self._held_then = frozenset(self._store.now.control.held)
        now, sizes = time.monotonic(), self._actuator.intermediate_sizes.sizes_bytes
        self.shrinking_since = {
            one.name: self.shrinking_since.get(one.name, now)
            for one in states
            if one.reachable and sizes.get(one.name, math.inf) < one.maxmemory_bytes < math.inf
        }

    def _planned_bytes(self) -> dict[str, int]:
        return self._actuator.targets() | self._store.now.without_needs

    def _snapshots(self, settings: dict[str, TeamSettings]) -> list[ServerSnapshot]:
        """Return snapshots of the servers that answer, as they are now."""
        readings = self._actuator.read_all()
        self.take_samples()
        kept, windows = self._actuator.kept(), self._actuator.windows()
        states = self._actuator.states()
        brought = {} if self._actuator.looks_on else on_the_way(states)
        under_way = brought | self._actuator.under_way() | to_put_back(states)
        most = {one.name: one.most_counted_bytes for one in states}
        state = self._store.now
        own_bytes = sizes_without_passing_needs(state, readings)
        seen = []
        for server, least in zip(self.config.servers, self._actuator.sheltered(), strict=True):
            reading = readings[server.name]
            if reading is None or (state.control.engaged and not reading.maxmemory_bytes):
                continue
            window = windows[server.name]
            lasting_bytes = self._lasting_needs.over(server.name, window.lasting_bytes)
            estimate = self._monitors[server.name].observe(
                reading, self._actuator.budget.ceiling_bytes, window, self._planning_basis.half_life
            )
            # A plan goes on from the last one, not from how far the servers have come, or from what
            # they gave for a while. A server that is only watched has what it uses so far.
            planned = own_bytes.get(server.name, under_way.get(server.name, reading.size_bytes))
            planned = int(min(planned, most[server.name]))
            wait = state.control.server_wait(server.name, time.time())
            seen.append(
                ServerSnapshot(
                    server,
                    replace(reading, maxmemory_bytes=planned),
                    estimate,
                    settings.get(server.name),
                    state.changed_at_seconds.get(server.name),
                    kept.get(server.name),
                    f"waits: {wait.why}" if wait else None,
                    window.unevictable_bytes,
                    lasting_bytes,
                    window.least_used_bytes,
                    has_no_limit=not reading.maxmemory_bytes,
                    silent_seconds=self.silent_seconds(server.name),
                    sheltered_bytes=least.minimum_bytes,
                    installed_bytes=state.control.installed_bytes.get(server.name),
                    was_replica=server.name in state.promoted_bytes,
                )
            )
        self.other_policies = {
            one.config.name: one.estimate.other_policies for one in seen if one.estimate
        }
        return seen

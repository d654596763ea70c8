"""The sidecar: samples in, observations out, plans in, sizes set; until it is told to stop."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from sidecar.base.metrics import Metrics
from sidecar.config.node import SidecarConfig
from sidecar.controllers.configured_controller import make_controller
from sidecar.curves.monitor import ServerMonitor
from sidecar.forecast.forecast import Forecast
from sidecar.observer import ServerSnapshot, observe, pending_request, reserved
from sidecar.plans.plan_application import PlanApplication
from sidecar.sample_intake import SampleIntake
from sidecar.samples.endpoint import bind_endpoint
from sidecar.servers.actuator import Actuator
from sidecar.servers.claims import BudgetKeeper, claims_bytes, excess_bytes
from sidecar.servers.initial_sizes import sizes_to_begin_with
from sidecar.servers.redis_server import RedisServer
from sidecar.settings.settings_in_time import SettingsInTime
from sidecar.settings.settings_reader import SettingsReader
from sidecar.settings.team_settings import TeamSettings
from sidecar.state.sidecar_state import ObservedLatency
from sidecar.state.state_store import StateStore
from sidecar.storage.configured_stores import make_settings_store
from solver_lambda.documents.observation import Observation
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.documents.reader import DocumentError
from solver_lambda.documents.units import format_duration, format_size

log = logging.getLogger(__name__)

# Counters tell little about a shorter window.
LEAST_WINDOW_SECONDS = 0.5


class Sidecar:
    """One node's sidecar. ``run`` returns after ``stop``, which any thread may call.

    Attributes:
        last_observation: for those who watch.
        metrics: counts of everything that happened.
    """

    def __init__(self, config: SidecarConfig) -> None:
        """Raises DocumentError if an address in the configuration cannot be bound."""
        self.config = config
        self.metrics = Metrics()
        self.last_observation: Observation | None = None
        self._store = StateStore(config.state_file)
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._load_next: Callable[[], SidecarConfig] | None = None
        self._monitors = {
            server.name: ServerMonitor(
                server.name,
                live_objects=config.sampling.live_objects,
                cycle_seconds=config.cycle.maximum_age_seconds,
            )
            for server in config.servers
        }
        self._forecast = Forecast(
            config, self._monitors, time.monotonic(), self._store.now.first_bytes
        )
        self._outstanding: tuple[Observation, float] | None = None
        self._observed_at = time.monotonic()
        self._actuator = Actuator(
            [RedisServer(server) for server in config.servers],
            config.memory,
            config.sampling,
            self._store,
            self.metrics,
            gradual=config.forecasts,
        )
        self._samples = SampleIntake(self._monitors, self._actuator.run_ids, self.metrics)
        self._budget = BudgetKeeper(self._actuator, config.memory.budget_bytes, self.metrics)
        self._settings = SettingsReader(
            make_settings_store(config.controller), config, self.metrics
        )
        self._settings_in_time = SettingsInTime(self._settings, self.metrics)
        self._plans = PlanApplication(config, self._store, self._lock, self._actuator, self.metrics)
        self._controller = make_controller(config, self._plans.take, self.metrics)

    @property
    def cycles(self) -> int:
        """Plans that passed every check, also those that keep all sizes."""
        return self._plans.cycles

    @property
    def last_plan(self) -> AdaptationPlan | None:
        """The last of them."""
        return self._plans.last_plan

    def stop(self) -> None:
        """Ask ``run`` to return, at a safe point."""
        self._stop.set()
        self._actuator.hurry()

    def reload(self, load: Callable[[], SidecarConfig]) -> None:
        """Work with another configuration from now on; returns at once, also to a signal's handler.

        One that cannot be loaded, or needs new servers, memory or sampling, is refused, which is
        logged: restart for it.
        """
        self._load_next = load

    def run(self) -> None:
        """Work until ``stop``; leaves the servers in order, also after an error.

        Raises:
            OSError: the endpoint for samples cannot be bound, or another sidecar controls a server.
            DocumentError: a server cannot be brought under the budget.
        """
        with bind_endpoint(self.config.sampling.endpoint, self.metrics) as self._receiver:
            try:
                self._begin()
                while not self._stop.is_set():
                    self._samples.take(self._receiver, self._stop.is_set)
                    with self._lock:
                        self._budget.keep(self.config.servers)
                    self._supervise()
                    self._actuator.check()
                    if self._load_next is not None:
                        self._take_config(self._load_next)
            finally:
                self._settings_in_time.close()
                self._controller.close()
                self._actuator.stop()
                with self._store.update():
                    pass  # whatever could not be written before
                log.info("stopped: %s", self.metrics.snapshot())

    def _begin(self) -> None:
        self._actuator.claim()
        readings = self._actuator.read_all()
        if self._stop.is_set():
            return  # they were not all asked, and no sizes may come of that
        found = {name: reading.maxmemory_bytes for name, reading in readings.items() if reading}
        fixed = {name for name, reading in readings.items() if reading and not reading.evicts}
        before = ", ".join(
            f"{name} {format_size(found[name]) if found.get(name) else found.get(name, 'down')}"
            for name in readings
        )
        state = self._store.now
        sizes, targets = sizes_to_begin_with(
            self.config.servers,
            found,
            state.targets_bytes,
            fixed,
            self.config.memory.budget_bytes,
            self._actuator.least_bytes(),
            interrupted=not state.settled,
        )
        after = ", ".join(f"{name} {format_size(size)}" for name, size in sizes.items())
        log.info("initial sizes: found %s; to have %s", before, after)
        for name, reading in readings.items():
            if reading is not None:
                # The first observation covers the time since now.
                self._monitors[name].observe(reading, self.config.memory.budget_bytes)
        self._actuator.start(sizes, targets)
        self._controller.start()

    def _take_config(self, load: Callable[[], SidecarConfig]) -> None:
        self._load_next = None
        old = self.config
        try:
            config = load()
        except DocumentError as error:
            self.metrics.reloads_refused.inc()
            log.warning("reload refused: %s", error)
            return
        if changed := ", ".join(config.needs_restart_after(old)):
            self.metrics.reloads_refused.inc()
            log.warning("reload refused: %s changed, restart for that", changed)
            return
        try:
            store = make_settings_store(config.controller)
            controller = make_controller(
                config, self._plans.take, self.metrics, instead_of=self._controller
            )
        except (DocumentError, OSError) as error:
            self.metrics.reloads_refused.inc()
            log.warning("reload refused, the old configuration holds: %s", error)
            return
        self._controller.close()
        self.config = self._plans.config = config
        self._settings.use(store, config)
        self._forecast.use(config)
        self._controller = controller
        controller.start()
        log.info("reloaded: controller %s", config.controller.kind)
        if self._outstanding is not None:
            # No cycle is lost: whichever plan for it comes first is taken.
            self._outstanding = (self._outstanding[0], time.monotonic())
            controller.ask(self._outstanding[0])

    def _supervise(self) -> None:
        now = time.monotonic()
        self._forecast.look(now, self._actuator.targets())
        if self._outstanding is not None:
            observation, asked_at = self._outstanding
            if self._store.now.applied_cycle >= observation.cycle:
                self._outstanding = None
                self._forecast.planned(applied=self._plans.changes_sizes)
            elif now - asked_at > self.config.controller.plan_deadline_seconds:
                self._outstanding = None
                self._forecast.planned(applied=False)
                self.metrics.plans_overdue.inc()
                log.warning("cycle %d: no plan in time", observation.cycle)
                self._controller.overdue(observation)
            return
        if self._settings_in_time.is_asked:
            settings = self._settings_in_time.answer()
            if settings is not None:
                self._observed_at = now
                self._observe(settings)
        elif self._is_due(now - self._observed_at) and self._actuator.settled:
            # The store may be slow; samples are received meanwhile.
            self._settings_in_time.ask()

    def _is_due(self, age_seconds: float) -> bool:
        samples = sum(monitor.samples_since_observation for monitor in self._monitors.values())
        enough = samples >= self.config.cycle.samples or self._forecast.is_early
        enough = enough and age_seconds >= LEAST_WINDOW_SECONDS
        return enough or age_seconds >= self.config.cycle.maximum_age_seconds

    def _observe(self, settings: dict[str, TeamSettings]) -> None:
        now_seconds = time.time()
        self._forecast.look(self._observed_at, self._actuator.targets(), at_once=True)
        seen = self._snapshots(settings)
        if self._stop.is_set():
            return
        if not seen:
            self.metrics.observations_without_servers.inc()
            log.warning("no server answers: nothing to observe")
            return
        cycle = max(self._store.now.last_cycle + 1, int(now_seconds))
        with self._lock:
            states = self._actuator.states()
            observation = observe(
                self.config,
                cycle,
                now_seconds,
                seen,
                reserved(claims_bytes(states), seen),
                excess_bytes(states),
            )
            self._actuator.waypoints.bounds_bytes = pending_request(observation).bounds_bytes
            basis = self._forecast.basis
            observation = self._forecast.judged(observation)
            with self._store.update() as state:
                state.ask(pending_request(observation))
                state.first_bytes = self._forecast.first_bytes
                state.latencies = {
                    server.name: ObservedLatency.of(server) for server in observation.servers
                }
        self._outstanding = (observation, time.monotonic())
        self.last_observation = observation
        self.metrics.observations.inc()
        servers = f"{len(seen)} of {len(self.config.servers)} servers"
        window = format_duration(observation.window_seconds)
        log.info("observed: cycle %d, %s, window %s; by %s", cycle, servers, window, basis)
        counts = self.metrics.since_last_asked()
        log.info("counted since: %s", ", ".join(f"{k} {v}" for k, v in counts.items()))
        self._controller.ask(observation)

    def _snapshots(self, settings: dict[str, TeamSettings]) -> list[ServerSnapshot]:
        """Of the servers that answer, as they are now."""
        readings = self._actuator.read_all()
        kept, windows = self._actuator.kept(), self._actuator.windows()
        under_way = self._actuator.under_way()
        seen = []
        for server in self.config.servers:
            reading = readings[server.name]
            if reading is None or not reading.maxmemory_bytes:
                continue
            window = windows[server.name]
            estimate = self._monitors[server.name].observe(
                reading, self.config.memory.budget_bytes, window, self._forecast.memory
            )
            # A plan goes on from the last one, not from how far the servers have come.
            planned = under_way.get(server.name, reading.maxmemory_bytes)
            seen.append(
                ServerSnapshot(
                    server,
                    replace(reading, maxmemory_bytes=planned),
                    estimate,
                    settings.get(server.name),
                    self._store.now.changed_at_seconds.get(server.name),
                    kept.get(server.name),
                    window.unevictable_bytes,
                )
            )
        return seen

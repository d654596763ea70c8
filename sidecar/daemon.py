"""Runs the sidecar: samples in, observations out, plans in, sizes set; until it is told to stop."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from sidecar.base.descriptors import make_room_for_descriptors
from sidecar.base.hourly_summary import HourlySummary, in_words
from sidecar.base.metrics import Metrics
from sidecar.base.service_notice import ServiceNotice
from sidecar.config.node import SidecarConfig
from sidecar.control.control_plane import ControlPlane
from sidecar.control.order import Order
from sidecar.control.status_document import status_document
from sidecar.controllers.configured_controller import make_controller
from sidecar.curves.guarded_monitor import GuardedMonitor
from sidecar.half_lives.planning_basis import PlanningBasis
from sidecar.learnt_file import LearntFile
from sidecar.look.look_samplers import LookSamplers
from sidecar.observing.observation_cycle import ObservationCycle
from sidecar.sample_intake import SampleIntake
from sidecar.samples.late_endpoint import LateEndpoint
from sidecar.servers.actuator import Actuator
from sidecar.servers.budget_keeper import BudgetKeeper
from sidecar.servers.connection.known_listeners import with_stored
from sidecar.servers.connection.redis_server import RedisServer
from sidecar.servers.manual_resizes import ManualResizes
from sidecar.settings.background_settings import BackgroundSettings
from sidecar.settings.remembered_settings import RememberedSettings, remembered_path
from sidecar.settings.settings_reader import SettingsReader
from sidecar.state.state_store import StateStore
from sidecar.storage.configured_stores import make_settings_store
from sidecar.web.operators_server import LIMITS, OperatorsServer
from solver_lambda.documents.observation import Observation
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.documents.reader import DocumentError
from solver_lambda.documents.units import format_size

log = logging.getLogger(__name__)


class Sidecar:
    """Runs one node's sidecar. ``run`` returns after ``stop``, which any thread may call.

    Attributes:
        metrics: counts of everything that happened.
        started_at_seconds, loop_at_seconds: Unix times of its start, and of its loop's last turn.
    """

    def __init__(self, config: SidecarConfig) -> None:
        """Raises DocumentError if an address in the configuration cannot be bound."""
        self.config = config
        self.metrics = Metrics()
        self.started_at_seconds = self.loop_at_seconds = time.time()
        self._summary, self._service = HourlySummary(self.metrics), ServiceNotice(self.metrics)
        self._store = StateStore(config.state_file)
        self._lock, self._stop = threading.RLock(), threading.Event()
        self._load_next: Callable[[], SidecarConfig] | None = None
        self._reload_refused: list[str] = []
        self._monitors = {
            one.name: GuardedMonitor(one.name, config, self.metrics) for one in config.servers
        }
        self._actuator = self._make_actuator()
        self._control = ControlPlane(config, self._store, self._lock, self._actuator, self.metrics)
        by, sampled = config.sampling, (self._monitors, self._sampler_keys)
        learnt = self._learnt = LearntFile(config.state_file, *sampled, by.modulus)
        self._samples = SampleIntake(by, *sampled, self._actuator.run_ids, self.metrics)
        self._samples.looks = self._looks
        self._budget = BudgetKeeper(self._actuator, self._store, self.metrics, self._control.fitted)
        store = make_settings_store(config.controller, stays=True)
        remembered = RememberedSettings(remembered_path(config.state_file))
        self._settings = SettingsReader(store, config, self.metrics, remembered)
        self._settings_in_time = BackgroundSettings(self._settings, self.metrics)
        self._planning_basis = PlanningBasis(
            config, self._monitors, time.monotonic(), self._store.now.first_bytes, learnt.hours
        )
        self._planning_basis.on_step = learnt.after(self._control.note_step)
        self._cycle = ObservationCycle(
            config,
            self._monitors,
            self._planning_basis,
            self._actuator,
            self._store,
            self._lock,
            lambda: self._control.plans.changes_sizes,
            self._settings_in_time,
            self.metrics,
        )
        self._control.follow(self._cycle)
        self._controller = make_controller(config, self._control.plans.take, self.metrics)
        self._operators = OperatorsServer(config.operators, self)
        self._endpoint = LateEndpoint(
            config.sampling.endpoint,
            config.sampling.group,
            self._sampler_keys.values(),
            self.metrics,
            lambda: {one.process_id for one in self._actuator.readings.values()},
        )

    def _make_actuator(self) -> Actuator:
        config = self.config
        servers = [RedisServer(with_stored(server, self._store)) for server in config.servers]
        self._sampler_keys = {server.name: server.sampler_key for server in servers}
        self._looks = LookSamplers(servers, config, self._stop, self.metrics)
        self._manual_resizes = ManualResizes(
            self._store,
            lambda: self._actuator.budget.bytes,
            lambda: {server.name: server.minimum_bytes for server in self.config.servers},
            holds=config.memory.holds_by_hand,
            tell=self._note_hand,
        )
        return Actuator(
            servers,
            config.memory,
            config.sampling,
            self._store,
            self.metrics,
            gradual=config.forecasts,
            manual_resizes=self._manual_resizes,
        )

    def _note_hand(self, name: str, words: str) -> None:
        self._control.history.add("hand", words, server=name)
        self._planning_basis.begin_anew()

    @property
    def cycles(self) -> int:  # plans that passed every check, also those that keep all sizes
        return self._control.plans.cycles

    @property
    def last_plan(self) -> AdaptationPlan | None:  # of those
        return self._control.plans.last_plan

    @property
    def last_observation(self) -> Observation | None:  # for which the last plan was asked
        return self._cycle.last_observation

    def status(self) -> dict[str, Any]:
        """See ``status_document``; waits for nobody."""
        document = status_document(
            self.config,
            self._store.now,
            self._actuator,
            self._cycle,
            self._control,
            self.metrics,
            self._controller.silence,
            self._problems(),
            self._samples.silent_seconds,
            started_at_seconds=self.started_at_seconds,
            loop_at_seconds=self.loop_at_seconds,
        )
        return {**document, "not_served": self._operators.not_served()}

    def _problems(self) -> list[str]:
        """Return the problems that the status document does not know of."""
        found = [
            *self._reload_refused,
            *self._operators.problems(),
            *self._manual_resizes.contests(),
        ]
        found += filter(None, [self._controller.problem, self._endpoint.problem])
        if (receiver := self._endpoint.receiver) is not None:
            sampled = [n for n, one in self._actuator.readings.items() if one.sampler_prefix]
            found += self._samples.problems(receiver, sampled)
        delivery = self._controller.delivery
        if delivery is not None and (words := delivery.problem()):
            found.append(words)
        return found

    def series(self) -> dict[str, Any]:  # see ``Series``
        return self._control.series.table()

    def history(self, limit: int, before: int) -> list[bytes]:  # see ``History.page``
        return self._control.history.page(limit, before)

    def order(self, order: Order) -> str:
        """Carry it out; say what was done, for people. Raises OrderRefusedError."""
        return self._control.orders.order(order)

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
        make_room_for_descriptors(len(self.config.servers), 4 * LIMITS.connections)
        with self._endpoint as endpoint, self._operators:
            try:
                self._control.orders.resized = self._planning_basis.begin_anew
                self._planning_basis.take_samples = self._cycle.take_samples = self._take_samples
                self._cycle.silent_seconds = self._samples.silent_seconds
                self._begin()
                self._service.ready()
                while not self._stop.is_set():
                    self.loop_at_seconds = time.time()
                    self._looks.follow(self._actuator.readings)
                    self._samples.take(endpoint.receiver, self._stop)
                    with self._lock:
                        self._budget.keep(self._actuator.sheltered())
                    self._control.tick()
                    self._summary.turn()
                    self._operators.look()
                    endpoint.look()
                    self._cycle.supervise(self._controller, self._stop.is_set)
                    self._actuator.check()
                    self._service.alive(self._actuator.at_seconds, self._in_short())
                    if self._load_next is not None:
                        self._take_config(self._load_next)
            finally:
                self._service.stopping()
                self._settings_in_time.close()
                self._controller.close()
                self._actuator.stop()
                self._manual_resizes.tell_gathered(all_of_them=True)
                self._store.write_again()
                self._learnt.save()
                self._control.verification.disturbed("the sidecar stopped")
                self._control.history.add("stop", "the sidecar stopped; sizes stay as they are")
                log.info("stopped: counted %s", in_words(self.metrics.snapshot()))

    def _take_samples(self) -> None:
        self._samples.take_now(self._endpoint.receiver, self._stop)

    def _begin(self) -> None:
        self._actuator.claim()
        readings = self._actuator.read_all()
        if self._stop.is_set():
            return  # they were not all asked, and no sizes may come of that
        for name, reading in readings.items():
            if reading is not None:
                # The first observation covers the time since now.
                self._monitors[name].observe(reading, self._actuator.budget.ceiling_bytes)
        self._control.begin(readings)
        self._actuator.start()
        self._controller.start()

    def _in_short(self) -> str:
        """Write the service manager's status line."""
        readings, budget = self._actuator.readings, self._actuator.budget
        total = format_size(sum(reading.maxmemory_bytes for reading in readings.values()))
        up = f"{len(readings)} of {len(self.config.servers)} servers answer"
        return f"{self._control.mode}: {up}, maxmemory {total} of {format_size(budget.bytes)}"

    def _refuse_config(self, why: str) -> None:
        self.metrics.reloads_refused.inc()
        self._reload_refused = [words := f"the reload was refused, the file before holds: {why}"]
        log.warning("%s", words)
        self._control.history.add("reload", words)

    def _take_config(self, load: Callable[[], SidecarConfig]) -> None:
        self._load_next = None
        old = self.config
        try:
            config = load()
        except DocumentError as error:
            self._refuse_config(str(error))
            return
        if changed := ", ".join(config.needs_restart_after(old)):
            self._refuse_config(f"{changed} changed, restart for that")
            return
        try:
            store = make_settings_store(config.controller, stays=True)
            controller = make_controller(
                config, self._control.plans.take, self.metrics, instead_of=self._controller
            )
        except (DocumentError, OSError) as error:
            self._refuse_config(str(error))
            return
        self._reload_refused = []
        self._controller.close()
        self.config = self._cycle.config = config
        self._actuator.configs = config.servers
        self._settings.use(store, config)
        self._planning_basis.use(config)
        self._controller = controller
        controller.start()
        try:
            self._control.use(config)
        except DocumentError as error:
            log.warning("the mode is apply now, but no size can be set: %s", error)
        self._cycle.ask_again(controller)

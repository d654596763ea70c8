"""Checks what each plan led to, and takes back the plan, or one server's part, that did harm."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, replace
from typing import Any

from sidecar.base.metrics import Metrics
from sidecar.base.time_of_day import time_of_day
from sidecar.control.enforcement import Enforcement
from sidecar.control.history import History, sizes_since
from sidecar.control.one_server_rollback import sizes_with_one_back
from sidecar.control.plan_outcome import Check, PlanOutcome
from sidecar.control.room_givers import RoomGivers
from sidecar.curves.read_counts import ReadCounts
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.state.control_state import Wait
from sidecar.state.state_store import StateStore
from solver_lambda.documents.observation import Observation
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.documents.units import format_duration, format_size

log = logging.getLogger(__name__)


# Doubled with each plan in a row that failed, from one cycle on.
_MOST_DOUBLINGS = 5
_FIRST_CYCLE_SECONDS = 3600.0  # until a plan says how long one is
# A server that lends less than this share of its size misses about as often as before.
_ROOM_RATIO = 0.05


class PlanRollback:
    """Judges the plans of one sidecar; called under the lock that keeps plans and observations
    apart.

    Args:
        asked: the observation of a cycle.

    Attributes:
        last: the last check, ``None`` before there was one.
    """

    def __init__(
        self,
        store: StateStore,
        enforcement: Enforcement,
        history: History,
        metrics: Metrics,
        asked: Callable[[int], Observation | None],
    ) -> None:
        self._store = store
        self._enforcement = enforcement
        self._history = history
        self._metrics = metrics
        self._asked = asked
        self._outcome: PlanOutcome | None = None
        self._before_bytes: dict[str, int] = {}
        self._planned_bytes: dict[str, int] = {}
        self._cycle_seconds = 0.0
        self._givers = RoomGivers()
        self.last: Check | None = None
        # The history's entry on the present plan's outcome, while it is too early to judge.
        self._entry: dict[str, Any] | None = None

    def begin(
        self,
        plan: AdaptationPlan,
        in_force_bytes: Mapping[str, int],
        before_bytes: Mapping[str, int],
    ) -> None:
        """A plan is being carried out, from now on, in place of the sizes in force; those that were
        wanted before are those to go back to."""
        observation = self._asked(plan.cycle)
        self._outcome = None
        if observation is not None:
            self._before_bytes = dict(before_bytes)
            self._planned_bytes = {one.name: one.maxmemory_bytes for one in plan.servers}
            self._cycle_seconds = observation.cycle_seconds
            self._outcome = PlanOutcome(observation, plan, in_force_bytes)

    def disturbed(self, why: str) -> None:
        """What came of the plan, and what of this, cannot be told apart; or nobody looks on."""
        outcome, self._outcome = self._outcome, None
        if outcome is not None:
            words = f"plan {outcome.cycle} is not judged, as meanwhile {why}"
            self.last = Check(outcome.cycle, "not_checked", words, at_seconds=time.time())
            log.info("%s", words)
            self._metrics.plans_checked.labels("not_checked").inc()
            self._history.add("check", words, cycle=outcome.cycle, verdict="not_checked")

    def take_readings(self, readings: Mapping[str, ServerReading | None]) -> None:
        """Count what the servers say, again and again; the part of a server whose keys go in vain
        is taken back at once."""
        beside, targets = self._beside_room(readings), self._store.now.targets_bytes
        self._givers.take_readings(
            readings, beside, targets, self._cycle_seconds or _FIRST_CYCLE_SECONDS
        )
        if self._outcome is None:
            return
        self._outcome.take_readings(readings, beside | self._givers.refilling)
        for name in self._outcome.restarted:
            # What the others made of it is judged all the same.
            if not self._outcome.leave_out(name, f"{name} restarted"):
                self.disturbed(f"{name} restarted")
                return
        for name, reading in readings.items():
            if reading is None or not reading.unyielding_bytes or not self._took_of(name):
                continue
            least_bytes = reading.unevictable_bytes
            if targets.get(name, least_bytes) < min(self._before_bytes.get(name, 0), least_bytes):
                why = f"no eviction frees some {format_size(least_bytes)} of it"
                self._stop(name, why, waits=False)
                return  # the others at the next look, if there is a plan to judge then

    def lost_keys(self, names: Collection[str]) -> None:
        """These lost keys to something that passes, and miss them until they are full again: each
        server is judged by itself from now on."""
        for name in names:
            if self._outcome is not None:
                self._outcome.begin_anew(name, f"memory of {name} went to something that passes")

    def _beside_room(self, readings: Mapping[str, ServerReading | None]) -> set[str]:
        """Return servers that have other sizes for now, as room for others, or come back from them.
        What they miss by that is no fault of the plan, and no reason to look away from the
        others."""
        room, targets = self._store.now.room, self._store.now.targets_bytes
        if room is None:
            return set()
        has, wanted = room.made_bytes, room.before_bytes
        if room.is_returned:
            has = {name: one.maxmemory_bytes for name, one in readings.items() if one}
            wanted = targets
        return {
            name
            for name in has.keys() & wanted.keys()
            if abs(has[name] - wanted[name]) > _ROOM_RATIO * wanted[name]
        }

    def refused_writes(self, name: str) -> None:
        """A server refuses writes for want of memory: what the plan took of it is taken back, once.
        What others took is no part of that."""
        now_bytes = self._store.now.targets_bytes.get(name, 0)
        if self._took_of(name) and now_bytes < self._before_bytes.get(name, 0):
            self._stop(name, f"{name} refuses writes", waits=True)

    def _took_of(self, name: str) -> bool:
        """Whether the plan that is judged took of a server, and not room for others alone."""
        if self._outcome is None or name not in self._outcome.changed:
            return False
        return self._planned_bytes.get(name, 0) < self._before_bytes.get(name, 0)

    def step(self, counts: Mapping[str, ReadCounts], seconds: float) -> None:
        """A step of the curves is over that took so long: the part of a server that what came
        refutes is taken back at once."""
        if self._outcome is None:
            return
        self._outcome.step(counts, seconds)
        if self._store.now.control.sets_sizes and (refuted := self._outcome.refuted):
            name, why = refuted
            if self._before_bytes.get(name):
                self._stop(name, f"the curve of {name} is refuted: {why}", waits=True)

    def conclude(self, observation: Observation | None = None) -> None:
        """The next observation is due: judge the plan before it, and take back what did harm. While
        it is too early to tell, what comes until the next plan counts as well. ``observation``: the
        last one, by which curves may be known better than when the plan was made."""
        outcome, self._outcome = self._outcome, None
        if outcome is None or not self._store.now.control.sets_sizes:
            return
        if observation is not None:
            outcome.know(observation)
        check = replace(outcome.check(), at_seconds=time.time())
        words, had = check.words, self._store.now.targets_bytes
        entry, self._entry = self._entry, None
        if check.verdict == "too_early":
            self._outcome = outcome
        if check.verdict == "failed":
            words = self._take_back(check)
            check = replace(check, verdict="rolled_back", words=words)
        elif check.verdict in ("kept", "too_early"):
            with self._store.update() as state:
                waits = state.control.server_waits
                left = {name: wait for name, wait in waits.items() if name not in outcome.changed}
                state.control = replace(state.control, wait=None, server_waits=left)
        self.last = check
        details = {key: value for key, value in asdict(check).items() if key != "words"}
        details["realised_ratio"] = check.realised_ratio
        if check.verdict == "too_early" and entry is not None and entry["cycle"] == check.cycle:
            self._entry = self._history.amend(entry, words, **details)
            return
        self._metrics.plans_checked.labels(check.verdict).inc()
        log.log(logging.WARNING if check.verdict == "rolled_back" else logging.INFO, "%s", words)
        kind = "rollback" if check.verdict == "rolled_back" else "check"
        moved = sizes_since(had, self._store.now.targets_bytes)
        entry = self._history.add(kind, words, **details, **moved)
        self._entry = entry if check.verdict == "too_early" else None

    def _take_back(self, check: Check) -> str:
        name = check.at_fault
        if name is None or not self._before_bytes.get(name):
            return self._roll_back(check)
        done, is_back = self._one_back(name, check.cycle)
        until = self._let_wait(name, f"it alone made plan {check.cycle} do harm", is_back=is_back)
        return f"{check.words}; {done}, for without it the plan did no harm; it waits until {until}"

    def _let_wait(self, name: str, why: str, *, is_back: bool) -> str:
        """Let a server wait; say until when, for people."""
        before = self._store.now.control.server_waits.get(name)
        failures = (before.failures if before else 0) + 1
        until_seconds = time.time() + wait_seconds(self._cycle_seconds, failures)
        until, went = time_of_day(until_seconds), " and went back" if is_back else ""
        with self._store.update() as state:
            wait = Wait(until_seconds, f"{why}{went}, and waits until {until}", failures)
            waits = {**state.control.server_waits, name: wait}
            state.control = replace(state.control, server_waits=waits)
        return until

    def _one_back(self, name: str, cycle: int) -> tuple[str, bool]:
        """Take back the part of one server alone; say what came of it, and whether it could be."""
        state = self._store.now
        # Room that others made passes again, and was not planned.
        planned = state.targets_bytes | state.without_needs
        sizes = sizes_with_one_back(
            name, self._before_bytes, planned, self._enforcement.budget_bytes
        )
        # The others are perhaps still on their way, and those that got nothing go on with it.
        way = sizes_with_one_back(
            name, self._before_bytes, self._enforcement.sizes_now, self._enforcement.budget_bytes
        )
        try:
            purpose = f"the part of {name} in plan {cycle} is taken back"
            sizes = self._enforcement.back_to(sizes, purpose, way)
        except ValueError as error:
            return f"the part of {name} cannot be taken back: {error}", False
        return f"{name} alone goes back, to {format_size(sizes[name])}", True

    def _stop(self, name: str, why: str, *, waits: bool) -> None:
        """Take back the part of one server, before the plan is judged for the others."""
        assert self._outcome is not None, "a plan is being judged"
        cycle = self._outcome.cycle
        if not self._outcome.leave_out(name, f"{name} went back"):
            self._outcome = None
        had = self._store.now.targets_bytes
        done, is_back = self._one_back(name, cycle)
        words = f"plan {cycle} is stopped for {name}: {why}; {done}"
        if waits:
            until = self._let_wait(name, f"plan {cycle} was stopped for it", is_back=is_back)
            words += f"; it waits until {until}"
        log.warning("%s", words)
        self._metrics.plans_checked.labels("rolled_back").inc()
        self.last = Check(cycle, "rolled_back", words, at_seconds=time.time(), at_fault=name)
        self._history.add(
            "rollback",
            words,
            cycle=cycle,
            at_fault=name,
            verdict="rolled_back",
            **sizes_since(had, self._store.now.targets_bytes),
        )

    def _roll_back(self, check: Check) -> str:
        before = self._store.now.control.wait
        failures = (before.failures if before else 0) + 1
        pause_seconds = wait_seconds(self._cycle_seconds, failures)
        try:
            self._enforcement.back_to(self._before_bytes, f"plan {check.cycle} is taken back")
            done = "back to the sizes before it"
        except ValueError as error:
            done = f"it cannot be taken back: {error}"
        words = f"{done}, and no plan is carried out for {format_duration(pause_seconds)}"
        why = f"plan {check.cycle} did not keep its promise"
        with self._store.update() as state:
            wait = Wait(time.time() + pause_seconds, why, failures)
            state.control = replace(state.control, wait=wait, before_plan_bytes={})
        return f"{check.words}; {words}"


def wait_seconds(cycle_seconds: float, failures: int) -> float:
    """Return how long no plan is carried out after so many in a row that failed."""
    return cycle_seconds * float(1 << min(failures, _MOST_DOUBLINGS))

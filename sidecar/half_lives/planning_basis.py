"""Decides what to plan by: which half-life, when, and how much of the gain may be chance.

Plans made by some objects, and judged by the others, tell how much of a plan's gain may be chance.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from sidecar.config.node import ServerConfig, SidecarConfig
from sidecar.curves.decaying_counts import DAY, HALF_LIVES_CYCLES, STEPS_A_CYCLE, WEEK, HalfLife
from sidecar.curves.guarded_monitor import MOST_RATE
from sidecar.curves.monitor import ServerMonitor
from sidecar.curves.read_counts import ReadCounts
from sidecar.curves.warm_up import WarmUp
from sidecar.half_lives.chance_of_gain import chance_ratio
from sidecar.half_lives.going_back import going_back, kept_for_bounds, kept_for_needs
from sidecar.half_lives.half_life_selection import HalfLifeSelection
from sidecar.half_lives.hourly_reads import AGO_HOURS, HOUR_SECONDS, HourlyReads
from sidecar.half_lives.virtual_plans import PlannedServer, VirtualPlanner
from solver_lambda.documents.observation import Observation, ServerObservation
from solver_lambda.documents.units import format_duration
from solver_lambda.planning.effective_access_time import AccessCost
from solver_lambda.planning.problem_grid import shares
from solver_lambda.planning.size_ranges import is_little_known

# Sizes are planned already where a sidecar starts amid plans: nothing presses, and curves of a
# minute have taken back plans of an hour.
_AMID_PLANS_SECONDS = 600.0
# A curve with such an error tells nothing; a smaller share of all weighted reads counts for little.
_UNKNOWN_ERROR, _LEAST_SHARE = 0.5, 0.02


# Standard errors by which a gain must exceed zero: of a half-life whose plans were better than the
# sizes in force so far, and of another. Chosen by ``python -m workloads experiment gain``: with
# fewer, equal servers are moved about; with more, servers of which little is sampled keep sizes
# that are bad.
_ERRORS, _MORE_ERRORS = 2.0, 4.0


_DAY_SECONDS = 24 * HOUR_SECONDS
_AGO = dict(zip((DAY, WEEK), AGO_HOURS, strict=True))
_AGO_WORDS = {DAY: "yesterday", WEEK: "a week ago"}


class PlanningBasis:
    """Decides what one node plans by. Times are those of any clock that does not go back, in
    seconds. ``first_bytes`` are the sizes from before there were plans. ``hours`` tells how much
    each server was read at which hour, where an earlier process knew it.

    Attributes:
        take_samples: called before each, for what came in it belongs to it.
        on_step: told of each step that is over, with what was counted and how long it took.
    """

    def __init__(
        self,
        config: SidecarConfig,
        monitors: Mapping[str, ServerMonitor],
        now_seconds: float,
        first_bytes: Mapping[str, int] | None = None,
        hours: dict[str, HourlyReads] | None = None,
    ) -> None:
        self.take_samples: Callable[[], None] = lambda: None
        self.on_step: Callable[[Mapping[str, ReadCounts], float], None] = lambda *_: None
        self._hours = {} if hours is None else hours
        self._clock_began_at_seconds = time.time() - time.monotonic()
        self._monitors = monitors
        self._stepped_at_seconds = now_seconds
        self._scores = HalfLifeSelection(first_bytes or {})
        self._was_early = False
        # A sidecar that starts amid plans knows no curve yet.
        self._is_anew = bool(first_bytes)
        self.use(config)
        if first_bytes:
            for monitor in monitors.values():
                monitor.warm_up = WarmUp(max(monitor.cycle_seconds, _AMID_PLANS_SECONDS))
        self._planner: VirtualPlanner | None = None
        self._plan_by(
            [
                _planned(server, server.backend_latency_seconds)
                for server in config.servers
                if server.backend_latency_seconds
            ],
            config.memory.budget_bytes,
        )

    def use(self, config: SidecarConfig) -> None:
        """Go on with another configuration."""
        self._step_seconds = config.cycle.maximum_age_seconds / STEPS_A_CYCLE
        self._scores.steps_a_day = _DAY_SECONDS / self._step_seconds
        self._looks_ahead = config.forecasts
        for monitor in self._monitors.values():
            monitor.cycle_seconds = config.cycle.maximum_age_seconds

    @property
    def half_life(self) -> HalfLife | None:
        """Return what the next plan is to be made by; ``None``: the last window, as in the
        thesis."""
        return self._scores.half_life if self._looks_ahead else None

    @property
    def is_early(self) -> bool:
        """Whether the load has changed so much that a plan is due at once. Reasons from before an
        order do not count: the order has changed the sizes."""
        return self._scores.is_early and not self._is_anew

    @property
    def first_bytes(self) -> dict[str, int]:
        """Return the sizes from before there were plans, by server."""
        return self._scores.first_bytes

    @property
    def basis(self) -> str:
        """Say what the next plan is to be made by, for people."""
        if self.half_life is None:
            return "the last window"
        early = ", early" if self.is_early else ""
        if self._scores.goes_back:
            lost = f"which would have cost {self._scores.lost_ratio:.1%} less lately"
            if early:
                lost = "which would serve the latest reads better"
            return f"going back to the sizes from before there were plans, {lost}{early}"
        cycle_seconds = self._step_seconds * STEPS_A_CYCLE
        after = [format_duration(cycle_seconds * half) for half in HALF_LIVES_CYCLES]
        rate, shape = self.half_life
        if rate in _AGO_WORDS:
            ago = _AGO_WORDS[rate]
            return f"rates as at this time {ago}, curves that count half after {after[shape]}"
        return f"rates that count half after {after[rate]}, curves after {after[shape]}{early}"

    def may_go_back(self, may: bool) -> None:
        """Whether plans have been carried out, from which one could go back."""
        self._scores.may_go_back = may

    def begin_anew(self) -> None:
        """Begin anew, as sizes are others by an order, and by no plan; by any thread."""
        self._is_anew = True

    def look(
        self, now_seconds: float, planned_bytes: Mapping[str, int], *, at_once: bool = False
    ) -> None:
        """Close a step if one is over, or ``at_once``; with the sizes that are planned."""
        seconds = now_seconds - self._stepped_at_seconds
        if seconds < self._step_seconds * (1 - 1e-6) and not (at_once and seconds > 0):
            return
        self.take_samples()
        self._stepped_at_seconds = now_seconds
        for name, monitor in self._monitors.items():
            monitor.step(seconds)
            self._expect(now_seconds, name, monitor.counts, seconds)
        self.on_step(self._counts(), seconds)
        if self._is_anew:
            self._is_anew = False
            self._scores.begin_anew()
        if any(monitor.warm_up.is_on for monitor in self._monitors.values()):
            self._scores.judge_later()
        if self._looks_ahead and self._planner is not None:
            steps = seconds / self._step_seconds
            self._scores.step(self._planner, self._counts(), planned_bytes, steps)

    def _expect(self, now_seconds: float, name: str, counts: ReadCounts, seconds: float) -> None:
        at_seconds = self._clock_began_at_seconds + now_seconds
        hours = self._hours.setdefault(name, HourlyReads())
        hours.add(at_seconds, min(float(counts.histogram.reads.last), MOST_RATE * seconds), seconds)
        rates = {place: hours.ahead(at_seconds, ago) for place, ago in _AGO.items()}
        counts.expected = {place: rate for place, rate in rates.items() if rate is not None}

    def forget_first(self, names: Collection[str]) -> None:
        """What a replica has is no size of a primary to go back to: that is what it has when it is
        promoted."""
        for name in names:
            self._scores.first_bytes.pop(name, None)

    def judged(
        self,
        observation: Observation,
        has_bytes: Mapping[str, int] | None = None,
        needed_bytes: Mapping[str, int] | None = None,
    ) -> Observation:
        """Return the observation made by ``half_life``, with what may be chance in it; or, where
        plans did harm, with the first sizes for bounds. ``has_bytes``: what servers have so far
        of what is planned. What servers cannot evict (``needed_bytes``) they have beside their
        first sizes."""
        self._was_early = self.is_early
        learnt = {one.name for one in observation.servers if is_little_known(one, observation)}
        self._scores.knows_all, read = not learnt, shares(observation.servers)
        self._scores.knows_enough = not any(
            one.name in learnt and (one.keep_reason or one.curve_error_ratio >= _UNKNOWN_ERROR)
            for one in observation.servers
            if read[one.name] > _LEAST_SHARE
        )
        free = [server for server in observation.servers if server.keep_reason is None]
        kept_bytes = sum(s.maxmemory_bytes for s in observation.servers if s not in free)
        before, budget_bytes = self._planner, observation.budget_bytes - kept_bytes
        self._plan_by([_planned(one, one.backend_latency_seconds) for one in free], budget_bytes)
        if (half_life := self.half_life) is None or self._planner is None:
            return observation
        now = {server.name: server.maxmemory_bytes for server in free}
        self._scores.find(now)
        self._scores.kept_bytes = {}
        if self._planner is not before:
            # The next step is too early: the coming plan is not filled by then.
            has = has_bytes or {}
            filled = {name: min(size, has.get(name, size)) for name, size in now.items()}
            self._scores.begin_with(self._planner, filled)
        first = going_back(observation, self._back_bytes(self._planner, now, learnt))
        needs = kept_for_needs(now, self.first_bytes, needed_bytes or {})
        self._scores.kept_bytes = needs | kept_for_bounds(observation, first)
        if self._scores.goes_back:
            return going_back(observation, self._back_bytes(self._planner, now, learnt))
        errors = _ERRORS if self._scores.has_gained(half_life) else _MORE_ERRORS
        chance = chance_ratio(
            self._planner, self._counts(), half_life, observation.in_force_bytes, errors
        )
        return replace(observation, chance_ratio=min(1.0, chance))

    def _back_bytes(
        self, planner: VirtualPlanner, now_bytes: Mapping[str, int], learnt: Collection[str] = ()
    ) -> dict[str, int]:
        """The way back takes nobody below what it had at first, or has now if that is less: beside
        one that hangs, less is left to go back to. Whose curve is still ``learnt`` keeps what it
        has."""
        back, first = self._scores.back_bytes(planner), self.first_bytes
        least = {
            name: size if name in learnt else min(size, first.get(name, 0))
            for name, size in now_bytes.items()
        }
        floors = {name: self._scores.kept_bytes.get(name, least.get(name, 0)) for name in back}
        kept = {name: max(size, floors[name]) for name, size in back.items()}
        above = {name: size - floors[name] for name, size in kept.items()}
        excess, total = sum(kept.values()) - sum(back.values()), sum(above.values())
        if not 0 < excess <= total:
            return back  # what a team's bounds keep leaves no more
        return {name: size + above[name] * -excess // total for name, size in kept.items()}

    def planned(self, *, applied: bool) -> None:
        """The observation led to a plan, or to none in time."""
        self._scores.planned(applied=applied, early=self._was_early)

    def _plan_by(self, servers: list[PlannedServer], budget_bytes: int) -> None:
        """Begin with another planner only for other servers or weights: none judges plans by
        another."""
        minima = sum(server.minimum_bytes for server in servers)
        if len(servers) < 2 or budget_bytes <= minima:
            self._planner = None
            return
        planner = VirtualPlanner(servers, budget_bytes)
        if self._planner is not None and planner.divides_as(self._planner):
            before, now = (one.most_cost(self._counts()) for one in (self._planner, planner))
            self._scores.reprice(now / before if before > 0 and now > 0 else 1.0)
            if planner.weighs_as(self._planner):
                self._planner.reprice(planner.servers)
                return
            self._scores.reweigh()
        self._planner = planner

    def _counts(self) -> dict[str, ReadCounts]:
        return {name: monitor.counts for name, monitor in self._monitors.items()}


def _planned(
    server: ServerConfig | ServerObservation, backend_latency_seconds: float
) -> PlannedServer:
    cost = AccessCost.by(server.cache_latency_seconds, backend_latency_seconds)
    return PlannedServer(
        server.name,
        server.weight * cost.hit_seconds,
        server.weight * cost.penalty_seconds,
        max(1, server.minimum_bytes),
        server.maximum_bytes,
    )

"""Lets half-lives compete: each is judged by what the plans it would have made cost next."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from sidecar.curves.decaying_counts import HALF_LIVES, RHYTHMS, STEPS_A_CYCLE, HalfLife
from sidecar.curves.read_counts import ReadCounts
from sidecar.half_lives.rhythm_selection import RhythmSelection
from sidecar.half_lives.virtual_division import VirtualDivision
from sidecar.half_lives.virtual_plans import UNITS, FloatArray, VirtualPlanner, cost_of

# After so many cycles sums count half: those that choose between half-lives, and those that tell
# whether plans are better than none.
_CHOICE_CYCLES, _TRUST_CYCLES = 1.0, 6.0
# Standard errors by which a shorter half-life must have been better than the longest; and by which
# its lead over the sizes in force must be sure before it makes an early plan.
_LEAD_ERRORS, _EARLY_ERRORS = 2.0, 1.0
# Each step adds what the sizes in force cost more than a half-life's, as a share of all cost and
# beyond this (a CUSUM). A plan is due early when the sum exceeds the threshold.
_SLACK = 0.01
_LEAST_THRESHOLD, _MOST_THRESHOLD = 0.05, 0.4
# Plans are trusted until they lose so much of what is spent in a step.
_FORGIVEN = 0.05
# No plan is early before so many steps are known, or so soon after the last plan.
_FIRST_STEPS, _STEPS_BETWEEN = 4, 2

# The places: of the longest half-life, and, after all half-lives, of the first sizes.
_LONGEST, _FIRST = len(HALF_LIVES) - 1, len(HALF_LIVES)


class HalfLifeSelection:
    """Counts what each half-life's plans, and the first sizes, would have saved in the steps after
    them.

    The first sizes are those from before there were plans. A half-life whose plans would have cost
    more than these, or saved less than the plans in force lost, makes none. Where no half-life is
    left, the first sizes are to be gone back to.

    Attributes:
        first_bytes: by server.
        kept_bytes: what servers keep when one goes back.
        may_go_back: plans have been carried out.
        rhythm: whether plans go by the hours of another day instead.
        steps_a_day: how many steps make a day.
        knows_all: no server's curve is still learnt: else nobody goes back early.
        knows_enough: nor is that of one whose reads count and of which hardly anything is known, as
            after a start: else nobody goes back at all.
    """

    def __init__(self, first_bytes: Mapping[str, int]) -> None:
        self.first_bytes = dict(first_bytes)
        self.kept_bytes: Mapping[str, int] = {}
        self.may_go_back = self.knows_all = self.knows_enough = True
        places = len(HALF_LIVES) + 1
        # By each, a second: over the sizes in force, and over the first sizes.
        self._saved, self._saved_of_first = np.zeros(places), np.zeros(places)
        self._in_force_saved_of_first = 0.0
        # In all, by the sizes in force.
        self._spent = self._spent_steps = 0.0
        # The lead over the longest half-life, and the share saved since the last plan.
        self._lead, self._lead_squares = np.zeros(places), np.zeros(places)
        self._recent, self._recent_squares = np.zeros(places), np.zeros(places)
        self._threshold = _LEAST_THRESHOLD
        self._steps = self._steps_since_plan = 0.0
        self._judged_steps = math.inf  # since an order
        self._planner: VirtualPlanner | None = None
        self._in_force = VirtualDivision(np.zeros(0))
        self._divisions: list[VirtualDivision] = []
        self._early: int | None = None
        self._is_behind = False
        self.rhythm, self.steps_a_day = RhythmSelection(), float(STEPS_A_CYCLE)

    @property
    def is_early(self) -> bool:
        """Whether a plan is due at once."""
        return self._early is not None

    @property
    def goes_back(self) -> bool:
        """Whether the next plan is to be the first sizes."""
        return self.may_go_back and self.knows_enough and self._place == _FIRST

    @property
    def half_life(self) -> HalfLife:
        """Return the one that makes the next plan, if it does not go back."""
        if self._early is None and (rhythm := self.rhythm.chosen) is not None:
            return rhythm
        return HALF_LIVES[min(self._place, _LONGEST)]

    @property
    def lost_ratio(self) -> float:
        """Return what the sizes in force have cost more than the first ones would have, of all
        cost."""
        return float(max(0.0, -self._in_force_saved_of_first) / max(1e-9, self._spent))

    def back_bytes(self, planner: VirtualPlanner) -> dict[str, int]:
        """Return what going back comes to for its servers: the first sizes. Where these are more or
        less than it divides, return sizes in proportion to them."""
        return planner.sizes_bytes(self._first_units(planner))

    def has_gained(self, half_life: HalfLife) -> bool:
        """Whether its plans were better than the sizes in force."""
        return half_life in RHYTHMS or bool(self._saved[HALF_LIVES.index(half_life)] > 0)

    def find(self, sizes_bytes: Mapping[str, int]) -> None:
        """Take these as the first sizes of servers that are new."""
        self.first_bytes = {**sizes_bytes, **self.first_bytes}

    def step(
        self,
        planner: VirtualPlanner,
        counts: Mapping[str, ReadCounts],
        sizes_bytes: Mapping[str, int],
        steps: float = 1.0,
    ) -> None:
        """End a step, in which these sizes were planned; it may be a part of a step, or last for
        several."""
        self._steps += steps
        self._steps_since_plan += steps
        self._early = None
        # A replica's present size is none that a primary goes back to.
        planned = {server.name for server in planner.servers}
        self.find({name: size for name, size in sizes_bytes.items() if name in planned})
        if self._planner is planner:
            costs, fills = planner.miss_costs(counts, None), planner.fills(counts)
            self._in_force.planned = planner.units(sizes_bytes)
            now = self._in_force.step(costs, fills)
            others = np.array([division.step(costs, fills) for division in self._divisions])
            self.rhythm.step(costs, fills, float(others[_LONGEST]), steps / self.steps_a_day)
            # A division may hold more than its sizes, as nobody else fills the memory. That is no
            # merit of the first sizes: with these it would never have come there.
            others[_FIRST] = max(others[_FIRST], cost_of(self._divisions[_FIRST].planned, costs))
            total = now + planner.hit_costs(counts, None)
            if total > 0:
                # One does not go back from what is only being filled.
                filled = cost_of(self._in_force.planned, costs)
                longest = cost_of(self._divisions[_LONGEST].planned, costs)
                self._is_behind &= filled - longest > _SLACK * total
                self._judge(now - others, filled - others[_FIRST], total, steps)
        else:
            self.begin_with(planner, sizes_bytes)
        for division, half_life in zip(self._divisions, HALF_LIVES, strict=False):
            division.planned = planner.plan(planner.miss_costs(counts, half_life))
        self._divisions[_FIRST].planned = self._first_units(planner)
        self.rhythm.plan(planner, counts, self._divisions[self._place].planned)

    def begin_with(self, planner: VirtualPlanner, filled_bytes: Mapping[str, int]) -> None:
        """Plans so far, for other servers, bounds or weights, say nothing of those by ``planner``.
        All begin with what is filled now: what comes later has to be filled, the first sizes,
        too."""
        self._planner = planner
        units = planner.units(filled_bytes)
        self._in_force = VirtualDivision(units)
        self._divisions = [VirtualDivision(units) for _ in (*HALF_LIVES, _FIRST)]
        self.rhythm.begin_with(units)

    def planned(self, *, applied: bool, early: bool) -> None:
        """There is a new plan; one that was early and in vain makes the next less likely."""
        if applied:
            self._threshold = _LEAST_THRESHOLD
        elif early:
            self._threshold = min(_MOST_THRESHOLD, 2 * self._threshold)
        self._early = None
        self._steps_since_plan = 0.0
        self._recent[:] = self._recent_squares[:] = 0.0

    def begin_anew(self) -> None:
        """Somebody gave an order by which sizes are others, or the sidecar starts amid plans. What
        is missed until caches are filled and known again is no loss by plans: for a cycle nobody
        goes back."""
        self.judge_later()
        self._recent[:] = self._recent_squares[:] = 0.0
        self._early = None
        self._planner = None

    def judge_later(self) -> None:
        """What half-lives would have planned so far says nothing of them, as curves are still
        learnt: their trust begins anew."""
        self._saved_of_first[:] = 0.0
        self._in_force_saved_of_first = self._spent = self._spent_steps = self._judged_steps = 0.0

    def reprice(self, times: float) -> None:
        """The same reads cost so many times as much as they did."""
        for sums in (self._saved, self._saved_of_first, self._lead):
            sums *= times
        self._lead_squares *= times**2
        self.rhythm.reprice(times)
        self._in_force_saved_of_first *= times
        self._spent *= times

    def reweigh(self) -> None:
        """Let misses cost otherwise beside each other from now on. The sizes in force follow by and
        by, for moving has its price. Half-lives' plans follow at once, which is no sign of another
        load. So until the former are about as good, a plan is early only if it is better than the
        latter."""
        self._is_behind = True

    @property
    def _place(self) -> int:
        if self._early is not None:
            return self._early
        trusted = self._trusted()[:_FIRST]
        lead = self._lead - _LEAD_ERRORS * np.sqrt(self._lead_squares)
        return int(np.argmax(np.where(trusted, lead[:_FIRST], -np.inf))) if any(trusted) else _FIRST

    def _trusted(self) -> npt.NDArray[np.bool_]:
        if self._judged_steps < STEPS_A_CYCLE:
            return np.ones(_FIRST + 1, dtype=np.bool_)
        # Moved memory costs misses at first, also if it pays.
        least = -_FORGIVEN * self._spent / max(1e-9, self._spent_steps)
        trusted = self._saved_of_first + min(0.0, self._in_force_saved_of_first) >= least
        trusted[_FIRST] = True
        return np.asarray(trusted)

    def _judge(self, saved: FloatArray, back: float, total: float, steps: float) -> None:
        """Take what each saved, a second, of the total that the sizes in force cost; and what going
        ``back`` would save once the caches of these are full."""
        choice, trust = (
            0.5 ** (steps / STEPS_A_CYCLE / c) for c in (_CHOICE_CYCLES, _TRUST_CYCLES)
        )
        self._saved = choice * self._saved + steps * saved
        lead = saved - saved[_LONGEST]
        self._lead = choice * self._lead + steps * lead
        self._lead_squares = choice * self._lead_squares + steps * lead**2
        self._saved_of_first = trust * self._saved_of_first + steps * (saved - saved[_FIRST])
        self._in_force_saved_of_first = (
            trust * self._in_force_saved_of_first - steps * saved[_FIRST]
        )
        self._spent = trust * self._spent + steps * total
        self._spent_steps = trust * self._spent_steps + steps
        self._judged_steps += steps
        share = np.append(saved[:_FIRST], back) / total
        if self._is_behind:
            share -= max(0.0, share[_LONGEST])
        self._recent = np.maximum(0.0, self._recent + steps * (share - _SLACK))
        squares = self._recent_squares + steps * share**2
        self._recent_squares = np.where(self._recent > 0, squares, 0.0)
        if self._steps >= _FIRST_STEPS and self._steps_since_plan >= _STEPS_BETWEEN:
            self._look_for_early()

    def _look_for_early(self) -> None:
        """Look for an early plan, but not for evidence that is scarce, unless it is against having
        made plans at all."""
        sure = self._recent - _EARLY_ERRORS * np.sqrt(self._recent_squares)
        sure[_FIRST] = self._recent[_FIRST]
        sure = np.where(self._trusted(), sure, 0.0)
        if self.rhythm.chosen is not None:
            sure[:_FIRST] = 0.0  # what is ahead of a change seems to be wrong until it comes
        may = self.may_go_back and self.knows_all and self._judged_steps >= STEPS_A_CYCLE
        sure[_FIRST] *= may
        place = int(np.argmax(sure))
        apart = np.abs(self._divisions[place].planned - self._in_force.planned).max()
        if sure[place] > self._threshold and apart >= 1:
            self._early = place

    def _first_units(self, planner: VirtualPlanner) -> FloatArray:
        units = planner.units({**self.first_bytes, **self.kept_bytes})
        # A smaller difference comes from rounding the units.
        if abs(units.sum() - UNITS) <= 1:
            return units
        return planner.stretched(self.first_bytes, self.kept_bytes)

"""Plans go by the hours of another day where that has been worth it, and only there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.base.metrics import Metrics
from sidecar.config.node import SidecarConfig
from sidecar.curves.decaying_counts import DAY, HALF_LIVES, RHYTHMS, STEPS_A_CYCLE, HalfLife
from sidecar.curves.guarded_monitor import GuardedMonitor
from sidecar.curves.read_counts import ReadCounts
from sidecar.half_lives.half_life_selection import HalfLifeSelection
from sidecar.half_lives.hourly_reads import HOUR_SECONDS, HourlyReads
from sidecar.half_lives.planning_basis import PlanningBasis
from sidecar.half_lives.rhythm_selection import RhythmSelection
from sidecar.half_lives.virtual_plans import PlannedServer, VirtualPlanner
from sidecar.learnt_file import LearntFile
from sidecar.samples.sampler_key import SamplerKey
from tests.sidecar.counted_reads import MEBIBYTE, count, step
from tests.sidecar.fixtures import LoadNode

START_HOUR = 400_000
BUDGET = 100 * MEBIBYTE
EQUAL = {"one": BUDGET // 2, "two": BUDGET // 2}
STEPS_AN_HOUR = 4
PART = STEPS_A_CYCLE / STEPS_AN_HOUR
Reads = Callable[[int], tuple[int, int]]


@given(
    st.lists(st.tuples(st.integers(1, 90), st.integers(0, 1000)), min_size=1, max_size=120),
    st.integers(0, 400),
    st.sampled_from([24, 168]),
)
def test_the_next_hours_are_expected_as_they_were(
    steps: list[tuple[int, int]], later_minutes: int, ago_hours: int
) -> None:
    """Against a twin that keeps every step."""
    hours = HourlyReads()
    minute = START_HOUR * 60
    kept: dict[int, tuple[float, float]] = {}
    for minutes, reads in steps:
        minute += minutes
        hours.add(minute * 60.0, reads, minutes * 60.0)
        hour = int((minute - minutes / 2) // 60)
        before = kept.get(hour, (0.0, 0.0))
        kept[hour] = before[0] + reads, before[1] + minutes * 60.0
    asked = minute + later_minutes + (ago_hours - 3) * 60
    rates = [
        kept[at // 60][0] / kept[at // 60][1]
        for at in range(asked - ago_hours * 60, asked - ago_hours * 60 + 180)
        if at // 60 in kept and (minute // 60) - at // 60 < 168
    ]
    told = hours.ahead(asked * 60.0, ago_hours)
    if len(rates) < 90:
        assert told is None
    else:
        assert told == pytest.approx(np.mean(rates))


def test_what_is_no_week_of_hours_is_not_taken() -> None:
    hours = HourlyReads()
    hours.add(START_HOUR * HOUR_SECONDS, 10, 60.0)
    whole = hours.sums.copy()
    wrong = [np.zeros(0), whole[:-1], whole.astype(np.float32), -whole, whole + np.inf]
    for sums in (*wrong, np.full((168, 3), "x")):
        hours.restore(sums)
        assert np.array_equal(hours.sums, whole)
    anew = HourlyReads()
    anew.restore(whole)
    assert np.array_equal(anew.sums, whole)


class Days:
    """Two servers of which only one can hold what it reads, hour by hour."""

    def __init__(self) -> None:
        servers = [PlannedServer(name, 0.1, 1.0, MEBIBYTE) for name in EQUAL]
        self.planner = VirtualPlanner(servers, BUDGET)
        self.scores = HalfLifeSelection({})
        self.scores.steps_a_day = 24.0 * STEPS_A_CYCLE
        self.counts = {name: ReadCounts() for name in EQUAL}
        self.hours = {name: HourlyReads() for name in EQUAL}
        self.at = START_HOUR * HOUR_SECONDS
        self.used: list[HalfLife] = []

    def hour(self, reads: tuple[int, int]) -> None:
        """Planned at its begin, by whichever half-life is chosen."""
        costs = self.planner.miss_costs(self.counts, self.scores.half_life)
        sizes = self.planner.sizes_bytes(self.planner.plan(costs))
        self.used.append(self.scores.half_life)
        for _ in range(STEPS_AN_HOUR):
            self.at += HOUR_SECONDS / STEPS_AN_HOUR
            for name, times in zip(EQUAL, reads, strict=True):
                count(self.counts[name], [60.0 * MEBIBYTE] * times)
                step(self.counts[name], part=PART)
                self.counts[name].object_bytes = MEBIBYTE / 50  # hours until a cache is full
                self.hours[name].add(self.at, times, HOUR_SECONDS / STEPS_AN_HOUR)
                expected = self.hours[name].ahead(self.at, 24)
                self.counts[name].expected = {} if expected is None else {DAY: expected}
            self.scores.step(self.planner, self.counts, sizes, PART)
            if self.scores.is_early:
                self.scores.planned(applied=True, early=True)

    def run(self, days: int, reads: Reads) -> None:
        for hour in range(24 * days):
            self.hour(reads(hour % 24))


def office(hour: int) -> tuple[int, int]:
    """The first by day, the second in the evening."""
    day, evening = (10 + 190 * np.exp(-(((hour - at) / 4) ** 2)) for at in (12, 21))
    return int(day), int(evening)


def evenly(_hour: int) -> tuple[int, int]:
    return 60, 40


def test_a_rhythm_is_gone_by_once_it_has_been_worth_it_and_left_when_it_stops() -> None:
    days = Days()
    days.run(1, office)
    assert set(days.used) <= set(HALF_LIVES)
    days.run(3, office)
    used = days.used[-24:]
    assert used.count(RHYTHMS[0]) > 12
    # Before the first is read much: as much as is read then is expected.
    for hour in range(8):
        days.hour(office(hour))
    one = days.counts["one"]
    assert one.reads(RHYTHMS[0]) > 1.3 * one.reads(HALF_LIVES[0])
    days.run(1, evenly)
    days.used.clear()
    days.run(1, evenly)
    assert set(days.used) <= set(HALF_LIVES)


def test_where_there_is_none_no_other_day_is_gone_by() -> None:
    days = Days()
    days.run(3, evenly)
    assert set(days.used) <= set(HALF_LIVES)
    random = np.random.default_rng(1)
    days.run(3, lambda _hour: (100, 10) if random.random() < 0.5 else (10, 100))
    assert sum(half_life in RHYTHMS for half_life in days.used) < len(days.used) / 10


def test_where_an_hour_is_not_known_the_long_memory_says_how_much_is_read() -> None:
    counts = ReadCounts()
    count(counts, [1.0] * 10)
    step(counts)
    assert not counts.expects(RHYTHMS[0])
    assert counts.reads(RHYTHMS[0]) == counts.reads(HALF_LIVES[-1])
    counts.expected = {DAY: 7.0}
    assert counts.expects(RHYTHMS[0])
    assert not counts.expects(RHYTHMS[1])
    assert counts.reads(RHYTHMS[0]) == 7.0


def test_hours_are_counted_and_outlive_the_process(
    tmp_path: Path, load_node: LoadNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    config: SidecarConfig = load_node({"s.0": "redis://localhost:1"})
    folder = tmp_path / "kept"
    folder.mkdir()

    def begin() -> tuple[LearntFile, PlanningBasis, GuardedMonitor]:
        monitors = {"s.0": GuardedMonitor("s.0", config, Metrics())}
        learnt = LearntFile(folder / "state.json", monitors, {"s.0": SamplerKey()})
        basis = PlanningBasis(config, monitors, 0.0, hours=learnt.hours)
        return learnt, basis, monitors["s.0"]

    learnt, basis, monitor = begin()
    for number in range(1, 4 * STEPS_AN_HOUR + 1):
        count(monitor.counts, [1.0] * 30)
        basis.look(number * HOUR_SECONDS / STEPS_AN_HOUR, {})
    learnt.save()
    _, basis, monitor = begin()
    assert monitor.learnt is None
    basis.look(24 * HOUR_SECONDS, {})
    assert monitor.counts.expected == {DAY: pytest.approx(30 * STEPS_AN_HOUR / HOUR_SECONDS)}
    assert "rates that count half" in basis.basis
    monkeypatch.setattr(RhythmSelection, "chosen", RHYTHMS[0])
    assert basis.basis.startswith("rates as at this time yesterday, curves that count half after")

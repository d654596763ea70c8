"""Half-lives in competition: which wins under which load, and when a plan is due early."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.curves.decaying_counts import HALF_LIVES, STEPS_A_CYCLE, HalfLife
from sidecar.curves.read_counts import ReadCounts
from sidecar.half_lives.half_life_selection import HalfLifeSelection
from sidecar.half_lives.virtual_plans import PlannedServer, VirtualPlanner
from tests.sidecar.counted_reads import MEBIBYTE, count, step

BUDGET = 100 * MEBIBYTE
FOR_ONE = {"one": 80 * MEBIBYTE, "two": 20 * MEBIBYTE}
FOR_TWO = {"one": 20 * MEBIBYTE, "two": 80 * MEBIBYTE}


def planner_of(hit_seconds: float = 0.1) -> VirtualPlanner:
    return VirtualPlanner(
        [PlannedServer(name, hit_seconds, 1.0, MEBIBYTE) for name in ("one", "two")], BUDGET
    )


class Load:
    """Two servers, of which only one can hold what it reads."""

    def __init__(self, planner: VirtualPlanner | None = None) -> None:
        self.planner = planner or planner_of()
        self.scores = HalfLifeSelection({})
        self.counts = {"one": ReadCounts(), "two": ReadCounts()}
        self.object_bytes = MEBIBYTE

    def step(
        self, one: int, two: int, planned: dict[str, int], part: float = 1.0
    ) -> HalfLife | None:
        """A step, or a part of one, with so many reads of each; the half-life that a plan is due
        early by."""
        for name, reads in (("one", one), ("two", two)):
            count(self.counts[name], [60.0 * MEBIBYTE] * reads)
            step(self.counts[name], part=part)
            self.counts[name].object_bytes = self.object_bytes
        self.scores.step(self.planner, self.counts, planned, part)
        return self.scores.half_life if self.scores.is_early else None

    def steps_until_early(self, planned: dict[str, int], most: int = 50) -> int | None:
        """While only the first is read."""
        for number in range(1, most + 1):
            if self.step(100, 0, planned) is not None:
                return number
        return None


@pytest.mark.parametrize(("steps", "one", "two"), [(60, 160, 20), (1, 0, 0), (12, 0, 0)])
def test_a_stationary_load_or_none_at_all_has_no_early_plan(steps: int, one: int, two: int) -> None:
    load = Load()
    for _ in range(steps):
        assert load.step(one, two, FOR_ONE) is None
    assert not any(load.scores.has_gained(half_life) for half_life in HALF_LIVES)


def test_a_load_that_changes_is_planned_for_early_by_a_short_memory() -> None:
    load = Load()
    for _ in range(36):
        assert load.step(160, 20, FOR_ONE) is None
    # A step says that it changed, a next one what a plan by the first would have gained.
    due = [load.step(20, 160, FOR_ONE) for _ in range(6)]
    assert due[0] is None
    early = [half_life for half_life in due if half_life is not None]
    assert early
    assert early[0].rate == 0
    assert load.scores.has_gained(early[0])
    assert load.scores.half_life.rate == 0
    assert not load.scores.has_gained(HalfLife(3, 3))
    load.scores.planned(applied=True, early=True)
    assert not load.scores.is_early
    for _ in range(36):
        assert load.step(20, 160, FOR_TWO) is None


def test_nothing_is_early_before_four_steps_nor_so_soon_after_a_plan() -> None:
    load = Load()
    assert load.steps_until_early(FOR_TWO) == 4
    load.scores.planned(applied=True, early=True)
    assert load.steps_until_early(FOR_TWO) == 2


def test_early_plans_in_vain_double_the_threshold_and_one_that_is_applied_restores_it() -> None:
    # Each step the sizes in force cost 4 % too much, 3 % beyond the slack. After n such steps
    # 0.03 n - 0.04 √n is sure.
    load = Load(planner_of(hit_seconds=24))
    waited = [load.steps_until_early(FOR_TWO)]
    for _ in range(5):
        load.scores.planned(applied=False, early=True)
        waited.append(load.steps_until_early(FOR_TWO))
    assert waited == [7, 7, 12, 20, 20, 20]  # 0.05, 0.1, 0.2, 0.4, and no more
    load.scores.planned(applied=True, early=True)
    assert load.steps_until_early(FOR_TWO) == 5
    # That a due plan, which was not early, changes nothing does not count as in vain.
    load.scores.planned(applied=False, early=False)
    assert load.steps_until_early(FOR_TWO) == 5


def test_small_gains_never_add_up_to_an_early_plan() -> None:
    assert Load(planner_of(hit_seconds=120)).steps_until_early(FOR_TWO) is None


def test_plans_for_other_servers_are_not_judged() -> None:
    load = Load()
    for _ in range(12):
        load.planner = planner_of()
        assert load.step(100, 0, FOR_TWO) is None
    assert load.scores.half_life == HALF_LIVES[0]
    assert not load.scores.has_gained(HALF_LIVES[0])


def test_parts_of_a_step_say_together_what_the_whole_says() -> None:
    whole, parts = (Load(planner_of(hit_seconds=24)) for _ in range(2))
    for one in (whole, parts):
        one.step(100, 0, FOR_TWO)
    for number in range(2, 6):
        early = whole.step(100, 0, FOR_TWO)
        parts.step(50, 0, FOR_TWO, part=0.5)
        assert (parts.step(50, 0, FOR_TWO, part=0.5) is None) == (early is None), number


def test_what_plans_cost_is_held_against_them_until_the_first_sizes_are_gone_back_to() -> None:
    """The server that holds memory is read once in a while; whoever else gets it fills it."""
    load = Load()
    for _ in range(6):
        assert not load.scores.goes_back
        load.step(100, 100, FOR_ONE)
    load.scores.planned(applied=True, early=False)
    for _ in range(12):
        load.step(0, 100, FOR_TWO)
    assert not load.scores.goes_back
    load.scores.planned(applied=True, early=False)
    # It comes back, and by far more than all that was saved since has to be read again.
    due = [load.step(1000, 0, FOR_TWO) for _ in range(3)]
    assert load.scores.goes_back
    assert any(due)
    assert load.scores.back_bytes(load.planner) == FOR_ONE


def test_first_sizes_that_exceed_the_memory_are_cut_in_proportion() -> None:
    load = Load()
    load.step(100, 100, FOR_ONE)
    smaller = VirtualPlanner(load.planner.servers, BUDGET * 9 // 10)
    sizes = load.scores.back_bytes(smaller)
    assert sum(sizes.values()) <= BUDGET * 9 // 10
    assert sizes["one"] / sizes["two"] == pytest.approx(4)


def harm(load: Load) -> None:
    """Plans that lose more than they ever saved."""
    load.step(100, 100, FOR_ONE)
    for _ in range(4):
        load.step(0, 100, FOR_TWO)
    for _ in range(3):
        load.step(1000, 0, FOR_TWO)


def test_who_keeps_what_it_has_is_left_out_of_the_way_back() -> None:
    load = Load()
    harm(load)
    assert load.scores.back_bytes(load.planner) == FOR_ONE
    load.scores.kept_bytes = {"two": 45 * MEBIBYTE}
    back = load.scores.back_bytes(load.planner)
    assert back == pytest.approx({"one": 55 * MEBIBYTE, "two": 45 * MEBIBYTE}, abs=2)
    assert sum(back.values()) <= BUDGET


@pytest.mark.parametrize("times", [0.001, 1.0, 1000.0])
def test_what_was_lost_counts_at_the_prices_of_now(times: float) -> None:
    """A miss costs another price from now on; what happens then is the same at each price."""
    load = Load()
    harm(load)
    load.scores.reprice(times)
    priced = [
        replace(one, hit_seconds=times * 0.1, penalty_seconds=times) for one in load.planner.servers
    ]
    load.planner.reprice(priced)
    until_forgiven = 0
    while load.scores.goes_back:
        load.step(20, 160, FOR_ONE)
        until_forgiven += 1
    assert until_forgiven == 31


def test_what_an_order_cost_is_no_loss_by_plans() -> None:
    """Until a cycle has passed since, nobody goes back for what was missed meanwhile."""
    load = Load()
    harm(load)
    assert load.scores.goes_back
    assert load.scores.lost_ratio > 0
    load.scores.begin_anew()
    assert load.scores.lost_ratio == 0
    for _ in range(STEPS_A_CYCLE):
        assert not load.scores.goes_back
        load.step(1000, 0, FOR_TWO)
    steps = 0
    while not load.scores.goes_back:  # it still does harm
        load.step(1000, 0, FOR_TWO)
        steps += 1
    assert steps <= 2


def test_what_was_judged_by_curves_that_were_still_learnt_takes_no_plan_back() -> None:
    """After a restart each half-life planned as it knew the load, which was not at all."""
    load = Load()
    harm(load)
    assert load.scores.goes_back
    lead = load.scores._lead.copy()
    load.scores.judge_later()
    assert (load.scores._lead == lead).all()  # which half-life is better is known as before
    load.step(1000, 0, FOR_TWO)
    assert not load.scores.goes_back


def test_first_sizes_of_an_earlier_process_stay_the_first_sizes() -> None:
    scores = HalfLifeSelection(FOR_TWO)
    scores.step(planner_of(), {"one": ReadCounts(), "two": ReadCounts()}, FOR_ONE)
    assert scores.first_bytes == FOR_TWO


@pytest.mark.parametrize("knows_all", [True, False])
def test_one_does_not_go_back_early_from_what_is_only_being_filled_or_hardly_known(
    knows_all: bool,
) -> None:
    for one, two in ((20, 160), (160, 20)):
        load = Load()
        load.scores.knows_all = knows_all
        load.step(160, 160, FOR_ONE)
        load.object_bytes = MEBIBYTE // 100
        # Both miss: the first gives, and the second fills slowly.
        early = [load.step(one, two, FOR_TWO) for _ in range(10)]
        went = any(half_life is not None and load.scores.goes_back for half_life in early)
        assert went == (one > two and knows_all)


def test_what_first_sizes_leave_is_shared_out() -> None:
    load = Load()
    load.step(100, 100, {"one": 5 * MEBIBYTE, "two": 3 * MEBIBYTE})
    back = load.scores.back_bytes(load.planner)
    assert sum(back.values()) == pytest.approx(BUDGET, abs=2)
    assert back["one"] / back["two"] == pytest.approx(5 / 3)
    bounded = VirtualPlanner(
        [
            replace(one, maximum_bytes=most)
            for one, most in zip(load.planner.servers, (10 * MEBIBYTE, None), strict=True)
        ],
        BUDGET,
    )
    back = load.scores.back_bytes(bounded)
    assert back["one"] == 10 * MEBIBYTE
    assert sum(back.values()) == pytest.approx(BUDGET, abs=2)


def test_what_a_replica_has_is_no_size_to_go_back_to() -> None:
    """It is planned for only when it is a primary: with what it has then."""
    load = Load()
    load.step(160, 20, {**FOR_ONE, "replica": 2 * MEBIBYTE})
    assert load.scores.first_bytes == FOR_ONE
    load.scores.find({"replica": 20 * MEBIBYTE})
    assert load.scores.first_bytes == {**FOR_ONE, "replica": 20 * MEBIBYTE}

"""What the planning basis tells an observation, and when it makes one due."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sidecar.config.node import SidecarConfig, read_config
from sidecar.curves.decaying_counts import HALF_LIVES, STEPS_A_CYCLE
from sidecar.curves.monitor import ServerMonitor
from sidecar.curves.warm_up import BLOCK_READS
from sidecar.half_lives.chance_of_gain import chance_ratio
from sidecar.half_lives.half_life_selection import HalfLifeSelection
from sidecar.half_lives.planning_basis import PlanningBasis
from sidecar.half_lives.virtual_plans import PlannedServer, VirtualPlanner
from solver_lambda.documents.curve import MissRatioCurve
from solver_lambda.documents.observation import Observation, ServerObservation
from solver_lambda.documents.reader import Fields
from tests.sidecar.counted_reads import MEBIBYTE, STEP_SECONDS, count

BUDGET = 120 * MEBIBYTE
NAMES = ("one", "two", "three")
EQUAL = dict.fromkeys(NAMES, BUDGET // 3)
MORE_ERRORS = 4.0  # no half-life has gained anything yet


def config_of(forecast: str) -> SidecarConfig:
    servers = [
        {"name": name, "url": f"redis://127.0.0.1:{place}", "backend_latency": "20ms"}
        for place, name in enumerate(NAMES, 6379)
    ]
    table = {
        "node": "n1",
        "memory": {"budget": BUDGET},
        "sampling": {"endpoint": "ipc:///run/samples"},
        "planning": {"forecast": forecast},
        "server": servers,
    }
    return read_config(Fields(table, "test"), Path())


class Node:
    """Three monitors, whose reads are counted at once."""

    def __init__(self, forecast: str = "competing") -> None:
        self.monitors = {name: ServerMonitor(name) for name in NAMES}
        for monitor in self.monitors.values():
            monitor.calibration.object_bytes = float(MEBIBYTE)
        self.basis = PlanningBasis(config_of(forecast), self.monitors, 0.0)
        self.now_seconds = 0.0

    def step(
        self,
        reads: dict[str, int],
        depth_mebibytes: float = 45,
        planned: dict[str, int] = EQUAL,
    ) -> None:
        """Each read of a random group of objects."""
        random = np.random.default_rng(int(self.now_seconds))
        for name, times in reads.items():
            depths = random.uniform(0, depth_mebibytes, times) * MEBIBYTE
            count(self.monitors[name].counts, depths, random.integers(0, 16, times))
        self.now_seconds += STEP_SECONDS
        self.basis.look(self.now_seconds, planned)


def observed(**keep_reasons: str) -> Observation:
    servers = tuple(
        ServerObservation(
            name=name,
            maxmemory_bytes=EQUAL[name],
            minimum_bytes=2 * MEBIBYTE,
            weight=1.0,
            request_rate_per_second=1.0,
            cache_latency_seconds=200e-6,
            backend_latency_seconds=0.02,
            curve=MissRatioCurve(np.array([0.0]), np.array([0.5])),
            keep_reason=keep_reasons.get(name),
        )
        for name in NAMES
    )
    return Observation("n1", 1, 1e6, 3600.0, BUDGET, servers)


def expected_chance(node: Node, names: tuple[str, ...], budget_bytes: int) -> float:
    servers = [PlannedServer(name, 200e-6, 0.02 - 200e-6, 2 * MEBIBYTE) for name in names]
    counts = {name: monitor.counts for name, monitor in node.monitors.items()}
    half_life = node.basis.half_life
    assert half_life is not None
    return chance_ratio(
        VirtualPlanner(servers, budget_bytes), counts, half_life, EQUAL, MORE_ERRORS
    )


def test_an_observation_tells_how_much_may_be_chance() -> None:
    node = Node()
    node.step(dict.fromkeys(NAMES, 60))
    observation = observed()
    judged = node.basis.judged(observation)
    assert 0 < judged.chance_ratio < 1
    assert judged.chance_ratio == pytest.approx(expected_chance(node, NAMES, BUDGET))
    assert dataclasses.replace(judged, chance_ratio=0.0) == observation


def test_kept_servers_and_their_memory_are_left_out() -> None:
    node = Node()
    node.step(dict.fromkeys(NAMES, 60))
    judged = node.basis.judged(observed(two="replica"))
    expected = expected_chance(node, ("one", "three"), BUDGET - BUDGET // 3)
    assert judged.chance_ratio == pytest.approx(expected)
    # What the kept one is read changes nothing.
    count(node.monitors["two"].counts, [np.inf] * 1000)
    node.monitors["two"].step(STEP_SECONDS)
    again = node.basis.judged(observed(two="replica"))
    assert again.chance_ratio == judged.chance_ratio
    assert node.basis.judged(observed()).chance_ratio != pytest.approx(expected)


def test_where_at_most_one_server_can_change_nothing_is_chance() -> None:
    node = Node()
    node.step(dict.fromkeys(NAMES, 60))
    for kept in ({"one": "x", "two": "x"}, dict.fromkeys(NAMES, "x")):
        observation = observed(**kept)
        assert node.basis.judged(observation) is observation
    # And the next steps go on.
    for _ in range(20):
        node.step({"three": 60}, depth_mebibytes=100)
        assert not node.basis.is_early


def test_a_part_of_a_step_closes_none() -> None:
    node = Node()
    count(node.monitors["one"].counts, [1.0] * 10)
    node.basis.look(STEP_SECONDS / 2, EQUAL)
    assert node.monitors["one"].counts.histogram.reads.new == 10
    node.basis.look(STEP_SECONDS, EQUAL)
    assert node.monitors["one"].counts.histogram.reads.new == 0
    assert node.monitors["one"].counts.reads(None) == pytest.approx(10 / STEP_SECONDS)


def test_an_observation_closes_a_step_at_once_and_the_next_one_is_whole() -> None:
    node = Node()
    count(node.monitors["one"].counts, [1.0] * 10)
    node.basis.look(30.0, EQUAL, at_once=True)
    assert node.monitors["one"].counts.reads(None) == pytest.approx(10 / 30)
    node.basis.look(30.0, EQUAL, at_once=True)  # no time has passed
    assert node.monitors["one"].counts.reads(None) == pytest.approx(10 / 30)
    node.basis.look(30.0 + STEP_SECONDS / 2, EQUAL)
    assert node.monitors["one"].counts.reads(None) == pytest.approx(10 / 30)
    node.basis.look(30.0 + STEP_SECONDS, EQUAL)
    assert node.monitors["one"].counts.reads(None) == 0


def change(node: Node, *, observe: bool = False) -> bool:
    """Whether a plan is due early when a load leaves one server for another."""
    for _ in range(16):
        node.step({"one": 60, "two": 60, "three": 60}, depth_mebibytes=20)
    assert not node.basis.is_early
    for _ in range(6):
        if observe:
            node.basis.judged(observed())
        node.step({"one": 600}, depth_mebibytes=70)
        if node.basis.is_early:
            return True
    return False


def test_a_load_that_changes_makes_a_plan_due_by_the_memory_that_knows_it() -> None:
    node = Node()
    assert change(node)
    half_life = node.basis.half_life
    assert half_life in HALF_LIVES
    assert half_life is not None
    assert half_life.rate == 0
    node.basis.judged(observed())
    node.basis.planned(applied=True)
    assert not node.basis.is_early


def test_what_asked_for_a_plan_before_an_order_asks_for_none_after_it() -> None:
    """It asked for other sizes than those that the order has brought."""
    node = Node()
    assert change(node)
    node.basis.begin_anew()
    assert not node.basis.is_early
    node.step({"one": 600}, depth_mebibytes=70)
    assert not node.basis.is_early


def test_observations_of_the_same_servers_do_not_hold_up_the_scores() -> None:
    assert change(Node(), observe=True)


def test_an_early_observation_that_led_to_no_plan_was_in_vain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = []
    monkeypatch.setattr(HalfLifeSelection, "planned", lambda _, **how: told.append(how))
    node = Node()
    node.basis.judged(observed())
    node.basis.planned(applied=False)
    assert change(node)
    node.basis.judged(observed())
    node.step({"one": 1})  # before the plan comes
    node.basis.planned(applied=False)
    assert told == [{"applied": False, "early": False}, {"applied": False, "early": True}]


def test_the_last_window_is_never_early_and_nothing_of_it_is_chance() -> None:
    node = Node("last")
    assert node.basis.half_life is None
    assert not change(node)
    observation = observed()
    assert node.basis.judged(observation) is observation
    # Counts fade all the same.
    counts = node.monitors["two"].counts.histogram.reads
    assert float(counts.by(0)) < float(counts.by(3))


def test_where_plans_did_harm_the_observation_asks_for_the_first_sizes() -> None:
    node = Node()
    node.step(dict.fromkeys(NAMES, 60), depth_mebibytes=38)
    observation = observed()
    judged = node.basis.judged(observation)
    assert not judged.goes_back
    taken = {"one": 10 * MEBIBYTE, "two": 55 * MEBIBYTE, "three": 55 * MEBIBYTE}
    for _ in range(12):
        node.step({"two": 60, "three": 60}, depth_mebibytes=50, planned=taken)
    for _ in range(12):
        node.step({"one": 6000}, depth_mebibytes=38, planned=taken)
    assert node.basis.basis.startswith("going back to the sizes from before there were plans")
    judged = node.basis.judged(observation)
    assert judged.goes_back
    for server in judged.servers:
        assert server.minimum_bytes == server.maximum_bytes == EQUAL[server.name]
    # While of one whose reads count nothing is known, as after a start, nobody goes back.
    for curve, rate, goes in (
        ({"curve_error_ratio": 0.6}, None, False),
        ({"curve_error_ratio": 0.6}, 0.001, True),
        ({"keep_reason": "few_samples: 3"}, None, False),
        ({"keep_reason": "no_eviction: noeviction"}, None, True),
    ):
        one = dataclasses.replace(observation.servers[0], **curve)  # type: ignore[arg-type]
        if rate is not None:
            one = dataclasses.replace(one, request_rate_per_second=rate)
        asked = dataclasses.replace(observation, servers=(one, *observation.servers[1:]))
        assert node.basis.judged(asked).goes_back == goes, curve
    assert node.basis.judged(observation).goes_back
    # Of whom too little is known, that is what it has.
    unsure = dataclasses.replace(
        observation.servers[0], maxmemory_bytes=44 * MEBIBYTE, curve_error_ratio=0.4
    )
    two = dataclasses.replace(observation.servers[1], maxmemory_bytes=36 * MEBIBYTE)
    asked = dataclasses.replace(observation, servers=(unsure, two, observation.servers[2]))
    assert node.basis.judged(asked).servers[0].minimum_bytes == 44 * MEBIBYTE
    # As far as teams leave the choice.
    less = dataclasses.replace(observation.servers[0], maximum_bytes=30 * MEBIBYTE)
    asked = dataclasses.replace(observation, servers=(less, *observation.servers[1:]))
    assert node.basis.judged(asked).servers[0].maximum_bytes == 30 * MEBIBYTE
    # A bound that is met, and would not be then, keeps its server as it is.
    curve = MissRatioCurve(np.array([0.0, 45.0 * MEBIBYTE]), np.array([1.0, 0.0]))
    large = dataclasses.replace(observation.servers[0], maxmemory_bytes=50 * MEBIBYTE, curve=curve)
    for most_seconds, kept in ((0.02, False), (0.001, True), (1e-6, False)):
        bounded = dataclasses.replace(large, bounds={"latency_bound_seconds": most_seconds})
        asked = dataclasses.replace(observation, servers=(bounded, *observation.servers[1:]))
        judged = node.basis.judged(asked)
        assert judged.goes_back
        assert judged.servers[0].minimum_bytes == (50 * MEBIBYTE if kept else EQUAL["one"])
        assert sum(server.minimum_bytes for server in judged.servers) <= BUDGET


def test_the_way_back_takes_nobody_below_what_it_had_at_first() -> None:
    """Beside a server that hangs with more, less is left for the others than they had."""
    basis = object.__new__(PlanningBasis)
    back = {"one": 30, "two": 30, "three": 60}
    basis._scores = SimpleNamespace(  # type: ignore[assignment]
        back_bytes=lambda _: dict(back), first_bytes=dict.fromkeys(back, 40), kept_bytes={}
    )
    found = basis._back_bytes(None, {"one": 40, "two": 35, "three": 45})  # type: ignore[arg-type]
    assert found == {"one": 40, "two": 35, "three": 45}
    now = {"one": 20, "two": 20, "three": 80}
    assert basis._back_bytes(None, now) == back  # type: ignore[arg-type]
    # Nor below what it has, whose curve is still learnt.
    assert basis._back_bytes(None, now, {"three"}) == now  # type: ignore[arg-type]


def test_the_basis_says_how_far_back_one_looks() -> None:
    node = Node()
    assert node.basis.basis == "rates that count half after 5min, curves after 5min"
    assert Node("last").basis.basis == "the last window"


@pytest.mark.parametrize(
    ("first", "cycle_seconds", "limit_seconds"),
    [({}, 60.0, 60), (EQUAL, 60.0, 600), ({}, 3600.0, 3600), (EQUAL, 3600.0, 3600)],
)
def test_who_starts_amid_plans_takes_the_time_to_know_the_curves(
    first: dict[str, int], cycle_seconds: float, limit_seconds: int
) -> None:
    """By curves of a minute, plans that had saved half of the access time were taken back."""
    config = config_of("competing")
    cycle = dataclasses.replace(config.cycle, maximum_age_seconds=cycle_seconds)
    monitors = {name: ServerMonitor(name, cycle_seconds=cycle_seconds) for name in NAMES}
    PlanningBasis(dataclasses.replace(config, cycle=cycle), monitors, 0.0, first)
    for monitor in monitors.values():
        for second, is_on in ((0, True), (limit_seconds, True), (limit_seconds + 1, False)):
            monitor.warm_up.take(BLOCK_READS, BLOCK_READS // 4, second * 10**6)
            assert monitor.warm_up.must_forget() == is_on


def test_no_plan_is_judged_while_a_curve_is_still_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    judged = []
    monkeypatch.setattr(HalfLifeSelection, "judge_later", lambda _: judged.append(1))
    node.step({"one": 100, "two": 100, "three": 100})
    assert not judged
    learns = node.monitors["two"].warm_up
    learns.take(BLOCK_READS, BLOCK_READS // 4, 0)
    assert learns.must_forget()
    node.step({"one": 100, "two": 100, "three": 100})
    assert judged


@pytest.mark.parametrize("has_mebibytes", [None, 30])
def test_what_a_plan_gives_has_to_be_filled_also_beside_one_that_takes_no_part(
    has_mebibytes: int | None,
) -> None:
    """That one left with the first observation. The plan that came of it counted as filled, also
    for the first sizes: the next plan went back, each time."""
    node = Node()
    reads = {"one": 2000, "two": 2}
    for _ in range(16):
        node.step(reads, depth_mebibytes=70)
    has = {} if has_mebibytes is None else {"one": has_mebibytes * MEBIBYTE}
    node.basis.may_go_back(True)
    node.basis.judged(observed(three="no_eviction: noeviction"), has)
    node.basis.planned(applied=True)
    moved = {**EQUAL, "one": 76 * MEBIBYTE, "two": 4 * MEBIBYTE}
    in_force = node.basis._scores._in_force
    unit = node.basis._planner.unit_bytes if node.basis._planner else 1
    filled = (has.get("one", EQUAL["one"]) - 2 * MEBIBYTE) / unit
    assert in_force._filled[0] == pytest.approx(filled)
    for _ in range(2 * STEPS_A_CYCLE):
        node.step(reads, depth_mebibytes=70, planned=moved)
        assert not node.basis._scores.goes_back
    assert in_force is node.basis._scores._in_force
    assert in_force._filled[0] > filled


def _taken(**sizes_mebibytes: int) -> tuple[dict[str, int], Observation]:
    """Sizes, and an observation with them."""
    taken = {name: size * MEBIBYTE for name, size in sizes_mebibytes.items()}
    servers = tuple(
        dataclasses.replace(server, maxmemory_bytes=taken[server.name])
        for server in observed().servers
    )
    return taken, dataclasses.replace(observed(), servers=servers)


@pytest.mark.parametrize(("needed", "goes_back"), [({}, True), ({"one": 20 * MEBIBYTE}, False)])
def test_beside_a_need_the_first_sizes_are_judged_with_what_it_holds(
    needed: dict[str, int], goes_back: bool
) -> None:
    """A client's buffers at one took what the others had: by their curves, to go back would help,
    and there would be as little for them."""
    node = Node()
    node.step(dict.fromkeys(NAMES, 60), depth_mebibytes=38)
    taken, asked = _taken(one=60, two=30, three=30)
    assert not node.basis.judged(asked, None, needed).goes_back
    for _ in range(24):
        node.step({"two": 600, "three": 600}, depth_mebibytes=38, planned=taken)
    assert node.basis.judged(asked, None, needed).goes_back == goes_back


def test_who_goes_back_beside_a_need_keeps_that_and_no_more() -> None:
    """Some buffers at a server that plans gave much must not keep all of it from the others."""
    node = Node()
    node.step(dict.fromkeys(NAMES, 60), depth_mebibytes=38)
    taken, asked = _taken(one=80, two=20, three=20)
    needed = {"one": 8 * MEBIBYTE}
    node.basis.judged(asked, None, needed)
    for _ in range(24):
        node.step({"two": 600, "three": 600}, depth_mebibytes=38, planned=taken)
    judged = node.basis.judged(asked, None, needed)
    assert judged.goes_back
    sizes = {server.name: server.maximum_bytes for server in judged.servers}
    assert sizes["one"] == pytest.approx(48 * MEBIBYTE, rel=0.02)
    assert sizes["two"] == sizes["three"] == pytest.approx(36 * MEBIBYTE, rel=0.02)

"""Weights and latencies change under a steady load: no plan goes back, and none is early."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sidecar.config.node import read_config
from sidecar.control.control_plane import MissWeights
from sidecar.curves.monitor import ServerMonitor
from sidecar.curves.read_counts import GrowthMargin
from sidecar.half_lives.half_life_selection import HalfLifeSelection
from sidecar.half_lives.planning_basis import PlanningBasis
from solver_lambda.documents.curve import MissRatioCurve
from solver_lambda.documents.observation import Observation, ServerObservation
from solver_lambda.documents.reader import Fields
from solver_lambda.planning.planner import make_plan
from tests.sidecar.counted_reads import MEBIBYTE, STEP_SECONDS, count

BUDGET = 120 * MEBIBYTE
READS_A_STEP = 6000
# So small that caches fill for hours.
OBJECT_BYTES = MEBIBYTE / 5000
MEAN_DEPTHS = {"one": 10, "two": 20, "three": 30, "four": 40}
STEPS_A_CYCLE = 12


class Node:
    """Four servers under a steady load, whose plans are carried out at once.

    Attributes:
        early, back: how many plans came early, and how many went back.
        servers: what is seen of each.
    """

    def __init__(self, seed: int) -> None:
        self.early = self.back = 0
        self._random = np.random.default_rng(seed)
        self._monitors = {name: ServerMonitor(name) for name in MEAN_DEPTHS}
        for monitor in self._monitors.values():
            monitor.calibration.object_bytes = OBJECT_BYTES
        grid = np.arange(0, BUDGET + 1, MEBIBYTE / 4)
        self.servers = {
            name: ServerObservation(
                name=name,
                maxmemory_bytes=BUDGET // 4,
                minimum_bytes=2 * MEBIBYTE,
                weight=1.0,
                request_rate_per_second=READS_A_STEP / STEP_SECONDS,
                cache_latency_seconds=200e-6,
                backend_latency_seconds=0.02,
                sampled_objects=10_000,
                mean_object_bytes=OBJECT_BYTES,
                curve=MissRatioCurve(grid, np.exp(-grid / (depth * MEBIBYTE))),
            )
            for name, depth in MEAN_DEPTHS.items()
        }
        table = {
            "node": "n1",
            "memory": {"budget": BUDGET},
            "sampling": {"endpoint": "ipc:///run/samples"},
            "server": [
                {"name": name, "url": f"redis://127.0.0.1:{place}", "backend_latency": "20ms"}
                for place, name in enumerate(MEAN_DEPTHS, 6379)
            ],
        }
        self.basis = PlanningBasis(read_config(Fields(table, "test"), Path()), self._monitors, 0.0)
        self._now_seconds, self._age_steps = 0.0, 0

    def cycle(self) -> None:
        """Make as many steps as a cycle has, with a plan when it is due."""
        for _ in range(STEPS_A_CYCLE):
            for name, depth in MEAN_DEPTHS.items():
                depths = self._random.exponential(depth, READS_A_STEP) * MEBIBYTE
                groups = self._random.integers(0, 16, READS_A_STEP)
                count(self._monitors[name].counts, depths, groups)
            self._now_seconds += STEP_SECONDS
            self._age_steps += 1
            self.look()
            if self.basis.is_early or self._age_steps == STEPS_A_CYCLE:
                self._plan()

    def look(self, more_seconds: float = 0.0) -> None:
        self._now_seconds += more_seconds
        sizes = {name: server.maxmemory_bytes for name, server in self.servers.items()}
        self.basis.look(self._now_seconds, sizes, at_once=bool(more_seconds))

    def judge(self) -> Observation:
        return self.basis.judged(
            Observation(
                *("n1", 1, 1e6 + self._now_seconds, 3600.0, BUDGET, tuple(self.servers.values())),
                cycle_seconds=3600.0,
            )
        )

    def _plan(self) -> None:
        self.early += self.basis.is_early
        self._age_steps = 0
        observation = self.judge()
        self.back += observation.goes_back
        plan = make_plan(observation, now_seconds=observation.made_at_seconds)
        self.basis.planned(applied=plan.decision == "apply")
        for one in plan.servers:
            self.change(one.name, maxmemory_bytes=one.maxmemory_bytes)

    def change(self, name: str, **values: float) -> None:
        self.servers[name] = replace(self.servers[name], **values)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def no_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many objects are known that chance needs no margin."""
    step = GrowthMargin.step
    monkeypatch.setattr(GrowthMargin, "step", lambda one, *_: step(one, 1.0, 10**18))


def test_a_measured_latency_is_another_one_once_it_has_moved_by_a_tenth() -> None:
    yardstick, node = MissWeights(), Node(1)
    assert yardstick.look(node.judge()) is None
    told = []
    for latency in (0.0215, 0.0225, 0.0215):
        node.change("one", backend_latency_seconds=latency, backend_latency_source="measured")
        told.append(yardstick.look(node.judge()))
    assert told == [None, "latency changed: one 20 ms -> 22.5 ms", None]
    # What people set is another one at once.
    node.change("one", backend_latency_seconds=0.022, backend_latency_source="team", weight=2.0)
    changed = "weights changed: one 1 -> 2; latency changed: one 22.5 ms -> 22 ms"
    assert yardstick.look(node.judge()) == changed


@pytest.mark.parametrize(
    ("what", "values", "seed"),
    [
        pytest.param(*("weight", (0.1, 0.3, 1.0, 1.0, 3.0, 10.0), 0), marks=pytest.mark.experiment),
        ("weight", (0.1, 0.3, 1.0, 1.0, 3.0, 10.0), 2),
        ("backend_latency_seconds", (0.002, 0.01, 0.02, 0.04, 0.2), 3),
    ],
)
def test_what_a_miss_costs_may_change_each_cycle(
    what: str, values: tuple[float, ...], seed: int
) -> None:
    node, draw = Node(seed), random.Random(seed)
    for _ in range(6):
        node.cycle()
    node.early = node.back = 0
    for _ in range(12):
        node.change(draw.choice(list(MEAN_DEPTHS)), **{what: draw.choice(values)})
        node.cycle()
    assert (node.early, node.back) == (0, 0)


def test_what_prices_were_is_told_by_a_long_time_and_not_by_an_instant_without_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[float] = []
    monkeypatch.setattr(HalfLifeSelection, "reprice", lambda _, times: told.append(times))
    node = Node(1)
    node.cycle()
    node.look(more_seconds=0.01)
    for name in MEAN_DEPTHS:
        node.change(name, weight=10.0)
    node.judge()
    assert told[-1] == pytest.approx(10)

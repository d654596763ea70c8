"""A plan whose promise is missed is taken back, where the sizes before it were better."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sidecar.control.enforcement import Enforcement
from sidecar.control.history import history_path, read_history
from sidecar.control.order import Order
from sidecar.control.plan_rollback import PlanRollback
from sidecar.curves.decaying_counts import HalfLife
from sidecar.curves.read_counts import ReadCounts
from sidecar.daemon import Sidecar
from sidecar.observing import observation_cycle
from sidecar.observing.observer import observe
from sidecar.servers.connection.server_reading import ServerReading
from solver_lambda.documents.curve import FloatArray, MissRatioCurve
from solver_lambda.documents.observation import Observation
from tests.sidecar.control.test_modes import MB, MORE, sizes, wait_for
from tests.sidecar.daemon.test_closed_loop import Load
from tests.sidecar.fixtures import Servers, StartServer, WriteNode
from workloads.local_node import sidecar_in_thread


@pytest.fixture
def servers(start_server: StartServer) -> Servers:
    # What the second one needs it has.
    return {"s0": start_server("3mb"), "s1": start_server("21mb")}


@pytest.fixture
def path(write_node: WriteNode, servers: Servers, monkeypatch: pytest.MonkeyPatch) -> Path:
    # Cycles come fast, and a wait of some cycles is an hour's.
    monkeypatch.setattr(observation_cycle, "STEPS_A_CYCLE", 7200)
    more = MORE.replace('maximum_age = "6s"', 'maximum_age = "1h"')
    return write_node(servers, budget="24mb", memory='rss_wait = "0s"', more=more)


class Tampering:
    """Swaps what the sidecar sees of the two servers, once each time that it is ``armed``: where
    only the planner is deceived, its plan is refused."""

    def __init__(self) -> None:
        self.armed = False

    def observe(self, *seen: Any, **more: Any) -> Observation:
        observation = observe(*seen, **more)
        if self.armed:
            self.armed = False
            flat = MissRatioCurve(np.array([1.0 * MB, 2.0 * MB]), np.array([0.5, 0.01]))
            steep = MissRatioCurve(np.array([3.0 * MB, 20.0 * MB]), np.array([0.9, 0.0]))
            said = {"s0": steep, "s1": flat}
            observation = replace(
                observation,
                servers=tuple(replace(one, curve=said[one.name]) for one in observation.servers),
            )
        return observation


def warm(sidecar: Sidecar) -> bool:
    """The curve of the second server is known."""
    observation = sidecar.last_observation
    if observation is None:
        return False
    server = observation.servers[1]
    return server.keep_reason is None and (server.miss_ratio or 1.0) < 0.4


def test_a_plan_by_a_curve_that_was_tampered_with_is_taken_back_within_one_window(
    path: Path, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    tampering = Tampering()
    monkeypatch.setattr(observation_cycle, "observe", tampering.observe)
    with Load(list(servers.values())), sidecar_in_thread(path) as sidecar:
        wait_for(lambda: warm(sidecar), sidecar)
        taken = sidecar.cycles
        tampering.armed = True
        wait_for(lambda: not tampering.armed and sizes(servers)["s1"] < 10 * MB, sidecar)
        wait_for(lambda: sidecar.metrics.value("plans_checked", verdict="rolled_back"), sidecar)
        assert sidecar.cycles <= taken + 3
        wait_for(lambda: sizes(servers)["s1"] > 15 * MB and sidecar._actuator.settled, sidecar)
        status = sidecar.status()
        assert status["last_check"]["verdict"] == "rolled_back"
        # Only one has lost by it: it waits, and it got back what the other one had got.
        assert status["wait"] is None
        assert status["servers"][1]["wait"]["failures"] == 1
        # And no other plan is carried out for now.
        cycles, after = sidecar.cycles, sizes(servers)
        wait_for(lambda: sidecar.cycles >= cycles + 2, sidecar)
        assert sizes(servers) == after
        assert sum(after.values()) == 24 * MB  # the budget
    told = read_history(history_path(path.parent / "state.json"))
    (rollback,) = [entry for entry in told if entry["kind"] == "rollback"]
    assert "it did harm: since plan " in rollback["words"]
    assert "most by s1, whose hit ratio is" in rollback["words"]
    assert "s1 alone goes back, to " in rollback["words"]
    assert "; it waits until " in rollback["words"]
    assert rollback["observed_seconds"] > rollback["without_seconds"] + rollback["error_seconds"]


@pytest.mark.parametrize(
    "order",
    [Order("pause", "ann"), Order("rollback", "ann", to="installation")],
    ids=["pause", "installation"],
)
def test_a_check_sets_nothing_after_somebody_has_said_stop(
    path: Path, servers: Servers, monkeypatch: pytest.MonkeyPatch, order: Order
) -> None:
    tampering = Tampering()
    monkeypatch.setattr(observation_cycle, "observe", tampering.observe)
    with Load(list(servers.values())), sidecar_in_thread(path) as sidecar:
        wait_for(lambda: warm(sidecar), sidecar)
        tampering.armed = True
        wait_for(
            lambda: not tampering.armed and sidecar.status()["last_plan"]["carried_out"], sidecar
        )
        sidecar.order(order)
        after, cycles = sizes(servers), sidecar.cycles
        wait_for(lambda: sidecar.cycles >= cycles + 3, sidecar)
        assert sizes(servers) == after
        assert not sidecar.status()["sets_sizes"]


class AllHits(ReadCounts):
    """More reads than any server counts were sampled, and no size misses one."""

    def reads(self, half_life: HalfLife | None) -> float:
        return 1e12

    def misses(
        self, sizes_bytes: FloatArray, half_life: HalfLife | None, *, by_group: bool = False
    ) -> FloatArray:
        return np.zeros_like(sizes_bytes)


class Liar:
    """S2 says that it misses a million reads each time that it is asked, and its sampler that all
    hit, once it has grown; until that has been believed."""

    def __init__(self) -> None:
        self.misses = 0
        self.before: dict[str, int] = {}
        self.now: dict[str, int] = {}
        self.after: dict[str, int] = {}

    def readings(
        self, verification: PlanRollback, readings: Mapping[str, ServerReading | None]
    ) -> dict[str, ServerReading | None]:
        before, now = verification._before_bytes, verification._store.now.targets_bytes
        reading = readings.get("s2")
        has_grown = verification._outcome is not None and now["s2"] > before["s2"]
        if self.after or not has_grown or reading is None:
            return dict(readings)
        self.misses += 1_000_000
        self.before = dict(before)
        lie = replace(reading, keyspace_misses=reading.keyspace_misses + self.misses)
        return {**readings, "s2": lie}


def test_one_whose_counters_lie_goes_back_alone(
    start_server: StartServer, write_node: WriteNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = {"s0": start_server("16mb"), "s1": start_server("4mb"), "s2": start_server("4mb")}
    monkeypatch.setattr(observation_cycle, "STEPS_A_CYCLE", 7200)
    path = write_node(
        servers,
        budget="24mb",
        memory='rss_wait = "0s"',
        more=MORE.replace('maximum_age = "6s"', 'maximum_age = "1h"'),
    )
    liar = Liar()
    look, back_to = PlanRollback.take_readings, Enforcement.back_to
    step = PlanRollback.step

    def lie(verification: PlanRollback, readings: Mapping[str, ServerReading | None]) -> None:
        look(verification, liar.readings(verification, readings))

    def lie_in_samples(
        verification: PlanRollback, counts: Mapping[str, ReadCounts], seconds: float
    ) -> None:
        lies = {"s2": AllHits()} if liar.misses and not liar.after else {}
        step(verification, {**counts, **lies}, seconds)

    def note(
        enforcement: Enforcement,
        wanted: Mapping[str, int],
        purpose: str,
        way: Mapping[str, int] | None = None,
    ) -> dict[str, int]:
        liar.now = dict(enforcement._store.now.targets_bytes)
        liar.after = back_to(enforcement, wanted, purpose, way)
        return liar.after

    monkeypatch.setattr(PlanRollback, "take_readings", lie)
    monkeypatch.setattr(PlanRollback, "step", lie_in_samples)
    monkeypatch.setattr(Enforcement, "back_to", note)
    with Load(list(servers.values()), (400, 40_000, 40_000)), sidecar_in_thread(path) as sidecar:
        wait_for(lambda: sidecar.metrics.value("plans_checked", verdict="rolled_back"), sidecar)
        assert liar.after == {**liar.now, "s2": liar.before["s2"]}
        # The others go on being planned, and get what it has given back. It does so in steps.
        wait_for(lambda: sizes(servers)["s1"] > liar.now["s1"], sidecar)
        wait_for(lambda: sizes(servers)["s2"] == liar.before["s2"], sidecar)
        status = sidecar.status()
        assert status["wait"] is None
        assert [bool(one["wait"]) for one in status["servers"]] == [False, False, True]
        assert status["servers"][2]["keep_reason"].startswith("waits: it alone made plan ")
    told = read_history(history_path(path.parent / "state.json"))
    (rollback,) = [entry for entry in told if entry["kind"] == "rollback"]
    assert "s2 alone goes back, to " in rollback["words"]
    # The wait is still there after a restart, and an order ends it.
    with sidecar_in_thread(path) as sidecar:
        assert sidecar.status()["servers"][2]["wait"]["failures"] == 1
        done = sidecar.order(Order("resume", "ann", server="s2"))
        assert done == "s2 takes part in plans again; nothing changes until the next plan"
        assert sidecar.status()["servers"][2]["wait"] is None

"""The handover on real servers: memory goes to who fills it, and what nobody fills stays."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.cli import main
from sidecar.control.enforcement import Enforcement
from sidecar.servers.budget_keeper import BudgetKeeper
from sidecar.servers.sizes import intermediate_sizes, pace
from sidecar.state.control_state import ControlState, Hold
from sidecar.state.room_made import RoomMade
from sidecar.state.state_store import StateStore
from tests.sidecar.actuated_node import BUDGET, MB, ActuatedNode, fill, write
from tests.sidecar.fixtures import MakeNode, Servers, StartServer, WriteNode
from workloads.local_node import sidecar_in_thread, wait_until
from workloads.local_server import settled_sizes


@pytest.fixture
def looks_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intermediate_sizes, "LOOK_SECONDS", 0.0)


@pytest.fixture
def node(make_node: MakeNode, looks_each_step: None) -> ActuatedNode:
    """A donor that uses most of what it has, a grower that does not, and a plan for 12 MB."""
    node = make_node("24mb", "24mb", gradual=True)
    fill(node.servers["s0"], 18)
    fill(node.servers["s1"], 10)
    node.actuator.set_targets({"s0": 24 * MB, "s1": 24 * MB}, "as they are")
    node.settle()
    node.actuator.set_targets({"s0": 12 * MB, "s1": 36 * MB}, "plan")
    return node


def _keys(node: ActuatedNode, name: str) -> int:
    return int(node.servers[name].client.dbsize())


def test_who_does_not_fill_takes_nothing(
    node: ActuatedNode, caplog: pytest.LogCaptureFixture
) -> None:
    keys = _keys(node, "s0")
    with caplog.at_level(logging.INFO):
        for _ in range(20):
            node.actuator.step()
    assert node.actuator.settled
    assert node.maxmemory() == {"s0": 24 * MB, "s1": 24 * MB}
    assert _keys(node, "s0") == keys
    assert node.actuator.targets() == {"s0": 12 * MB, "s1": 36 * MB}
    assert node.actuator.under_way() == {"s0": 12 * MB, "s1": 36 * MB}
    assert not node.store.now.settled
    (said,) = [text for text in caplog.messages if text.startswith("plan: servers")]
    assert "s0 24 MiB (planned 12 MiB, gives as others fill)" in said
    assert "s1 24 MiB (planned 36 MiB, gets the rest as it fills)" in said


def test_the_first_plan_is_handed_over_as_well(make_node: MakeNode, looks_each_step: None) -> None:
    """It was taken at once: a server lost 10 MiB of what it used within seconds, for one that had
    not filled half of it minutes later."""
    node = make_node("24mb", "24mb", gradual=True)
    fill(node.servers["s0"], 18)
    fill(node.servers["s1"], 10)
    keys = _keys(node, "s0")
    node.actuator.watch()
    node.actuator.read_all()
    enforcement = Enforcement(node.config, node.store, node.actuator)
    enforcement.move({"s0": 12 * MB, "s1": 36 * MB}, "plan", None)
    assert node.store.now.control.engaged
    for _ in range(20):
        node.actuator.step()
    assert node.maxmemory() == {"s0": 24 * MB, "s1": 24 * MB}
    assert _keys(node, "s0") == keys
    assert node.actuator.targets() == {"s0": 12 * MB, "s1": 36 * MB}


def test_a_rollback_does_not_lead_into_the_middle_of_a_handover(node: ActuatedNode) -> None:
    enforcement = Enforcement(node.config, node.store, node.actuator)
    node.actuator.step()
    found = {"s0": 24 * MB, "s1": 24 * MB}
    assert enforcement.sizes_in_force() == enforcement.sizes_to_come_back_to() == found
    with node.store.update() as state:
        state.control = replace(state.control, engaged=True)
    assert enforcement.sizes_in_force() == found
    assert enforcement.sizes_to_come_back_to() == {"s0": 12 * MB, "s1": 36 * MB}
    with node.store.update() as state:
        held = {"s0": Hold(24 * MB, 1.0)}
        state.control = replace(state.control, held=held)
    assert enforcement.sizes_to_come_back_to() == {"s0": 24 * MB, "s1": 36 * MB}


def test_with_the_installations_sizes_nothing_of_a_plan_is_left(node: ActuatedNode) -> None:
    """What others had made room for then was shared out as that plan had it, when it was over."""
    enforcement = Enforcement(node.config, node.store, node.actuator)
    planned, made = {"s0": 12 * MB, "s1": 36 * MB}, {"s0": 10 * MB, "s1": 38 * MB}
    installed = {"s0": 24 * MB, "s1": 24 * MB}
    with node.store.update() as state:
        state.control = replace(state.control, engaged=True, installed_bytes=installed)
        state.room = RoomMade(planned, made, {}, {"s1": 38 * MB})
        state.before_fall_bytes = planned
    assert enforcement.give_back() == (installed, {})
    assert node.maxmemory() == installed
    assert (node.store.now.room, node.store.now.before_fall_bytes) == (None, {})


def test_who_fills_ends_at_the_targets_and_the_log_tells_of_begin_and_end(
    node: ActuatedNode, caplog: pytest.LogCaptureFixture
) -> None:
    greatest = 0
    with caplog.at_level(logging.INFO):
        for key in range(0, 3_000_000, 300):
            node.actuator.step()
            greatest = max(greatest, sum(node.maxmemory().values()))
            if node.maxmemory() == {"s0": 12 * MB, "s1": 36 * MB}:
                break
            write(node.servers["s1"], range(key, key + 300), "new")
        node.settle()
    assert node.maxmemory() == {"s0": 12 * MB, "s1": 36 * MB}
    assert greatest <= BUDGET
    assert node.store.now.settled
    assert node.actuator.under_way() == {}
    assert node.knob("s0", "maxmemory-eviction-tenacity") == "10"
    begin, *between, end = [text for text in caplog.messages if text.startswith("plan: servers")]
    # A machine that stands still for a second is told too.
    assert all("out of reach" in text for text in between)
    assert "on the way to their sizes" in begin
    assert "at their sizes: s0 12 MiB, s1 36 MiB" in end
    for name in ("s0", "s1"):
        assert 5 <= node.metrics.value("config_set_maxmemory", instance=name) <= 60


@pytest.mark.parametrize("size", ["0", "8mb", "40mb"])
@pytest.mark.parametrize("name", ["s0", "s1"])
def test_a_change_by_hand_is_put_back_to_what_the_server_had_been_given(
    node: ActuatedNode, name: str, size: str
) -> None:
    node.actuator.step()
    node.servers[name].client.config_set("maxmemory", size)
    node.step_until(lambda: node.maxmemory() == {"s0": 24 * MB, "s1": 24 * MB})


def test_a_donor_that_refuses_keeps_its_own_and_the_other_gets_what_is_left(
    make_node: MakeNode, looks_each_step: None
) -> None:
    node = make_node("24mb", "20mb", gradual=True)
    node.servers["s0"].client.config_set("maxmemory-policy", "noeviction")
    fill(node.servers["s1"], 24)
    node.actuator.set_targets({"s0": 24 * MB, "s1": 20 * MB}, "as they are")
    node.settle()
    node.actuator.set_targets({"s0": 12 * MB, "s1": 36 * MB}, "plan")
    for key in range(0, 12_000, 600):
        node.actuator.step()
        write(node.servers["s1"], range(key, key + 600), "new")
    node.settle()
    assert node.maxmemory() == {"s0": 24 * MB, "s1": 24 * MB}
    assert node.store.now.settled


def test_memory_that_one_holds_above_its_limit_is_no_reason_to_give(
    make_node: MakeNode, looks_each_step: None
) -> None:
    """One large value that nothing evicts: nobody else may have that memory, whoever gives."""
    node = make_node("16mb", "24mb", "24mb", gradual=True, budget="64mb")
    node.servers["s0"].client.config_set("maxmemory-policy", "noeviction")
    fill(node.servers["s1"], 18)
    fill(node.servers["s2"], 10)
    node.settle(16, 24, 24)
    keys = _keys(node, "s1")
    node.want(16, 14, 34)
    node.servers["s0"].client.setrange("large", 60_000_000, "x")
    node.step_until(lambda: node.actuator.states()[0].held_bytes > 60_000_000)
    node.settle()
    assert node.maxmemory() == {"s0": 16 * MB, "s1": 24 * MB, "s2": 24 * MB}
    assert _keys(node, "s1") == keys
    # Who fills waits until that memory is free; then the plan goes on.
    for key in range(0, 30_000, 600):
        node.actuator.step()
        assert node.maxmemory()["s2"] == 24 * MB
        assert node.maxmemory()["s1"] > 20 * MB
        write(node.servers["s2"], range(key, key + 600), "new")
    node.servers["s0"].client.delete("large")
    written = iter(range(0, 10**9, 300))

    def there() -> bool:
        write(node.servers["s2"], range(key := next(written), key + 300), "newer")
        return node.maxmemory() == {"s0": 16 * MB, "s1": 14 * MB, "s2": 34 * MB}

    assert node.step_until(there) <= 64 * MB


def test_room_for_what_cannot_be_evicted_leaves_the_others_on_their_way(
    make_node: MakeNode, looks_each_step: None
) -> None:
    node = make_node("16mb", "16mb", "16mb", gradual=True)
    fill(node.servers["s0"], 12)
    node.actuator.set_targets(dict.fromkeys(node.servers, 16 * MB), "as they are")
    node.settle()
    node.actuator.set_targets({"s0": 8 * MB, "s1": 37 * MB, "s2": 3 * MB}, "plan")
    for number in range(3):
        node.servers["s2"].client.script_load(f"return {number} --" + "x" * MB)
    node.step_until(lambda: node.actuator.too_small and node.actuator.settled)
    keeper = BudgetKeeper(node.actuator, node.store, node.metrics, lambda *_: None)
    keeper.keep(node.config.servers)
    targets = node.actuator.targets()
    assert targets["s2"] > 4 * MB
    assert targets["s1"] > 32 * MB
    assert sum(targets.values()) <= BUDGET
    keys = _keys(node, "s0")
    node.settle()
    assert min(node.maxmemory().values()) >= 16 * MB - 3  # a whole number of bytes each
    assert _keys(node, "s0") == keys


MORE = '[controller]\nkind = "embedded"\n[cycle]\nmaximum_age = "1s"\nsamples = 1000000000\n'


@pytest.fixture
def servers(start_server: StartServer) -> Servers:
    """The first uses most of what it has."""
    servers = {"donor": start_server("12mb"), "grower": start_server("12mb")}
    fill(servers["donor"], 9)
    return servers


@pytest.fixture
def path(write_node: WriteNode, servers: Servers) -> Path:
    """Write the file of a node whose sidecar was interrupted on the way."""
    path = write_node(servers, budget="24mb", more=MORE)
    with StateStore(path.parent / "state.json").update() as state:
        state.targets_bytes = {"donor": 8 * MB, "grower": 16 * MB}
        state.settled = False
        state.first_bytes = {"donor": 13 * MB, "grower": 11 * MB}
        state.control = ControlState(engaged=True)
    return path


def test_an_interrupted_sidecar_goes_on_and_its_observations_tell_what_is_planned(
    path: Path, servers: Servers, capsys: pytest.CaptureFixture[str]
) -> None:
    targets = {"donor": 8 * MB, "grower": 16 * MB}
    keys = servers["donor"].client.dbsize()
    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: sidecar.cycles, sidecar.metrics.snapshot)
        observation = sidecar.last_observation
        assert observation is not None
        assert observation.in_force_bytes == targets
        assert sidecar._store.now.first_bytes == {"donor": 13 * MB, "grower": 11 * MB}
        assert settled_sizes(servers) == {"donor": 12 * MB, "grower": 12 * MB}
        assert servers["donor"].client.dbsize() == keys
        assert main(["status", "--verbose", str(path)]) == 0
        printed = capsys.readouterr().out
        assert "donor: planned 8 MiB, has 12 MiB: gives as others fill" in printed
        assert "grower: planned 16 MiB, has 12 MiB: gets the rest as it fills" in printed
    # Once more.
    with sidecar_in_thread(path) as sidecar:
        written = iter(range(0, 10**9, 100))

        def there() -> bool:
            write(servers["grower"], range(key := next(written), key + 100), "new")
            return settled_sizes(servers) == targets

        wait_until(there, sidecar.metrics.snapshot)
        wait_until(lambda: sidecar._store.now.settled, sidecar.metrics.snapshot)

        def told() -> str:
            capsys.readouterr()
            assert main(["status", str(path)]) == 0
            return capsys.readouterr().out

        # It says what was read last.
        wait_until(lambda: "planned" not in told(), told)


def test_what_is_given_in_portions_counts_as_given(
    path: Path, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan that was made meanwhile found the sizes above the budget, and changed them."""
    for name in ("KEYS_PER_SECOND", "SIZE_RATIO_PER_SECOND", "LEAST_BYTES_PER_SECOND"):
        monkeypatch.setattr(pace, name, 1e-6)
    fill(servers["donor"], 16)  # it is full
    targets = {"donor": 8 * MB, "grower": 16 * MB}
    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: sidecar.cycles, sidecar.metrics.snapshot)
        sidecar._actuator.engage(targets, targets, "test")
        wait_until(lambda: sidecar._actuator.pace.is_waiting, sidecar.metrics.snapshot)
        before = sidecar.cycles
        wait_until(lambda: sidecar.cycles > before + 1, sidecar.metrics.snapshot)
        observation = sidecar.last_observation
        assert observation is not None
        assert settled_sizes(servers)["donor"] > 11 * MB
        assert observation.in_force_bytes == targets
        assert sidecar._actuator.targets() == targets


def test_one_of_which_too_little_is_known_goes_on_giving_as_the_others_fill(
    path: Path, servers: Servers
) -> None:
    """A plan that leaves it what is planned for it took that at once, after a restart."""
    path.write_text(path.read_text().replace('backend_latency = "50ms"\n', ""))
    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: sidecar.cycles >= 2, sidecar.metrics.snapshot)
        assert sidecar.last_observation is not None
        kept = {one.name: one.keep_reason for one in sidecar.last_observation.servers}
        assert all(str(reason).startswith("no_backend_latency") for reason in kept.values())
        wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
        assert settled_sizes(servers) == {"donor": 12 * MB, "grower": 12 * MB}
        assert sidecar._actuator.targets() == {"donor": 8 * MB, "grower": 16 * MB}


@pytest.mark.parametrize("found", ["0", "20mb"])
def test_a_sidecar_that_finds_more_than_the_budget_does_not_wait(
    path: Path, servers: Servers, found: str
) -> None:
    servers["grower"].client.config_set("maxmemory", found)
    with sidecar_in_thread(path) as sidecar:
        wait_until(
            lambda: settled_sizes(servers) == {"donor": 8 * MB, "grower": 16 * MB},
            sidecar.metrics.snapshot,
        )


def test_who_would_refuse_writes_does_not_wait_for_its_turn(
    path: Path, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intermediate_sizes, "LOOK_SECONDS", 3600.0)
    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
        # Scripts cannot be evicted: first they fit into its plan, then they do not.
        for scripts in (10, 12):
            for number in range(scripts):
                servers["grower"].client.script_load(f"return {number} --" + "x" * MB)
            used = servers["grower"].client.info()["used_memory"]
            wait_until(
                lambda used=used: settled_sizes(servers)["grower"] > used, sidecar.metrics.snapshot
            )
            assert sum(settled_sizes(servers).values()) <= 24 * MB

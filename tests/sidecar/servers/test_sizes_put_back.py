"""A size set by hand that leaves the others too little is put back, however often it is set, and
costs the others nothing; a server that hangs counts with what it has."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sidecar.base.metrics import Metrics
from sidecar.config.node import ServerConfig
from sidecar.servers import back_off
from sidecar.servers.budget_keeper import _MOST_AT_ONCE, BudgetKeeper
from sidecar.servers.sizes.budget_fit import unmovable_bytes
from sidecar.servers.sizes.reserved_memory import (
    not_put_back,
    on_the_way,
    reserved_by_server,
    to_put_back,
)
from sidecar.servers.sizes.transitions import ServerState
from sidecar.state.room_made import RoomMade
from sidecar.state.state_store import Note, StateStore
from tests.sidecar.actuated_node import MB, fill
from tests.sidecar.fixtures import StartServer, WriteNode
from tests.sidecar.three_servers import THIRD, ThreeServers
from workloads.experiment.faults.model.model_server import MIB
from workloads.experiment.faults.model.model_stage import BUDGET_BYTES
from workloads.local_node import sidecar_in_thread, wait_until
from workloads.local_server import LocalServer, settled_sizes


def test_what_somebody_sets_over_and_over_is_put_back_and_takes_nothing(
    three: ThreeServers,
) -> None:
    for pause_seconds in (12, 20, 1, 1, 0.1, 0.1, 5, 70, 12):
        three.stage.set_by_hand(0, 46)
        three.stage.wait(pause_seconds)
        assert three.sizes[0] == THIRD or pause_seconds < 1
    three.stage.wait(2)
    assert three.sizes == [THIRD] * 3
    assert three.least_bytes == [THIRD] * 3
    assert set(three.actuator.targets().values()) == {THIRD}
    assert three.actuator.kept() == {}


def test_who_reads_it_first_knows_that_it_is_put_back(three: ThreeServers) -> None:
    three.stage.wait(2)
    three.stage.set_by_hand(0, 46)
    three.actuator.read_all()  # as an observation does, between two steps
    assert to_put_back(three.actuator.states()) == {"s0": THIRD}


@pytest.mark.parametrize("how", ["refuses", "hangs"])
def test_while_it_cannot_be_put_back_the_others_keep_theirs(three: ThreeServers, how: str) -> None:
    before = three.metrics.value("budgets_exceeded")
    if how == "refuses":
        three.stage.refuse(0)
        three.stage.set_by_hand(0, 46)
    else:
        three.stage.set_by_hand(0, 46)
        three.stage.hang_server(0)
    three.stage.wait(10)
    assert three.sizes == [46 * MIB, THIRD, THIRD]
    assert three.least_bytes == [THIRD] * 3
    assert three.metrics.value("budgets_exceeded") == before + 1
    three.stage.accept(0)
    three.stage.wake_server(0)
    three.stage.wait(30)
    assert three.sizes == [THIRD] * 3
    assert three.least_bytes == [THIRD] * 3


def test_who_hangs_counts_with_what_it_has(three: ThreeServers) -> None:
    three.stage.servers[0].hang()
    three.stage.plan(1, 3, 5)
    three.stage.wait(3)
    assert three.sizes == [THIRD] * 3
    planned = three.actuator.targets()
    three.stage.policy(1, "noeviction")
    three.stage.set_by_hand(1, 24)
    three.stage.wait(3)
    assert three.sizes == [THIRD, 24 * MIB, BUDGET_BYTES - THIRD - 24 * MIB]
    three.stage.wake_server(0)
    three.stage.wait(5)
    # What is left beside s1: who has less than half of an equal share gives nothing.
    targets = three.actuator.targets()
    assert targets["s1"] == 24 * MIB
    assert BUDGET_BYTES - 2 <= sum(targets.values()) <= BUDGET_BYTES
    assert targets["s0"] == planned["s0"] < THIRD // 2
    assert sum(three.sizes) <= BUDGET_BYTES


def kept(
    *states: ServerState,
    least: dict[str, int] | None = None,
    room: RoomMade | None = None,
    too_small: str = "",
    times: int = 1,
    store: StateStore | None = None,
) -> dict[str, int] | None:
    """The targets that the keeper gives beside these, if it gives any; in MiB."""
    given: list[dict[str, int]] = []
    store = store or StateStore(None)
    with store.update() as state:
        state.room = room

    def take(sizes: dict[str, int], note: Note) -> None:
        given.append(sizes)
        with store.update() as state:
            note(state)

    actuator: Any = SimpleNamespace(
        looks_on=False,
        settled=True,
        budget=SimpleNamespace(bytes=48 * MB, ceiling_bytes=48 * MB),
        readings={},
        fitted=[],
        latest=states,
        latest_least_bytes={name: size * MB for name, size in (least or {}).items()},
        too_small=set(too_small),
        targets=lambda: {one.name: one.target_bytes for one in states},
        set_targets=lambda sizes, _why, note: take(sizes, note),
        engage=lambda sizes, _targets, _why, note: take(sizes, note),
    )
    configs = [ServerConfig(state.name, "", minimum_bytes=2 * MB) for state in states]
    keeper = BudgetKeeper(actuator, store, Metrics(), lambda *_: None)
    for _ in range(times):
        keeper.keep(configs)
    assert len(given) in (0, 1, min(times, _MOST_AT_ONCE))
    return {name: size // MB for name, size in given[0].items()} if given else None


def server(name: str, size: float, target: int, **more: bool) -> ServerState:
    return ServerState(name, size * MB, 0, target * MB, **more)


def test_room_that_is_perhaps_being_filled_is_not_given_back() -> None:
    """One that hung after it had needed less was cut to its first size as soon as it answered: keys
    that it had taken meanwhile were evicted."""
    first, made = dict.fromkeys("abc", 16 * MB), {"a": 32 * MB, "b": 8 * MB, "c": 8 * MB}
    a, others = server("a", 32, 32), (server("b", 8, 8), server("c", 8, 8))
    room = RoomMade(first, made, {}, {"a": 30 * MB})
    assert kept(replace(a, reachable=False), *others, least={"a": 2}, room=room) is None
    assert kept(a, *others, least={"a": 2}, room=room) == {"a": 16, "b": 16, "c": 16}


def test_room_that_goes_back_beside_a_size_set_by_hand_is_not_forgotten_for_that_one() -> None:
    """It kept its size for good, also after `resume`, and a ninth of the budget was nobody's."""
    first, made = dict.fromkeys("abc", 16 * MB), {"a": 32 * MB, "b": 8 * MB, "c": 8 * MB}
    room, store = RoomMade(first, made, {}, {"a": 30 * MB}), StateStore(None)
    held = server("b", 6, 8, held=True)
    states = server("a", 32, 32), held, server("c", 8, 8)
    assert kept(*states, least={"a": 2}, room=room, store=store) == {"a": 16, "b": 6, "c": 16}
    left = store.now.room
    assert left is not None
    assert left.before_bytes == first
    states = server("a", 16, 16), server("b", 6, 6), server("c", 16, 16)
    assert kept(*states, least={"a": 2}, room=left) == {"a": 16, "b": 16, "c": 16}


def test_where_servers_are_brought_is_told_whatever_they_had_as_they_were_read() -> None:
    """One that had just given was counted with what it had a moment before, beside one that gets
    it: the sizes seemed to exceed the budget, and a plan changed them."""
    given, gets = server("a", 8, 8), server("b", 13, 16)
    unmoved = server("c", 9, 8, evicts=False), server("d", math.inf, 8)
    assert on_the_way([given, gets, *unmoved]) == {"a": 8 * MB, "b": 16 * MB}


def test_two_that_need_more_than_there_is_do_not_take_it_from_each_other_each_second() -> None:
    """Eight settings a second, as many lines in the log, and a history that told nothing else."""
    servers = server("a", 16, 16), server("b", 16, 16), server("c", 16, 16)
    given = kept(*servers, least={"a": 30, "b": 30}, too_small="ab", times=3 * _MOST_AT_ONCE)
    assert given == {"a": 20, "b": 20, "c": 8}


def test_beside_one_that_hangs_the_others_give_but_keep_what_they_need() -> None:
    b, c = server("b", 16, 16), server("c", 16, 16)

    def hung(size: float) -> ServerState:
        return server("a", size, 16, reachable=False)

    assert kept(hung(16), b, c) is None
    assert kept(hung(20), b, c) == {"a": 16, "b": 14, "c": 14}
    assert kept(hung(46), b, c) == {"a": 16, "b": 2, "c": 2}
    assert kept(hung(46), b, c, least={"b": 10}) == {"a": 16, "b": 10, "c": 2}
    # Of one that was never seen nothing is known.
    assert kept(hung(math.inf), b, c) is None
    # Nor does one that others are cut for already.
    fixed = server("b", 20, 16, evicts=False)
    assert kept(hung(24), fixed, c) == {"a": 16, "b": 20, "c": 4}
    assert kept(hung(30), fixed, c) == {"a": 16, "b": 20, "c": 2}


def test_what_is_to_be_put_back_counts_with_what_is_planned() -> None:
    b, c = server("b", 16, 16), server("c", 16, 16)
    for how in ({"refuses": True}, {"reachable": False}):
        for size in (46, math.inf):
            state = server("a", size, 16, contested=True, **how)
            assert kept(state, b, c) is None
            assert reserved_by_server([state]) == to_put_back([state]) == {"a": 16 * MB}
            assert unmovable_bytes([state]) == {}
            assert "cannot be put back" in not_put_back([state])["a"]
    # Who may have more for any other reason has it.
    assert kept(server("a", 24, 16, refuses=True), b, c) == {"a": 24, "b": 12, "c": 12}


KEYS = 8 * 1024


@pytest.mark.parametrize(("by_hand", "setting"), [("46mb", "hold"), ("24mb", "put_back")])
def test_real_servers_keep_their_keys_beside_one_that_somebody_keeps_setting(
    write_node: WriteNode,
    start_server: StartServer,
    caplog: pytest.LogCaptureFixture,
    by_hand: str,
    setting: str,
) -> None:
    servers = {name: start_server("16mb") for name in "abc"}
    for server in servers.values():
        fill(server, 8)
    path = write_node(servers, memory=f'rss_wait = "0s"\nset_by_hand = "{setting}"')

    def sizes() -> list[int]:
        return list(settled_sizes(servers).values())

    with caplog.at_level(logging.WARNING), sidecar_in_thread(path) as sidecar:
        wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
        for times in range(1, 5):
            servers["a"].client.config_set("maxmemory", by_hand)
            wait_until(
                lambda times=times: sidecar.metrics.value("foreign_changes") == times,  # type: ignore[misc]
                sidecar.metrics.snapshot,
            )
            wait_until(lambda: sizes()[0] == 16 * MB, sidecar.metrics.snapshot)
            # It reads back what it has set; a hand just then is told as a refusal.
            wait_until(
                lambda: sidecar._actuator.readings["a"].maxmemory_bytes == 16 * MB,
                sidecar.metrics.snapshot,
            )
            assert sizes() == [16 * MB] * 3
            told = [words for words in sidecar.status()["problems"] if "keeps setting" in words]
            assert len(told) == (times > 1)
        assert set(sidecar._actuator.targets().values()) == {16 * MB}
        assert sidecar.status()["servers"][0]["held"] is None
    assert all(server.client.dbsize() == KEYS for server in servers.values())
    told = [text for text in caplog.messages if "by hand" in text]
    assert len(told) == 4
    assert all("put back now" in text for text in told)
    assert told[-1].endswith("(4 times in a row)")


def _three_filled(
    write_node: WriteNode, start_server: StartServer, filled_mib: int
) -> tuple[dict[str, LocalServer], Path]:
    """Servers of 16 MiB, whose user may be denied what the default one may, and their file."""
    servers = {name: start_server("16mb") for name in "abc"}
    for server in servers.values():
        fill(server, filled_mib)
        server.client.execute_command(
            "ACL", "SETUSER", "spreds", "on", "nopass", "~*", "&*", "+@all"
        )
    path = write_node(
        servers,
        memory='rss_wait = "0s"',
        more='[controller]\nkind = "embedded"\n[cycle]\nmaximum_age = "1s"\n',
        server_keys='username = "spreds"',
    )
    return servers, path


def test_plans_leave_the_others_theirs_while_it_cannot_be_put_back(
    write_node: WriteNode, start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(back_off, "LAST_PAUSE_SECONDS", 1.0)
    servers, path = _three_filled(write_node, start_server, 8)
    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
        servers["a"].client.execute_command("ACL", "SETUSER", "spreds", "-config|set")
        servers["a"].client.config_set("maxmemory", "46mb")
        wait_until(
            lambda: "cannot be put back while it refuses" in " ".join(sidecar.status()["problems"]),
            sidecar.metrics.snapshot,
        )
        cycles = sidecar.cycles
        wait_until(lambda: sidecar.cycles >= cycles + 3, sidecar.metrics.snapshot)
        assert settled_sizes(servers) == {"a": 46 * MB, "b": 16 * MB, "c": 16 * MB}
        observation, plan = sidecar.last_observation, sidecar.last_plan
        assert observation is not None
        assert plan is not None
        assert [one.maxmemory_bytes for one in observation.servers] == [16 * MB] * 3
        assert "refuses" in str(observation.servers[0].keep_reason)
        assert sum(one.maxmemory_bytes for one in plan.servers) <= 48 * MB
        assert sidecar.metrics.value("budgets_exceeded") == 1
        servers["a"].client.execute_command("ACL", "SETUSER", "spreds", "+config|set")
        wait_until(lambda: settled_sizes(servers)["a"] == 16 * MB, sidecar.metrics.snapshot)
        assert settled_sizes(servers) == dict.fromkeys("abc", 16 * MB)
        wait_until(
            lambda: "put back" not in " ".join(sidecar.status()["problems"]),
            sidecar.metrics.snapshot,
        )
    assert all(server.client.dbsize() == KEYS for server in servers.values())


@pytest.mark.parametrize("when", ["while it ran", "while it was down", "before the first start"])
@pytest.mark.parametrize("by_hand", ["900gb", "48mb"])
def test_a_figure_that_makes_no_sense_and_cannot_be_put_back_leaves_each_half_of_an_equal_share(
    write_node: WriteNode, start_server: StartServer, when: str, by_hand: str
) -> None:
    servers, path = _three_filled(write_node, start_server, 6)

    def slip() -> None:
        servers["a"].client.execute_command("ACL", "SETUSER", "spreds", "-config|set")
        servers["a"].client.config_set("maxmemory", by_hand)

    if when == "while it was down":
        with sidecar_in_thread(path) as sidecar:
            wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
    if when != "while it ran":
        slip()
    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
        if when == "while it ran":
            slip()
        wait_until(
            lambda: "cannot be put back while it refuses" in " ".join(sidecar.status()["problems"]),
            sidecar.metrics.snapshot,
        )
        cycles = sidecar.cycles
        wait_until(lambda: sidecar.cycles >= cycles + 2, sidecar.metrics.snapshot)
        sizes = settled_sizes(servers)
        assert min(sizes["b"], sizes["c"]) >= (8 if when == "before the first start" else 16) * MB
    assert all(server.client.dbsize() == 6 * 1024 for server in servers.values())

"""What servers gave for the room that another one took by hand, or by not being movable, they get
back when it is not needed any more: not with the next plan, an hour later."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.base.metrics import Metrics
from sidecar.config.node import ServerConfig
from sidecar.control.order import Order
from sidecar.daemon import Sidecar
from sidecar.servers import server_contact, server_watch, side_by_side
from sidecar.servers.budget_keeper import BudgetKeeper, SizesChange
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.servers.connection.unevictable import HEADROOM_BYTES
from sidecar.servers.sizes.shrink_floor import (
    can_shrink,
    least_size_bytes,
    reached_bytes,
    sizes_without_passing_needs,
)
from sidecar.servers.sizes.transitions import ServerState
from sidecar.servers.sizes.unused_sizes import sizes_with_unused_shared
from sidecar.state.room_made import RoomMade
from sidecar.state.sidecar_state import SidecarState
from sidecar.state.state_store import Note, StateStore
from solver_lambda.documents.reader import DocumentError, Fields
from tests.sidecar.actuated_node import MB, fill
from tests.sidecar.fixtures import MakeNode, StartServer, WriteNode
from tests.sidecar.monitored_load import STATS
from tests.sidecar.three_servers import THIRD, ThreeServers
from workloads.experiment.faults.model.model_server import MIB
from workloads.experiment.faults.model.model_stage import BUDGET_BYTES
from workloads.local_node import WAIT_LIMIT_SECONDS, sidecar_in_thread, wait_until
from workloads.local_server import settled_sizes


def test_beside_one_that_does_not_evict(three: ThreeServers) -> None:
    """It gets more and more, and then evicts again."""
    three.stage.policy(0, "noeviction")
    for size, others in ((36, 6), (40, 4)):
        three.stage.set_by_hand(0, size)
        three.stage.wait(10)
        assert three.sizes == [size * MIB, others * MIB, others * MIB]
    three.stage.policy(0, "allkeys-lru")
    three.stage.wait(60)
    assert set(three.actuator.targets().values()) == {THIRD}
    assert three.sizes == [THIRD] * 3


def test_beside_one_that_hung_with_more_than_it_is_to_have(three: ThreeServers) -> None:
    three.stage.hang_server(0)
    three.stage.plan(1, 3, 5)
    three.stage.wait(3)
    planned = three.actuator.targets()
    three.stage.wake_server(0)
    three.stage.wait(60)
    assert three.actuator.targets() == planned
    assert sum(three.sizes) <= BUDGET_BYTES


def test_a_plan_since_then_is_what_counts(three: ThreeServers) -> None:
    three.stage.policy(0, "noeviction")
    three.stage.set_by_hand(0, 36)
    three.stage.wait(10)
    made = three.actuator.targets()
    three.actuator.set_targets({"s0": 36 * MIB, "s1": 4 * MIB, "s2": 8 * MIB}, "plan")
    three.stage.wait(10)
    planned = three.actuator.targets()
    assert planned != made
    three.stage.policy(0, "allkeys-lru")
    three.stage.wait(60)
    assert three.actuator.targets() == planned


def told(sidecar: Sidecar) -> str:
    """The last change of sizes for the budget's sake, from the history."""
    words = [
        entry["words"] for entry in sidecar._control.history.tail(9) if entry["kind"] == "budget"
    ]
    return words[-1] if words else ""


@pytest.mark.parametrize("end", ["undone", "resumed", "resumed after a restart"])
def test_a_slip_by_hand_costs_the_others_nothing_for_long(
    write_node: WriteNode, start_server: StartServer, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Who seems to hang for a moment is given the rest only as it fills, and here nobody fills.
    for module in (server_contact, server_watch, side_by_side):
        monkeypatch.setattr(module, "PATIENCE_SECONDS", WAIT_LIMIT_SECONDS)
    servers = {name: start_server("16mb") for name in "abc"}
    for server in servers.values():
        fill(server, 8)
    path = write_node(servers, memory='rss_wait = "0s"')

    def sizes() -> list[int]:
        return list(settled_sizes(servers).values())

    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
        servers["a"].client.config_set("maxmemory", "40mb")
        wait_until(lambda: sizes() == [40 * MB, 4 * MB, 4 * MB], sidecar.metrics.snapshot)
        wait_until(lambda: told(sidecar).startswith("room beside a: "), sidecar.metrics.snapshot)
        assert sidecar._store.now.room is not None
        changes = {one["name"]: one["last_change"] for one in sidecar.status()["servers"]}
        assert changes["b"]["words"] == "room beside a"
        assert (changes["b"]["from_bytes"], changes["b"]["to_bytes"]) == (16 * MB, 4 * MB)
        if end == "undone":
            servers["a"].client.config_set("maxmemory", "16mb")
        elif end == "resumed":
            sidecar.order(Order("resume", "me"))
        if end != "resumed after a restart":
            wait_until(lambda: sizes() == [16 * MB] * 3, sidecar.metrics.snapshot)
            wait_until(
                lambda: told(sidecar).startswith("room that was made is given back: "),
                sidecar.metrics.snapshot,
            )
            assert sidecar._store.now.room is None
            return
    with sidecar_in_thread(path) as sidecar:
        assert sizes() == [40 * MB, 4 * MB, 4 * MB]
        sidecar.order(Order("resume", "me"))
        wait_until(lambda: sizes() == [16 * MB] * 3, lambda: (sizes(), sidecar._store.now))


def test_after_resume_an_observation_does_not_wait_for_the_cycles_end(
    write_node: WriteNode, start_server: StartServer
) -> None:
    """A plan had come while a size was held by hand: what that server did not use of it lay idle
    until the next one."""
    servers = {name: start_server("16mb") for name in "ab"}
    path = write_node(servers, budget="32mb", more='[controller]\nkind = "embedded"\n')
    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
        servers["a"].client.config_set("maxmemory", "20mb")
        wait_until(lambda: sidecar._store.now.control.held, sidecar.metrics.snapshot)
        cycle = sidecar._cycle
        cycle._held_then = frozenset(sidecar._store.now.control.held)
        cycle._observed_at -= cycle.config.cycle.maximum_age_seconds / 10
        assert sidecar.last_observation is None
        sidecar.order(Order("resume", "me", server="a"))
        wait_until(lambda: sidecar.last_observation, sidecar.metrics.snapshot)
        assert not cycle._held_then


def test_a_budget_that_falls_takes_no_room_that_was_made_for_a_need(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same bytes of one client as a need and as resident memory took the others' sizes twice,
    and nobody gave them back, or was told."""
    node = make_node("16mb", "16mb", "16mb")
    node.settle(32, 8, 8)
    with node.store.update() as state:
        first = dict.fromkeys(state.targets_bytes, 16 * MB)
        state.make_room(RoomMade(first, state.targets_bytes, {}, {"s0": 30 * MB}))
    budget = node.actuator.budget

    def falls(*_: object, **__: object) -> None:
        budget.bytes = 24 * MB

    monkeypatch.setattr(budget, "refresh", falls)
    made = node.actuator.targets()
    node.actuator.step()
    halved = dict.fromkeys(made, 8 * MB)
    assert node.actuator.targets() == halved
    told: list[object] = []
    keeper = BudgetKeeper(node.actuator, node.store, node.metrics, lambda *one: told.append(one))
    keeper.keep(node.config.servers)
    assert told == [(made, halved, "the budget fell")]


def test_who_plans_while_the_budget_falls_tries_again(make_node: MakeNode) -> None:
    node = make_node("16mb", "16mb")
    node.settle(16, 16)
    keeper = BudgetKeeper(node.actuator, node.store, node.metrics, lambda *_: None)
    before = node.actuator.targets()
    keeper._set(before, dict.fromkeys(before, 40 * MB), SizesChange("room", None))
    assert node.actuator.targets() == before


def test_what_is_shared_meanwhile_stays_shared_when_room_is_given_back() -> None:
    made = RoomMade({"a": 16, "b": 16, "c": 16}, {"a": 12, "b": 12, "c": 24}, {}, {"c": 20})
    shifted = made.shifted({"a": 20, "b": 4, "c": 24})
    assert shifted.before_bytes == {"a": 24, "b": 8, "c": 16}
    assert shifted.made_bytes == {"a": 20, "b": 4, "c": 24}
    assert shifted.needed_bytes == made.needed_bytes


def test_a_plan_beside_one_that_hangs_does_not_make_what_the_others_gave_forgotten() -> None:
    """An ordinary client made one hang when room was given back: a plan divided what was left, and
    a third of the budget was nobody's until the next one."""
    made = RoomMade({"a": 32, "b": 32, "c": 32}, {"a": 32, "b": 16, "c": 16}, {"a": 64})
    planned = {"a": 32, "b": 12, "c": 20}
    assert made.after(planned) is None
    after = made.after(planned, ["a"])
    assert after == RoomMade({"a": 32, "b": 28, "c": 36}, planned, {"a": 64})
    # It answers, and has no more than it is to have.
    assert after.is_needed_less({}, {"a": 1, "b": 1, "c": 1})


def test_a_restart_amid_a_need_does_not_make_room_forgotten() -> None:
    """What a sidecar began with again was more than an eighth above what had been made, as a
    replica gave meanwhile: that counted for a plan's gift, and nobody got anything back."""
    made = RoomMade({"a": 40, "b": 40, "c": 10}, {"a": 20, "b": 20, "c": 50}, {}, {"c": 60})
    begun = {"a": 12, "b": 12, "c": 66}
    assert made.after(begun) is None
    again = made.begun_again(made.made_bytes, begun)
    assert (again.before_bytes, again.made_bytes) == (made.before_bytes, begun)
    assert again.is_needed_less({}, {"c": 8})
    # Somebody has planned other sizes since, or it is going back.
    assert made.begun_again({"a": 30, "b": 30, "c": 30}, begun) is made
    returned = made.returned(made.before_bytes)
    assert returned is not None
    assert returned.begun_again(returned.made_bytes, begun) is returned


def test_it_is_on_file(tmp_path: Path) -> None:
    made = RoomMade({"a": 16, "b": 16}, {"a": 30, "b": 2}, {"a": 30})
    store = StateStore(tmp_path / "state.json")
    with store.update() as state:
        state.room = made
    assert StateStore(tmp_path / "state.json").now.room == made
    document = {**SidecarState().to_json(), "room": None}
    assert SidecarState.from_json(Fields(document, "state")).room is None
    document["room"] = replace(made, needed_bytes={"c": 5}).to_json()
    with pytest.raises(DocumentError, match=r"room\.before_bytes must have 'c', which needs room"):
        SidecarState.from_json(Fields(document, "state"))


@pytest.mark.parametrize(
    ("told", "gives"),
    [
        ({"taking_commands": ("lpop",)}, True),
        ({"maxmemory_policy": "noeviction"}, False),
        ({"role": "slave", "config": {"replica-ignore-maxmemory": "no"}}, False),
    ],
)
def test_a_store_of_data_gives_nothing_of_what_others_gave(
    told: dict[str, Any], gives: bool
) -> None:
    """Clients can keep a cache from evicting; to make a store of it takes the operator."""
    reading = replace(STATS, counted_bytes=2 * MB, maxmemory_bytes=32 * MB, **told)
    own = {"a": 16 * MB}
    assert not reading.evicts
    assert can_shrink(reading, "a", own, 16 * MB) == gives
    assert (least_size_bytes(reading, "a", own) is not None) == gives
    assert reached_bytes(reading, "a", own, MB) == (2 * MB + HEADROOM_BYTES if gives else MB)
    assert not can_shrink(reading, "a", {}, 16 * MB)


def test_no_plan_goes_by_what_somebody_needs_for_a_while_whatever_else_there_is_room_for() -> None:
    """Beside a server that cannot be given another size, plans went by what a stranger's idle
    connections needed: another cache got two of its sixteen MiB."""
    before = {"a": 32 * MB, "b": 32 * MB, "c": 32 * MB, "r": 0}
    made = {"a": 12 * MB, "b": 24 * MB, "c": 12 * MB, "r": 48 * MB}
    needs = RoomMade(before, made, {}, {"b": 20 * MB})
    assert needs.without_needs == before
    plain = {"a": 16 * MB, "b": 16 * MB, "c": 16 * MB, "r": 48 * MB}
    assert replace(needs, beside_bytes={"r": 48 * MB}).without_needs == plain
    for odd in (1, 7):
        sizes = {**made, "a": 12 * MB - odd, "r": 48 * MB + odd}
        more = RoomMade(before, sizes, {"r": 48 * MB}, {"b": 20 * MB})
        assert sum(more.without_needs.values()) <= 96 * MB
    # Memory that nobody had is taken from nobody.
    half = {name: size // 4 for name, size in before.items()}
    free = RoomMade(half, {**half, "b": 28 * MB, "r": 20 * MB}, {"r": 20 * MB}, {"b": 20 * MB})
    assert free.without_needs == {**half, "r": 20 * MB}
    assert RoomMade(before, made, {"r": 48 * MB}).without_needs == {}
    assert SidecarState(room=needs, targets_bytes=made).without_needs == before
    assert SidecarState(room=needs, targets_bytes=plain).without_needs == {}  # planned since
    assert SidecarState(targets_bytes=made).without_needs == {}


@pytest.mark.parametrize(
    ("needing", "passes"),
    [
        (STATS, True),
        (replace(STATS, role="slave", config={}), True),  # it is to have what it uses
        (replace(STATS, maxmemory_policy="noeviction"), False),
        (None, False),
    ],
)
def test_no_plan_divides_what_one_that_hangs_or_does_not_evict_has_of_the_others(
    needing: ServerReading | None, passes: bool
) -> None:
    """Keys without a TTL were written to a server that evicts only others: each plan went on from
    38 MiB of its neighbour, which had 14, and promised a wait that nobody could have."""
    before = {"pinned": 8 * MB, "big": 38 * MB, "small": 2 * MB}
    made = {"pinned": 32 * MB, "big": 14 * MB, "small": 2 * MB}
    room = RoomMade(before, made, {}, {"pinned": 31 * MB})
    state = SidecarState(room=room, targets_bytes=made)
    readings = {"pinned": needing, "big": STATS, "small": None}
    assert sizes_without_passing_needs(state, readings) == (before if passes else {})
    promoted = replace(state, replicas=("pinned",))
    if needing is STATS:
        assert sizes_without_passing_needs(promoted, readings) == {
            name: size for name, size in before.items() if name != "pinned"
        }
    assert sizes_without_passing_needs(SidecarState(targets_bytes=made), readings) == {}


def test_who_needs_room_gets_nothing_of_what_replicas_do_not_use() -> None:
    """It had all that leaves the others half of an equal share each, and got more: another one fell
    below that."""
    names = ("needing", "replica", "cache")
    before = dict.fromkeys(names, 32 * MB)
    targets = {"needing": 64 * MB, "replica": 16 * MB, "cache": 16 * MB}
    store = StateStore(None)
    with store.update() as state:
        state.targets_bytes = targets
        state.room = RoomMade(before, targets, {}, {"needing": 63 * MB})
        state.replicas = ("replica",)
    readings = dict.fromkeys(names, STATS)
    servers = [ServerConfig(name, "", minimum_bytes=2 * MB) for name in names]
    least = {"needing": 63 * MB, "replica": 6 * MB, "cache": 2 * MB}
    sizes = sizes_with_unused_shared(store, servers, readings, targets, {}, least, ())
    assert sizes == {"needing": 64 * MB, "replica": 6 * MB, "cache": 26 * MB}


@pytest.mark.parametrize(
    ("replication_id", "primary_mib", "kept_mib"),
    [("a" * 40, 48, 16), ("a" * 40, 12, 12), ("b" * 40, 48, 3), ("down", 48, 16)],
)
def test_an_emptied_replica_of_this_node_keeps_room_to_take_over(
    replication_id: str, primary_mib: int, kept_mib: int
) -> None:
    """A client's buffers emptied a primary, and with it its replica, which was planned at 3 MiB;
    promoted within a minute it evicted nine keys of ten."""
    targets = {"primary": primary_mib * MB, "replica": 32 * MB, "cache": (64 - primary_mib) * MB}
    store = StateStore(None)
    with store.update() as state:
        state.targets_bytes = targets
        state.replicas = ("replica",)
    primary = replace(STATS, role="master", replication_id="a" * 40)
    replica = replace(STATS, role="slave", replication_id=replication_id)
    readings = {"primary": primary, "replica": replica, "cache": STATS}
    if replication_id == "down":  # it has failed already
        del readings["primary"]
    servers = [ServerConfig(name, "", minimum_bytes=2 * MB) for name in targets]
    least = {"primary": 2 * MB, "replica": 3 * MB, "cache": 2 * MB}
    sizes = sizes_with_unused_shared(store, servers, readings, targets, {}, least, ())
    assert sizes is not None
    assert sizes["replica"] == kept_mib * MB
    assert sum(sizes.values()) <= 96 * MB


@pytest.mark.parametrize("hangs", [False, True])
def test_beside_one_that_hangs_what_replicas_do_not_use_is_not_shared(hangs: bool) -> None:
    """A client let go of what it held, and the server ended before it had given that back: what the
    others were to get again was cut to what it left, and forgotten."""
    targets = {"ending": 16 * MB, "replica": 32 * MB, "cache": 48 * MB}
    store = StateStore(None)
    with store.update() as state:
        state.targets_bytes = targets
        state.room = RoomMade(targets, targets, {}, {"ending": 63 * MB})
        state.replicas = ("replica",)
    told: list[dict[str, int]] = []

    def take(sizes: dict[str, int], _why: str, note: Note) -> None:
        told.append(dict(sizes))
        with store.update() as state:
            note(state)

    actuator = SimpleNamespace(
        budget=SimpleNamespace(bytes=96 * MB),
        readings=dict.fromkeys(("replica", "cache"), STATS),
        latest=[ServerState("ending", (64 if hangs else 16) * MB, 0, 16 * MB, reachable=False)],
        latest_least_bytes={},
        too_small=set(),
        set_targets=take,
    )
    keeper = BudgetKeeper(actuator, store, Metrics(), lambda *_: None)
    keeper._planned = targets
    servers = [ServerConfig(name, "", minimum_bytes=2 * MB) for name in targets]
    beside = {"ending": 64 * MB} if hangs else {}
    least = {"replica": 6 * MB, "cache": 2 * MB}
    keeper._share_unused(servers, targets, beside, least)
    # It may be the replica's primary.
    shared = {"ending": 20 * MB, "replica": 16 * MB, "cache": 60 * MB}
    assert told == ([] if hangs else [shared])
    assert store.now.room == RoomMade(targets, targets, {}, {"ending": 63 * MB}) or not hangs


def test_what_one_keeps_leaves_each_other_half_of_an_equal_share() -> None:
    """Beside a stranger's need one of four was left 2 of 64 MiB when he was gone."""
    before = {"a": 14 * MB, "b": 4 * MB, "c": 42 * MB, "r": 4 * MB}
    room = RoomMade(before, {**before, "c": 6 * MB, "r": 40 * MB}, {}, {"b": 12 * MB, "r": 40 * MB})
    kept = room.keeping({"r": 40 * MB})
    assert kept is not None
    after = kept.before_bytes
    assert after["b"] == 4 * MB
    assert after["a"] >= 8 * MB
    assert after["c"] > after["a"]
    assert 64 * MB - 4 <= sum(after.values()) <= 64 * MB
    # Where that cannot be, all give in proportion.
    most = replace(room, made_bytes={**before, "c": MB, "r": 60 * MB}).keeping({"r": 60 * MB})
    assert most is not None
    assert 0 < most.before_bytes["b"] < 2 * MB


SIZES = st.integers(0, 100)


@given(st.dictionaries(st.sampled_from("abcd"), st.tuples(SIZES, SIZES, SIZES), min_size=1))
def test_what_some_keep_leaves_the_others_something_and_no_more_than_there_was(
    drawn: dict[str, tuple[int, int, int]],
) -> None:
    """It was less than nothing where the room was of memory that nobody had."""
    before, made, held = ({n: three[place] for n, three in drawn.items()} for place in range(3))
    needed = {name: made[name] for name in made if made[name] > before[name]}
    room = RoomMade(before, made, {}, needed)
    kept = room.keeping(held)
    sizes = kept.before_bytes if kept is not None else made
    assert min(sizes.values()) >= 0
    assert sum(sizes.values()) <= max(sum(before.values()), sum(made.values()))
    for name in needed:
        assert min(before[name], made[name]) <= sizes[name] <= max(before[name], made[name])
    if kept is not None:
        assert kept.needed_bytes.items() <= needed.items()
    assert min(room.shifted(held).before_bytes.values()) >= 0

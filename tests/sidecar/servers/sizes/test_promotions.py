"""A replica counts with what it uses, and loses nothing when it is promoted."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.delivery.message_signature import SignatureCheck
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.servers.connection.unevictable import HEADROOM_BYTES
from sidecar.servers.sizes.promotions import LastingKeys, follow_roles, held_bytes
from sidecar.servers.sizes.shrink_floor import can_shrink, least_size_bytes, reached_bytes
from sidecar.servers.sizes.squeezed_servers import SqueezedServers
from sidecar.state.state_store import StateStore
from tests.sidecar.actuated_node import MB, fill, write
from tests.sidecar.fixtures import StartServer, WriteNode
from tests.sidecar.monitored_load import STATS
from tests.sidecar.plan_messages import NEW, Receiving, observation, plan
from tests.sidecar.signed_cloud import SignedCloud
from workloads.local_node import sidecar_in_thread, wait_until
from workloads.local_server import LocalServer, free_port

BUDGET = 48 * MB


def follow(replica: LocalServer, primary: LocalServer) -> None:
    """Make a replica follow, as an operator or Sentinel does."""
    port = free_port()
    primary.client.config_set("port", port)
    replica.client.config_set("repl-diskless-sync-delay", 0)
    primary.client.config_set("repl-diskless-sync-delay", 0)
    replica.client.replicaof("127.0.0.1", port)


@contextmanager
def holding(server: LocalServer, size_bytes: int) -> Iterator[None]:
    """A client holds so much of a server: commands that wait for EXEC."""
    connection = server.client.connection_pool.make_connection()
    try:
        for command in (["MULTI"], *[["GET", b"x" * MB]] * (size_bytes // MB)):
            connection.send_command(*command)
            connection.read_response()
        yield
    finally:
        connection.disconnect()


def node_with(write_node: WriteNode, servers: dict[str, LocalServer], line: str) -> Path:
    """A node's file, with one more line for the replica."""
    path = write_node(servers, memory='rss_wait = "0s"')
    path.write_text(path.read_text().replace('name = "b"', f'name = "b"\n{line}'))
    return path


@pytest.mark.parametrize(
    ("keys_mb", "clients_mb", "held_mb"),
    [(32, 0, 36), (32, 2, 38.25), (32, 4, 40.5), (32, 16, 40.5)],
)
def test_what_a_replica_holds_is_its_keys_and_an_eighth_of_buffers(
    keys_mb: int, clients_mb: int, held_mb: float
) -> None:
    """What clients' connections take of it passes, and is no size to plan."""
    reading = replace(
        STATS,
        maxmemory_bytes=8 * MB,
        counted_bytes=(keys_mb + clients_mb) * MB,
        clients_bytes=clients_mb * MB,
    )
    assert held_bytes(reading) == held_mb * MB


def test_a_failover_there_and_back_evicts_nothing(
    write_node: WriteNode, start_server: StartServer
) -> None:
    """Its own file has less than its primary holds: without SPREDS all above that would go."""
    sizes = {"a": "24mb", "b": "8mb", "c": "16mb"}
    servers = {name: start_server(size) for name, size in sizes.items()}
    fill(servers["a"], 14)
    fill(servers["c"], 4)
    keys = servers["a"].client.dbsize()

    def used(name: str) -> int:
        return int(servers[name].client.info("memory")["used_memory"])

    def limit(name: str) -> int:
        return int(servers[name].client.config_get("maxmemory")["maxmemory"])

    def is_up(name: str) -> bool:
        return servers[name].client.info("replication").get("master_link_status") == "up"

    def evicted() -> int:
        return sum(one.client.info("stats")["evicted_keys"] for one in servers.values())

    with sidecar_in_thread(write_node(servers, memory='rss_wait = "0s"')) as sidecar:
        wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
        for primary, replica in (("a", "b"), ("b", "a"), ("a", "b")):
            servers[primary].client.replicaof("NO", "ONE")
            follow(servers[replica], servers[primary])
            wait_until(lambda name=replica: is_up(name), sidecar.metrics.snapshot)
            wait_until(lambda name=replica: limit(name) > used(name), sidecar.metrics.snapshot)
            wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
            assert sum(map(limit, servers)) <= BUDGET
        servers["b"].client.replicaof("NO", "ONE")
        wait_until(
            lambda: sidecar._actuator.readings["b"].role == "master", sidecar.metrics.snapshot
        )
        wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
        assert limit("b") > used("b")
        assert evicted() == 0
        assert servers["b"].client.dbsize() == keys


def test_failovers_of_a_full_pair_do_not_make_it_larger_and_larger(
    write_node: WriteNode, start_server: StartServer
) -> None:
    """Each replica had an eighth of headroom, which it filled once it was promoted."""
    servers = {
        name: start_server(size) for name, size in zip("abc", ("12mb", "6mb", "30mb"), strict=True)
    }
    fill(servers["a"], 14)
    path = write_node(servers, memory='rss_wait = "0s"')
    with sidecar_in_thread(path) as sidecar:

        def planned() -> dict[str, int]:
            return sidecar._actuator.targets()

        def is_followed(primary: str, replica: str) -> bool:
            keys = [servers[name].client.dbsize() for name in (primary, replica)]
            seen = sidecar._actuator.readings.get(replica)
            used = int(servers[replica].client.info("memory")["used_memory"])
            if seen is None or seen.role != "slave":
                return False
            is_full = seen.counted_bytes > 0.98 * used
            is_given = planned()[replica] >= 0.95 * seen.counted_bytes
            return keys[0] == keys[1] and is_full and is_given and sidecar._actuator.settled

        for primary, replica in (("a", "b"), ("b", "a"), ("a", "b"), ("b", "a"), ("a", "b")):
            servers[primary].client.replicaof("NO", "ONE")
            follow(servers[replica], servers[primary])
            wait_until(lambda p=primary, r=replica: is_followed(p, r), sidecar.metrics.snapshot)
            # As the clients of a cache do, that always want more than it has.
            for first in range(0, 8 * 1024, 32):
                write(servers[primary], range(first, first + 32), primary)
            wait_until(lambda p=primary, r=replica: is_followed(p, r), sidecar.metrics.snapshot)
        assert max(planned()[one] for one in "ab") < 15 * MB, planned()


def test_who_is_promoted_while_no_sidecar_runs_keeps_what_it_has(
    write_node: WriteNode, start_server: StartServer
) -> None:
    """The room that was made for it as a replica was taken back, and its keys with that."""
    servers = {name: start_server(f"{size}mb") for name, size in (("a", 22), ("b", 8), ("c", 18))}
    fill(servers["a"], 14)
    path = write_node(servers, memory='rss_wait = "0s"')

    def limit_bytes() -> int:
        return int(servers["b"].client.config_get("maxmemory")["maxmemory"])

    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
        follow(servers["b"], servers["a"])
        # Not that it is planned: just after that nothing has been set yet.
        wait_until(lambda: limit_bytes() > 14 * MB, sidecar.metrics.snapshot)
    keys = servers["b"].client.dbsize()
    servers["b"].client.replicaof("NO", "ONE")
    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: sidecar._store.now.replicas == (), sidecar.metrics.snapshot)
        fill(servers["c"], 20)
        wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
        assert sidecar._store.now.promoted_bytes.keys() == {"b"}
        assert sidecar._store.now.room is None
    assert servers["b"].client.dbsize() == keys
    assert limit_bytes() > 14 * MB


@pytest.mark.parametrize("is_planned", [False, True], ids=["before a plan", "after a plan"])
def test_who_is_emptied_after_its_promotion_gives_the_others_their_room_back(
    write_node: WriteNode, start_server: StartServer, is_planned: bool
) -> None:
    """By REPLICAOF and FLUSHALL anybody halved the other caches, and plans gave a tenth a cycle
    back."""
    servers = {name: start_server(f"{size}mb") for name, size in (("a", 20), ("b", 8), ("c", 20))}
    outside = start_server("64mb")
    fill(outside, 22)
    path = write_node(servers, memory='rss_wait = "0s"')
    with sidecar_in_thread(path) as sidecar:

        def planned() -> dict[str, int]:
            return sidecar._actuator.targets()

        def limit_bytes() -> int:
            return int(servers["b"].client.config_get("maxmemory")["maxmemory"])

        def used_bytes() -> int:
            return int(servers["b"].client.info("memory")["used_memory"])

        def promoted() -> bool:
            return sidecar._store.now.promoted_bytes == {"b": planned()["b"]}

        wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
        follow(servers["b"], outside)
        wait_until(lambda: planned()["b"] > 22 * MB, sidecar.metrics.snapshot)
        keys = outside.client.dbsize()
        wait_until(lambda: servers["b"].client.dbsize() == keys, sidecar.metrics.snapshot)
        wait_until(lambda: limit_bytes() > used_bytes(), sidecar.metrics.snapshot)
        servers["b"].client.replicaof("NO", "ONE")
        wait_until(promoted, planned)
        wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
        assert servers["b"].client.dbsize() == keys
        if is_planned:
            other = planned() | {"a": planned()["a"] - MB, "c": planned()["c"] + MB}
            sidecar._actuator.set_targets(other, "a plan")
            wait_until(promoted, planned)
        kept = planned()["b"]
        # As it expires some keys it keeps what it has.
        for key in list(servers["b"].client.scan_iter(count=1000))[: keys // 10]:
            servers["b"].client.delete(key)
        looked = sidecar._actuator.at_seconds
        wait_until(lambda: sidecar._actuator.at_seconds > looked + 3, sidecar.metrics.snapshot)
        assert planned()["b"] == kept
        servers["b"].client.flushall()
        # Down to what was its own, which it may fill again.
        wait_until(lambda: 8 * MB <= planned()["b"] <= 9 * MB, planned)
        assert min(planned()["a"], planned()["c"]) > 18 * MB


def test_what_a_replica_has_is_no_size_to_go_back_to_once_it_is_promoted(
    write_node: WriteNode, start_server: StartServer
) -> None:
    """A plan that went back to what it had as an idle replica emptied the new primary."""
    servers = {name: start_server("16mb") for name in "abc"}
    follow(servers["b"], servers["a"])
    cycles = '[controller]\nkind = "embedded"\n[cycle]\nmaximum_age = "500ms"\n'
    path = write_node(servers, memory='rss_wait = "0s"', more=cycles)
    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: sidecar._store.now.first_bytes, sidecar.metrics.snapshot)
        assert sidecar._store.now.first_bytes.keys() == {"a", "c"}
        fill(servers["a"], 10)
        wait_until(
            lambda: sidecar._actuator.targets()["b"] > 10 * MB,
            lambda: (
                sidecar._actuator.targets(),
                servers["b"].client.info("memory")["used_memory"],
            ),
        )

        def holds_it() -> bool:
            """Not that it is planned: with less it would lose it when it is promoted."""
            keys = {servers[name].client.dbsize() for name in "ab"}
            has = int(servers["b"].client.config_get("maxmemory")["maxmemory"])
            used = int(servers["b"].client.info("memory")["used_memory"])
            return len(keys) == 1 and has > used > 10 * MB

        wait_until(holds_it, lambda: sidecar._actuator.readings["b"])
        servers["b"].client.replicaof("NO", "ONE")
        wait_until(lambda: "b" in sidecar._store.now.first_bytes, sidecar.metrics.snapshot)
        assert sidecar._store.now.first_bytes["b"] > 10 * MB


def test_what_a_replica_does_not_use_goes_to_the_others(
    write_node: WriteNode, start_server: StartServer
) -> None:
    servers = {name: start_server("16mb") for name in "abc"}
    fill(servers["a"], 4)
    with sidecar_in_thread(write_node(servers, memory='rss_wait = "0s"')) as sidecar:
        wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
        follow(servers["b"], servers["a"])

        def planned() -> dict[str, int]:
            return sidecar._actuator.targets()

        # Half of an equal share is room to take over from a.
        wait_until(lambda: planned()["b"] == 8 * MB, sidecar.metrics.snapshot)
        assert planned()["a"] == planned()["c"] == 20 * MB


@pytest.mark.parametrize(("ignores", "gives"), [("yes", True), ("no", False)])
def test_a_replica_that_keeps_to_its_maxmemory_keeps_its_size(ignores: str, gives: bool) -> None:
    reading = replace(
        STATS,
        role="slave",
        counted_bytes=2 * MB,
        maxmemory_bytes=32 * MB,
        config={"replica-ignore-maxmemory": ignores},
    )
    assert not reading.evicts
    assert can_shrink(reading, "a", {}, 16 * MB) == gives
    assert (least_size_bytes(reading, "a", {}) is not None) == gives
    assert reached_bytes(reading, "a", {}, MB) == (2 * MB + HEADROOM_BYTES if gives else MB)


def test_what_clients_hold_of_a_replica_is_a_need_like_any_other(
    write_node: WriteNode, start_server: StartServer
) -> None:
    """It passes: the others keep half of an equal share each, and get back what they gave."""
    servers = {name: start_server("16mb") for name in "abc"}
    outside = start_server("16mb")
    fill(servers["a"], 14)
    fill(servers["c"], 10)
    follow(servers["b"], outside)
    with sidecar_in_thread(write_node(servers, memory='rss_wait = "0s"')) as sidecar:

        def planned() -> dict[str, int]:
            return sidecar._actuator.targets()

        wait_until(lambda: planned().get("b", BUDGET) < 8 * MB, sidecar.metrics.snapshot)
        wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
        before = planned()
        with holding(servers["b"], 40 * MB):
            wait_until(lambda: planned()["b"] > 24 * MB, sidecar.metrics.snapshot)
            wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
            assert min(planned()["a"], planned()["c"]) >= 8 * MB
            # Told just after the sizes are set.
            wait_until(lambda: sidecar._store.now.room, sidecar.metrics.snapshot)
            room = sidecar._store.now.room
            assert room is not None
            assert room.needed_bytes.keys() == {"b"}
            assert any("b needs" in problem for problem in sidecar.status()["problems"])
        wait_until(lambda: planned() == before, lambda: (planned(), before))


def test_what_a_replica_does_not_use_goes_to_the_others_also_while_another_one_needs_room(
    write_node: WriteNode, start_server: StartServer
) -> None:
    servers = {name: start_server("16mb") for name in "abc"}
    outside = start_server("16mb")
    fill(servers["a"], 6)
    follow(servers["c"], outside)
    with sidecar_in_thread(write_node(servers, memory='rss_wait = "0s"')) as sidecar:

        def planned() -> dict[str, int]:
            return sidecar._actuator.targets()

        wait_until(lambda: planned().get("c", BUDGET) < 8 * MB, sidecar.metrics.snapshot)
        with holding(servers["c"], 24 * MB):
            # Of an equal share the others keep half.
            wait_until(lambda: planned()["b"] == 8 * MB, sidecar.metrics.snapshot)
            wait_until(lambda: sidecar._store.now.room, sidecar.metrics.snapshot)
            kept = planned()
            follow(servers["b"], outside)
            wait_until(lambda: planned()["b"] < 4 * MB, lambda: (planned(), kept))
            assert planned()["a"] > kept["a"]
            assert planned()["c"] >= kept["c"]

            def made() -> dict[str, int]:
                room = sidecar._store.now.room
                return room.made_bytes if room else {}

            # Told just after the sizes are set.
            wait_until(lambda: made() == planned(), lambda: (made(), planned()))
            room = sidecar._store.now.room
            assert room is not None
            # What b gave now is not given back to it with the room.
            assert room.before_bytes["b"] - planned()["b"] <= BUDGET // 2 - kept["b"]
            assert sum(room.before_bytes.values()) <= BUDGET
        wait_until(lambda: planned()["a"] > 36 * MB, lambda: (planned(), kept))


def test_a_replica_below_its_minimum_gives_nothing_back_again_and_again(
    write_node: WriteNode, start_server: StartServer
) -> None:
    servers = {name: start_server("16mb") for name in "abc"}
    path = node_with(write_node, servers, 'minimum = "12mb"')
    follow(servers["b"], servers["a"])
    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
        wait_until(lambda: "b" in sidecar._actuator.latest_least_bytes, sidecar.metrics.snapshot)
        told = sidecar.metrics.value("sizes_fitted")
        steps: set[float] = set()
        wait_until(
            lambda: steps.add(sidecar._actuator.at_seconds) or len(steps) > 20,
            sidecar.metrics.snapshot,
        )
        assert sidecar.metrics.value("sizes_fitted") == told
        assert sidecar._actuator.targets() == dict.fromkeys("abc", 16 * MB)


def test_a_replica_above_its_maximum_is_told(
    write_node: WriteNode, start_server: StartServer
) -> None:
    servers = {name: start_server("16mb") for name in "abc"}
    path = node_with(write_node, servers, 'maximum = "16mb"')
    outside = start_server("16mb")
    follow(servers["b"], outside)
    with sidecar_in_thread(path) as sidecar, holding(servers["b"], 24 * MB):

        def problems() -> list[str]:
            return [one for one in sidecar.status()["problems"] if one.startswith("b is a rep")]

        wait_until(problems, lambda: sidecar.status()["problems"])
        assert "more than its maxmemory of 16 MiB" in problems()[0]


def test_who_was_promoted_is_remembered_until_a_plan_gives_it_more(tmp_path: Path) -> None:
    store = StateStore(tmp_path / "state.json")
    primary = replace(STATS, role="master")
    replica = replace(STATS, role="slave", maxmemory_bytes=8 * MB)

    def look(reading: ServerReading | None, planned: int) -> dict[str, int]:
        with store.update() as state:
            state.targets_bytes = {"a": planned}
        follow_roles(store, {"a": reading} if reading else {})
        return store.now.promoted_bytes

    assert look(replica, 8) == {}
    assert look(None, 8) == {}  # what does not answer is what it was
    assert store.now.replicas == ("a",)
    assert look(primary, 8) == {"a": 8}
    assert look(primary, 6) == {"a": 8}
    assert look(primary, 9) == {}
    assert look(replica, 9) == {}
    assert look(primary, 9) == {"a": 9}
    assert look(replica, 9) == {}


@pytest.mark.parametrize("is_known", [False, True], ids=["still learnt", "by its curve"])
def test_who_was_promoted_is_like_any_other_once_a_plan_goes_by_its_curve(
    cloud: SignedCloud, is_known: bool
) -> None:
    """A deploy that flushed it later had others take its memory, from each plan anew."""
    receiving = Receiving(cloud, SignatureCheck(cloud.topic_arn, cloud.endpoint_url))
    seen = observation(NEW)
    *others, last = seen.servers
    last = replace(last, curve_error_ratio=0.0 if is_known else 0.5)
    receiving.application._asked = lambda _: replace(seen, servers=(*others, last))
    with receiving.store.update() as state:
        state.promoted_bytes = {last.name: last.maxmemory_bytes}
    assert receiving.application.take(plan(NEW).dumps(), "good")
    assert (receiving.store.now.promoted_bytes == {}) == is_known


def test_keys_last_that_were_there_for_a_minute_however_often_one_looks() -> None:
    lasting = LastingKeys()
    replica = replace(STATS, role="slave", maxmemory_bytes=8 * MB)

    def look(at_seconds: float, keys_mb: int) -> int | None:
        one = replace(replica, at_seconds=at_seconds, counted_bytes=keys_mb * MB)
        lasting.take_readings({"a": one})
        return lasting.bytes.get("a")

    for place in range(3000):  # as while sizes move
        assert look(place * 0.02, 32) is None
    assert look(60.0, 32) == held_bytes(replace(replica, counted_bytes=32 * MB))
    assert look(60.1, 16) == held_bytes(replace(replica, counted_bytes=16 * MB))
    for place in range(59):
        assert look(61.0 + place, 32) == held_bytes(replace(replica, counted_bytes=16 * MB))
    assert look(121.0, 32) == held_bytes(replace(replica, counted_bytes=32 * MB))
    lasting.take_readings({"a": replace(replica, role="master")})
    assert lasting.bytes == {}


def test_who_evicted_was_squeezed_until_somebody_empties_it() -> None:
    """Idle connections of a stranger evicted keys of one that was promoted just then: what it used
    no longer was taken for what it did not need, however slowly it fills again."""
    squeezed, at_seconds = SqueezedServers(), itertools.count(0, 5)

    def look(role: str, evicted_keys: int, keys: int, each: int = 1000) -> bool:
        one = replace(STATS, role=role, evicted_keys=evicted_keys, keys=keys)
        counted = one.unevictable_bytes + keys * each
        one = replace(one, counted_bytes=counted, at_seconds=float(next(at_seconds)))
        squeezed.take_readings({"a": one})
        return "a" in squeezed.names

    assert not look("slave", 3, 1000)
    assert not look("slave", 5, 1000)
    assert not look("master", 5, 1000)
    assert look("master", 6, 400)
    assert look("master", 9, 200)
    for keys in (200, 180, 300, 900):
        assert look("master", 9, keys)
    assert not look("master", 9, 100)  # somebody has emptied it
    assert not look("master", 9, 1000)
    assert look("master", 10, 900)
    assert not look("master", 10, 880, each=500)  # of its large values
    assert look("master", 11, 900)
    assert not look("master", 0, 900)  # it has restarted
    assert look("master", 1, 900)
    assert not look("slave", 2, 900)


def test_buffers_that_are_told_late_are_no_keys_that_somebody_deleted() -> None:
    squeezed = SqueezedServers()
    for at_seconds, counted in ((0.0, 20), (0.5, 20), (1.5, 10), (2.9, 10), (5.0, 10), (9.0, 14)):
        one = replace(STATS, keys=5000, evicted_keys=int(at_seconds > 0), at_seconds=at_seconds)
        squeezed.take_readings(
            {"a": replace(one, counted_bytes=STATS.unevictable_bytes + counted * MB)}
        )
        assert ("a" in squeezed.names) == (at_seconds > 0)

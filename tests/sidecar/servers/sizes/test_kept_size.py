"""Real servers that refuse another size, must not be shrunk, or free nothing: the others go on."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

import pytest

from sidecar.config.node import ServerConfig
from sidecar.servers import back_off
from sidecar.servers.connection.command_counts import work_of
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.servers.server_watch import ServerWatch
from sidecar.servers.sizes import held_memory
from sidecar.servers.sizes.promotions import follow_roles
from sidecar.servers.sizes.queue_or_cache import with_remembered_work
from sidecar.servers.sizes.reserved_memory import excess_bytes, unmovable
from tests.sidecar.actuated_node import BUDGET, MB, ActuatedNode, fill
from tests.sidecar.fixtures import MakeNode, StartServer, WriteNode
from tests.sidecar.three_servers import THIRD, ThreeServers
from workloads.experiment.faults.model.model_server import MIB
from workloads.local_node import sidecar_in_thread, wait_until
from workloads.local_server import LocalServer, settled_sizes

AS_SPREDS = 'username = "spreds"'
MAY_ALL = ("on", "nopass", "~*", "&*", "+@all")


def say_that_all_can_be_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """INFO is said not to tell of keys that no eviction frees."""
    real = ServerReading.parse

    def parse(*told: Any) -> ServerReading:
        return dataclasses.replace(real(*told), unevictable_bytes=0)

    monkeypatch.setattr(ServerReading, "parse", staticmethod(parse))
    monkeypatch.setattr(ServerReading, "evicts", True)


def _allow(server: LocalServer, *rules: str) -> None:
    server.client.execute_command("ACL", "SETUSER", "spreds", *rules)


@pytest.fixture
def refusing(make_node: MakeNode) -> MakeNode:
    """A node whose first server lets the sidecar set nothing."""

    def make(*sizes: object) -> ActuatedNode:
        node = make_node(*sizes, server_keys=AS_SPREDS)
        for server in node.servers.values():
            _allow(server, *MAY_ALL)
        _allow(node.servers["s0"], "-config|set")
        return node

    return make


@pytest.fixture
def long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause ends while a test lasts."""
    monkeypatch.setattr(back_off, "FIRST_PAUSE_SECONDS", back_off.LAST_PAUSE_SECONDS)


def test_the_pauses_grow_to_a_limit_and_begin_anew() -> None:
    pauses = back_off.BackOff()
    assert pauses.is_over
    assert [pauses.fail() for _ in range(11)] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert not pauses.is_over
    pauses.reset()
    assert pauses.is_over
    assert pauses.fail() == 1


def test_the_others_shrink_and_growth_stays_within_what_is_in_force(
    refusing: MakeNode, long_pauses: None, caplog: pytest.LogCaptureFixture
) -> None:
    node = refusing("16mb", "16mb", "8mb")
    node.want(4, 8, 36)
    with caplog.at_level(logging.WARNING):
        assert node.settle() <= BUDGET
        assert node.maxmemory() == {"s0": 16 * MB, "s1": 8 * MB, "s2": 24 * MB}
        for _ in range(100):
            node.actuator.step()
    # It is not asked again before the pause is over.
    assert node.metrics.value("transitions_failed") == 1
    (said,) = [text for text in caplog.messages if "keeps its size, the others go on" in text]
    assert "no permissions" in said
    assert f"next try in {back_off.FIRST_PAUSE_SECONDS:.0f} s" in said
    assert node.metrics.value("foreign_changes") == 0
    assert set(node.actuator.kept()) == {"s0"}
    assert unmovable(node.actuator.states()) == {"s0"}


@pytest.mark.parametrize("command", ["zrem", "zremrangebyscore", "getdel", "xdel", "lpop"])
def test_who_takes_what_is_due_takes_work(command: str) -> None:
    """A delayed queue waits in a sorted set, and its payload in keys."""
    info = {f"cmdstat_{command}": {"calls": 1}, "cmdstat_get": {"calls": 9}, "evicted_keys": 0}
    assert work_of(info, set())["taking_commands"] == (command,)
    assert work_of(info | {"evicted_keys": 1}, set())["taking_commands"] == ()


def test_a_server_that_refuses_no_longer_is_brought_to_its_size(
    refusing: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(back_off, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(back_off, "LAST_PAUSE_SECONDS", 0.01)
    node = refusing("16mb", "16mb")
    targets = {"s0": 8 * MB, "s1": 40 * MB}
    node.actuator.set_targets(targets, "test")
    node.step_until(lambda: node.metrics.value("transitions_failed") >= 3)
    assert node.maxmemory() == {"s0": 16 * MB, "s1": 32 * MB}
    _allow(node.servers["s0"], "+config|set")
    assert node.step_until(lambda: node.maxmemory() == targets) <= BUDGET
    assert node.actuator.kept() == {}


def test_a_growth_that_is_refused_is_blamed_on_nobody_and_leaves_its_memory_to_others(
    refusing: MakeNode,
) -> None:
    node = refusing("8mb", "8mb")
    node.settle(24, 8)
    node.settle(8, 40)
    assert node.maxmemory() == {"s0": 8 * MB, "s1": 40 * MB}
    assert node.metrics.value("foreign_changes") == 0


@pytest.mark.parametrize("is_cache", [False, True])
def test_a_server_from_which_clients_take_work_loses_none_of_it(
    make_node: MakeNode, is_cache: bool
) -> None:
    """``allkeys-lru`` would evict a stream and its group like any other key."""
    node = make_node("24mb", "24mb", server_keys="cache = true" if is_cache else "")
    jobs = node.servers["s0"].client
    for number in range(4000):
        jobs.xadd("jobs", {"job": f"{number} {'x' * 1000}"})
    jobs.xgroup_create("jobs", "workers", "0")
    jobs.xreadgroup("workers", "w1", {"jobs": ">"}, count=10)
    fill(node.servers["s0"], 10)
    node.actuator.read_all()
    jobs.config_resetstat()  # as a restart: nothing tells any more that it was a queue
    node.settle(3, 40)
    assert node.maxmemory()["s0"] == (3 if is_cache else 24) * MB
    assert (jobs.info("stats")["evicted_keys"] > 0) == is_cache
    if not is_cache:
        # Buffers of a stranger had it evict some keys: it is no cache for that.
        evicted = dataclasses.replace(
            node.actuator.readings["s0"], evicted_keys=3, taking_commands=()
        )
        assert with_remembered_work(evicted, ServerConfig("s0", ""), node.store).taking_commands
        assert jobs.xlen("jobs") == 4000
        reason = node.actuator.readings["s0"].keep_reason()
        assert reason is not None
        assert "XREADGROUP" in reason
        assert "cache = true" in reason


def test_a_cache_that_restarts_is_no_queue_for_an_element_that_a_client_took(
    make_node: MakeNode,
) -> None:
    """Before the first look its counters begin anew: all others were emptied for what its file
    says."""
    node = make_node("24mb", "24mb")
    node.actuator.read_all()
    config = ServerConfig("s0", "")
    seen = dataclasses.replace(node.actuator.readings["s0"], evicted_keys=5)
    assert not with_remembered_work(seen, config, node.store).taking_commands
    assert node.store.now.caches == ("s0",)
    restarted = dataclasses.replace(seen, evicted_keys=0, taking_commands=("lpop",))
    assert not with_remembered_work(restarted, config, node.store).taking_commands
    other = ServerConfig("s1", "")
    assert with_remembered_work(restarted, other, node.store).taking_commands == ("lpop",)
    assert node.store.now.caches == ("s0",)


def test_a_replica_of_a_cache_is_no_queue_once_it_is_promoted(make_node: MakeNode) -> None:
    """It executes what clients of its primary took, and evicts nothing by itself."""
    node = make_node("24mb", "24mb")
    node.actuator.read_all()
    cache, replica = ServerConfig("s0", ""), ServerConfig("s1", "")
    seen = dataclasses.replace(node.actuator.readings["s0"], replication_id="f" * 40)
    evicting = dataclasses.replace(seen, evicted_keys=5)
    following = dataclasses.replace(seen, role="slave", taking_commands=("lpop",))
    read = {
        "s0": with_remembered_work(evicting, cache, node.store),
        "s1": with_remembered_work(following, replica, node.store),
    }
    follow_roles(node.store, read)
    promoted = dataclasses.replace(following, role="master")
    assert not with_remembered_work(promoted, replica, node.store).taking_commands
    assert node.store.now.taking_commands == {}


def test_a_shrink_ends_where_keys_go_and_their_memory_does_not_come_back(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    """A table of the keys that a client follows is memory that INFO does not name in bytes."""
    node = make_node("32mb", "16mb", gradual=True)
    server = node.servers["s0"]
    fill(server, 6)
    tracking = server.client.connection_pool.make_connection()
    tracking.send_command("HELLO", 3)
    tracking.read_response()
    tracking.send_command("CLIENT", "TRACKING", "ON")
    tracking.read_response()
    for number in range(14_000):
        tracking.send_command("GET", f"{number}:" + "x" * 1000)
        tracking.read_response()
    before = server.client.dbsize()
    with caplog.at_level(logging.WARNING):
        node.want(2, 46)
        node.step_until(lambda: "keys went and brought back" in caplog.text)
        for _ in range(50):
            node.actuator.step()
    assert server.client.dbsize() > 0.8 * before
    assert node.metrics.value("shrinks_in_vain", instance="s0") == 1
    # So nobody has to make room for it, though less is planned than it can do with.
    assert not node.actuator.too_small


def test_a_server_that_may_not_be_read_is_not_asked_all_the_time(
    refusing: MakeNode, long_pauses: None
) -> None:
    node = refusing("16mb", "16mb")
    _allow(node.servers["s0"], "-info")
    node.want(16, 8)
    for _ in range(100):
        node.actuator.step()
    refused = node.servers["s0"].client.info("commandstats")["cmdstat_info"]["rejected_calls"]
    assert refused == 1
    assert node.maxmemory()["s1"] == 8 * MB


def test_the_sum_comes_within_the_budget_beside_a_server_that_refuses_and_plans_go_on(
    write_node: WriteNode, start_server: StartServer
) -> None:
    servers = {name: start_server("24mb") for name in ("a", "b", "c")}
    for server in servers.values():
        _allow(server, *MAY_ALL)
    _allow(servers["a"], "-config|set")
    path = write_node(
        servers,
        more='[controller]\nkind = "embedded"\n[cycle]\nmaximum_age = "1s"\n',
        server_keys=AS_SPREDS,
    )
    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: sum(settled_sizes(servers).values()) <= BUDGET, sidecar.metrics.snapshot)
        assert settled_sizes(servers)["a"] == 24 * MB
        wait_until(lambda: sidecar.cycles >= 2, sidecar.metrics.snapshot)
        observation = sidecar.last_observation
        assert observation is not None
        reasons = {server.name: server.keep_reason for server in observation.servers}
        assert "refuses: CONFIG SET" in str(reasons["a"])
        assert "a refuses another size: CONFIG SET" in " ".join(sidecar.status()["problems"])
        assert sidecar.status()["stands_still"]
        assert "refuses" not in f"{reasons['b']}{reasons['c']}"
        assert settled_sizes(servers)["a"] == 24 * MB
        assert sum(settled_sizes(servers).values()) <= BUDGET


@pytest.mark.parametrize("how", ["noeviction", "replica"])
def test_a_server_that_evicts_no_longer_is_not_shrunk_by_a_plan_that_is_under_way(
    make_node: MakeNode, how: str
) -> None:
    node = make_node("24mb", "16mb")
    node.settle(24, 16)
    if how == "noeviction":
        node.servers["s0"].client.config_set("maxmemory-policy", "noeviction")
    else:
        node.servers["s0"].client.config_set("replica-ignore-maxmemory", "no")
        node.servers["s0"].client.replicaof("127.0.0.1", 1)
    assert node.settle(5, 43) <= BUDGET
    assert node.maxmemory() == {"s0": 24 * MB, "s1": 24 * MB}


def test_status_says_why_a_server_does_not_evict_also_before_the_first_observation(
    start_server: StartServer, write_node: WriteNode
) -> None:
    replica = start_server("8mb")
    replica.client.replicaof("127.0.0.1", 1)
    path = write_node({"a": replica.url, "b": start_server("8mb").url}, budget="24mb")
    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: all(s["up"] for s in sidecar.status()["servers"]), sidecar.status)
        told = [server["keep_reason"] for server in sidecar.status()["servers"]]
        assert not sidecar.cycles
    assert told[0] == "no_eviction: a replica"
    assert told[1] is None


def test_the_policy_is_asked_once_more_just_before_a_shrink(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = make_node("24mb", "16mb")
    real = ServerWatch.enter_shrink_mode

    def enter_shrink_mode(watch: ServerWatch) -> None:
        real(watch)
        node.servers[watch.name].client.config_set("maxmemory-policy", "noeviction")

    monkeypatch.setattr(ServerWatch, "enter_shrink_mode", enter_shrink_mode)
    node.settle(5, 43)
    assert node.maxmemory() == {"s0": 24 * MB, "s1": 24 * MB}
    assert node.knob("s0", "maxmemory-eviction-tenacity") == "10"


def test_a_change_by_hand_stays_on_a_server_that_does_not_evict(make_node: MakeNode) -> None:
    node = make_node("16mb", "16mb", **{"maxmemory-policy": "noeviction"})
    node.servers["s1"].client.config_set("maxmemory-policy", "allkeys-lru")
    node.settle(16, 32)
    for size in (24 * MB, 8 * MB, 20 * MB):
        node.servers["s0"].client.config_set("maxmemory", size)
        for _ in range(5):
            node.actuator.step()
        assert node.maxmemory()["s0"] == size
    assert node.metrics.value("foreign_changes") == 3


def test_what_somebody_sets_again_and_again_is_put_back_each_time(make_node: MakeNode) -> None:
    node = make_node("16mb", "16mb")
    node.settle(16, 16)
    for size in range(50):
        node.servers["s0"].client.config_set("maxmemory", 20 * MB + size)
        node.step_until(lambda: node.maxmemory() == {"s0": 16 * MB, "s1": 16 * MB})
    assert node.metrics.value("foreign_changes") == 50
    assert node.actuator.kept() == {}


def test_what_a_change_by_hand_takes_is_made_free_by_those_that_evict(
    write_node: WriteNode, start_server: StartServer
) -> None:
    fixed, evicts = start_server("16mb", **{"maxmemory-policy": "noeviction"}), start_server("32mb")
    with sidecar_in_thread(write_node({"fixed": fixed.url, "evicts": evicts.url})) as sidecar:
        wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
        fixed.client.config_set("maxmemory", 24 * MB)
        wait_until(
            lambda: evicts.client.config_get("maxmemory")["maxmemory"] == str(24 * MB),
            sidecar.metrics.snapshot,
        )
        assert fixed.client.config_get("maxmemory")["maxmemory"] == str(24 * MB)


def test_beside_one_that_takes_more_the_others_keep_their_minima_and_exchange_the_rest(
    three: ThreeServers,
) -> None:
    before = three.metrics.value("budgets_exceeded")
    three.stage.policy(0, "noeviction")
    three.stage.set_by_hand(0, 47)
    three.stage.wait(10)
    assert three.sizes == [47 * MIB, 2 * MIB, 2 * MIB]
    assert three.metrics.value("budgets_exceeded") == before + 1
    three.stage.policy(0, "allkeys-lru")
    three.stage.wait(60)
    assert three.sizes == [THIRD] * 3


def test_a_plan_takes_nothing_that_nobody_can_be_given(three: ThreeServers) -> None:
    """A size that somebody set by hand cannot be put back, and the sum is above the budget: who
    gives by a plan gives it to another."""
    three.stage.refuse(0)
    three.stage.set_by_hand(0, 46)
    three.stage.wait(3)
    three.actuator.set_targets({"s0": THIRD, "s1": 8 * MIB, "s2": 24 * MIB}, "plan")
    three.stage.wait(60)
    assert three.sizes == [46 * MIB, 8 * MIB, 24 * MIB]
    three.actuator.set_targets({"s0": 8 * MIB, "s1": 8 * MIB, "s2": 32 * MIB}, "plan")
    three.stage.wait(60)
    assert three.sizes == [46 * MIB, 8 * MIB, 24 * MIB]


def test_a_server_that_frees_nothing_holds_up_only_who_needs_its_memory(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(held_memory, "STUCK_SECONDS", 0.2)
    node = make_node("24mb", "16mb", "8mb", **{"maxmemory-policy": "volatile-lru"})
    # Without a time to live none of them can be evicted, and the server is said not to tell so.
    say_that_all_can_be_evicted(monkeypatch)
    fill(node.servers["s0"], 16)
    node.settle(8, 16, 24)
    held = int(node.servers["s0"].client.info()["used_memory"])
    grown = node.maxmemory()["s2"]
    assert 16 * MB < grown + held - 16 * MB <= BUDGET - 32 * MB + MB
    states = node.actuator.states()
    assert excess_bytes(states, {"s0": held}) == pytest.approx(held - 8 * MB, abs=MB)
    # What it held for a part of the window alone are clients' buffers, which go.
    assert excess_bytes(states, {"s0": 8 * MB}) == 0
    assert "stuck: it holds" in node.actuator.kept()["s0"]
    assert node.knob("s0", "maxmemory-eviction-tenacity") == "10"
    # The next plan does not wait anew.
    monkeypatch.setattr(held_memory, "STUCK_SECONDS", 3600.0)
    node.settle(8, 8, 32)
    assert node.maxmemory()["s1"] == 8 * MB
    assert node.maxmemory()["s2"] > grown
    assert node.metrics.value("shrinks_stuck") == 1
    node.servers["s0"].client.flushall()
    node.step_until(lambda: node.maxmemory()["s2"] == 32 * MB)
    assert node.actuator.kept() == {}


def test_plans_go_on_beside_a_server_that_frees_nothing(
    write_node: WriteNode, start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_memory, "STUCK_SECONDS", 0.2)
    say_that_all_can_be_evicted(monkeypatch)
    stuck = start_server("24mb", **{"maxmemory-policy": "volatile-lru"})
    fill(stuck, 18)
    path = write_node(
        {"stuck": stuck.url, "other": start_server("8mb").url},
        budget="20mb",
        memory='rss_wait = "0s"',
        more='[controller]\nkind = "embedded"\n[cycle]\nmaximum_age = "500ms"\n',
    )
    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: sidecar.cycles >= 2, sidecar.metrics.snapshot)
        observation = sidecar.last_observation
        assert observation is not None
        reasons = {server.name: server.keep_reason for server in observation.servers}
        assert "stuck: it holds" in str(reasons["stuck"])
        assert "stuck" not in str(reasons["other"])
        assert sidecar.metrics.value("shrinks_stuck") == 1
        assert sidecar.status()["stands_still"]

"""No server is shrunk to where it would refuse writes, and one that is there gets out."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from itertools import count
from pathlib import Path

import pytest
import redis
from hypothesis import example, given
from hypothesis import strategies as st

from sidecar.config.node import ServerConfig
from sidecar.daemon import Sidecar
from sidecar.servers import reachability
from sidecar.servers.connection.unevictable import is_too_small, least_maxmemory_bytes
from sidecar.servers.sizes.budget_fit import is_about
from sidecar.servers.sizes.initial_sizes import initial_sizes
from tests.sidecar.actuated_node import MB, fill
from tests.sidecar.fixtures import StartServer, WriteNode
from workloads.local_node import sidecar_in_thread, wait_until
from workloads.local_server import LocalServer, settled_sizes

CYCLES = '[controller]\nkind = "embedded"\n[cycle]\nmaximum_age = "500ms"\n'


def refused_writes(server: LocalServer) -> int:
    info: Mapping[str, Mapping[str, int]] = server.client.info("errorstats")
    return int(info.get("errorstat_OOM", {}).get("count", 0))


def maxmemory(server: LocalServer) -> int:
    return int(server.client.config_get("maxmemory")["maxmemory"])


def takes_writes(server: LocalServer) -> bool:
    try:
        server.client.set("key", "x")
    except redis.OutOfMemoryError:
        return False
    return True


def load_scripts(server: LocalServer, numbers: range) -> None:
    """Load scripts of a megabyte each; the server keeps them whatever its maxmemory is."""
    for number in numbers:
        server.client.script_load(f"return {number} --" + "x" * MB)


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 40))
def test_the_least_leaves_headroom_or_the_size_in_force(maxmemory: int, unevictable: int) -> None:
    least = least_maxmemory_bytes(maxmemory, unevictable)
    if maxmemory and not is_too_small(maxmemory, unevictable):
        assert unevictable < least <= maxmemory
    else:
        assert least >= unevictable + (256 << 10)


@given(
    st.lists(
        st.tuples(st.integers(1, 40), st.integers(0, 200), st.integers(0, 200), st.booleans()),
        min_size=1,
        max_size=6,
    ),
)
@example(
    [(1, 0, 0, False), (1, 1, 2, False), (1, 93, 0, True), (1, 128, 0, True), (1, 138, 0, True)]
)
def test_nobody_starts_below_its_least_while_the_budget_allows_it(
    servers: list[tuple[int, int, int, bool]],
) -> None:
    budget = 400
    configs = [ServerConfig(f"s{i}", "", minimum_bytes=m) for i, (m, *_) in enumerate(servers)]
    known = {f"s{i}": size for i, (_, size, _, _) in enumerate(servers)}
    fixed = {f"s{i}" for i, (*_, is_fixed) in enumerate(servers) if is_fixed and known[f"s{i}"]}
    least = {f"s{i}": floor for i, (_, _, floor, _) in enumerate(servers)}
    minima = {c.name: known[c.name] if c.name in fixed else c.minimum_bytes for c in configs}
    if sum(minima.values()) > budget:
        return
    share = budget // len(configs)
    needed = {name: low if name in fixed else max(low, least[name]) for name, low in minima.items()}
    has = {name: max(known[name] or share, low) for name, low in needed.items()}
    kept = {name: max(low, min(has[name], share // 2)) for name, low in minima.items()}
    sizes = initial_sizes(configs, known, fixed, budget, least)
    assert sum(sizes.values()) <= budget
    fits_beside = sum(max(needed[name], kept[name]) for name in kept) <= budget
    takes = any(needed[name] > kept[name] for name in kept)
    for name, low in minima.items():
        assert sizes[name] >= low
        if fits_beside or sum(kept.values()) > budget >= sum(needed.values()):
            assert sizes[name] >= needed[name]
        if takes and sum(kept.values()) <= budget:
            assert sizes[name] >= kept[name]


def unread_replies(server: LocalServer, size_bytes: int, count: int) -> list[socket.socket]:
    """Leave replies unread, as an ordinary client, which holds the server to as many bytes."""
    script = b"return string.rep('x', %d)" % size_bytes
    clients = []
    for _ in range(count):
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(server.socket))
        client.sendall(b"*3\r\n$4\r\nEVAL\r\n$%d\r\n%s\r\n$1\r\n0\r\n" % (len(script), script))
        clients.append(client)
    return clients


def four_full_servers(
    start_server: StartServer, write_node: WriteNode
) -> tuple[dict[str, LocalServer], Path]:
    """Start four full servers, with their node's file and a budget of all that they have."""
    sizes = {"a": 6, "b": 46, "c": 8, "d": 4}
    servers = {name: start_server(f"{size}mb") for name, size in sizes.items()}
    for name, size in sizes.items():
        fill(servers[name], size)
    path = write_node({name: server.url for name, server in servers.items()}, budget="64mb")
    return servers, path


def room_made_for_replies(
    sidecar: Sidecar, server: LocalServer
) -> tuple[dict[str, int], list[socket.socket]]:
    """The sizes planned before, and the clients who do not read."""
    wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
    before = sidecar._actuator.targets()
    clients = unread_replies(server, 10 * MB, 8)
    wait_until(lambda: sidecar._store.now.room is not None, sidecar.metrics.snapshot)
    wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
    return before, clients


def test_replies_that_a_client_does_not_read_leave_each_other_server_its_own_and_are_given_back(
    start_server: StartServer, write_node: WriteNode
) -> None:
    servers, path = four_full_servers(start_server, write_node)
    with sidecar_in_thread(path) as sidecar:
        before, clients = room_made_for_replies(sidecar, servers["a"])
        wait_until(
            lambda: any("cannot evict" in one for one in sidecar.status()["problems"]),
            sidecar.metrics.snapshot,
        )
        made = sidecar._actuator.targets()
        assert made["a"] > 30 * MB
        assert (made["c"], made["d"]) == (8 * MB, 4 * MB)  # half of an equal share, and what it has
        for client in clients:
            client.close()
        wait_until(lambda: sidecar._actuator.targets() == before, sidecar.metrics.snapshot)
        wait_until(
            lambda: not any("cannot evict" in one for one in sidecar.status()["problems"]),
            sidecar.metrics.snapshot,
        )


def test_room_of_a_process_that_is_gone_goes_back(
    start_server: StartServer, write_node: WriteNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others kept half an equal share for as long as nobody started it again."""
    monkeypatch.setattr(reachability, "GONE_SECONDS", 0.5)
    servers, path = four_full_servers(start_server, write_node)
    with sidecar_in_thread(path) as sidecar:
        before, clients = room_made_for_replies(sidecar, servers["a"])
        servers["a"].process.kill()
        for client in clients:
            client.close()

        def largest() -> bool:
            fill(servers["b"], 46)  # it gets more as it fills
            is_planned = sidecar._actuator.targets() == before  # it may not have given any yet
            return is_planned and maxmemory(servers["b"]) == before["b"]

        wait_until(largest, sidecar.metrics.snapshot, pause_seconds=0.2)


def test_clients_of_one_server_do_not_keep_another_from_what_its_keys_need(
    start_server: StartServer, write_node: WriteNode
) -> None:
    """Their buffers hold more than its limit, and nothing there can be evicted."""
    servers = {name: start_server("16mb") for name in "abc"}
    servers["b"].client.config_set("maxmemory-policy", "volatile-ttl")
    servers["b"].client.set("brief", "x", ex=3600)
    path = write_node(servers, budget="48mb", memory='rss_wait = "0s"')
    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
        clients = unread_replies(servers["a"], 10 * MB, 6)
        wait_until(lambda: settled_sizes(servers)["a"] > 30 * MB, sidecar.metrics.snapshot)
        fill(servers["b"], 5)
        numbers = count()

        def fills(to_bytes: int) -> bool:
            """Fill with keys that cannot be evicted, where it takes them."""
            try:
                servers["b"].client.set(f"lasting{next(numbers)}", b"x" * 8000)
            except redis.OutOfMemoryError:
                return False
            return int(servers["b"].client.info("memory")["used_memory"]) > to_bytes

        # Half of an equal share is what the others' needs leave it.
        wait_until(lambda: fills(17 * MB // 2), lambda: settled_sizes(servers))
        assert sum(settled_sizes(servers).values()) <= 48 * MB
        wait_until(lambda: takes_writes(servers["b"]), lambda: settled_sizes(servers))
        for client in clients:
            client.close()


def test_what_is_needed_but_for_some_bytes_is_not_decided_again() -> None:
    """One that cannot have all that it needs is too small each second."""
    planned = {"a": 40 * MB, "b": 10 * MB}
    assert is_about({"a": 40 * MB - 4000, "b": 10 * MB + 4000}, planned)
    assert not is_about({"a": 39 * MB, "b": 11 * MB}, planned)
    # What one needs so as not to refuse writes is never so little.
    assert not is_about({"a": 40 * MB, "b": least_maxmemory_bytes(10 * MB, 10 * MB)}, planned)


@pytest.fixture
def one_empty(
    start_server: StartServer, write_node: WriteNode
) -> tuple[dict[str, LocalServer], Path]:
    """Three servers that share a budget, of which ``a`` holds nothing; and the node's file."""
    servers = {name: start_server("16mb") for name in "abc"}
    for name in "bc":
        fill(servers[name], 12)
    urls = {name: server.url for name, server in servers.items()}
    return servers, write_node(urls, budget="48mb", memory='rss_wait = "0s"')


def room_for_replies(sidecar: Sidecar, servers: Mapping[str, LocalServer]) -> list[socket.socket]:
    """Have the others make room for replies of ``a``; the clients that do not read them."""
    wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
    clients = unread_replies(servers["a"], 4 * MB, 7)
    wait_until(lambda: settled_sizes(servers)["a"] > 30 * MB, sidecar.metrics.snapshot)
    return clients


def room_for_a_queue(sidecar: Sidecar, servers: Mapping[str, LocalServer]) -> None:
    """Have room for ``a``, which then does not evict any more, and needs it no longer."""
    clients = room_for_replies(sidecar, servers)
    servers["a"].client.lpop("queue")
    for client in clients:
        client.close()


def test_room_of_one_that_needs_a_part_of_it_goes_back_but_for_that(
    one_empty: tuple[dict[str, LocalServer], Path],
) -> None:
    """A client that filled buffers, and wrote nearly as much as fitted before, kept all of it."""
    servers, path = one_empty
    with sidecar_in_thread(path) as sidecar:
        room_for_a_queue(sidecar, servers)
        fill(servers["a"], 14)
        used = int(servers["a"].client.info("memory")["used_memory"])

        def is_back() -> bool:
            return used <= sidecar._actuator.targets()["a"] < 20 * MB

        wait_until(is_back, sidecar.metrics.snapshot)
        assert 48 * MB - 3 <= sum(sidecar._actuator.targets().values()) <= 48 * MB
        # As it gives it back, it fills more than is planned by now: that much it keeps.
        fill(servers["a"], 15)
        used = int(servers["a"].client.info("memory")["used_memory"])
        wait_until(lambda: used <= sidecar._actuator.targets()["a"], sidecar.metrics.snapshot)

        def gives() -> bool:
            for name in "bc":
                fill(servers[name], 16)
            return settled_sizes(servers)["a"] < 20 * MB

        wait_until(gives, sidecar.metrics.snapshot)
        assert int(servers["a"].client.info("stats")["evicted_keys"]) == 0


def test_a_burst_into_room_that_is_going_back_keeps_it_and_ends_nothing(
    one_empty: tuple[dict[str, LocalServer], Path],
) -> None:
    """The others fill at the same time, and are to have what was just filled: the targets of one
    moment exceeded the budget, which ended the sidecar."""
    servers, path = one_empty
    with sidecar_in_thread(path) as sidecar:
        room_for_a_queue(sidecar, servers)
        wait_until(lambda: sidecar._actuator.targets()["a"] == 16 * MB, sidecar.metrics.snapshot)
        fill(servers["a"], 22)

        def used() -> int:
            return int(servers["a"].client.info("memory")["used_memory"])

        def others_grow() -> bool:
            for name in "bc":
                fill(servers[name], 14)
            sizes = sidecar._actuator.intermediate_sizes.sizes_bytes
            return min(sizes[name] for name in "bc") > 9 * MB  # they had 8

        wait_until(others_grow, lambda: (sidecar._actuator.targets(), settled_sizes(servers)))
        wait_until(lambda: used() <= sidecar._actuator.targets()["a"], sidecar.metrics.snapshot)
        wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
        sidecar._actuator.check()
        sizes = settled_sizes(servers)
        assert sum(sizes.values()) <= 48 * MB
        assert used() <= sizes["a"]
        assert int(servers["a"].client.info("stats")["evicted_keys"]) == 0


def test_room_that_is_there_from_the_beginning_goes_back(
    one_empty: tuple[dict[str, LocalServer], Path],
) -> None:
    """A client that filled buffers as the sidecar began kept what its server got by that."""
    servers, path = one_empty
    clients = unread_replies(servers["a"], 4 * MB, 7)
    wait_until(
        lambda: int(servers["a"].client.info("memory")["used_memory"]) > 28 * MB, lambda: "replies"
    )
    with sidecar_in_thread(path) as sidecar:
        wait_until(
            lambda: sidecar._actuator.targets().get("a", 0) > 30 * MB, sidecar.metrics.snapshot
        )
        for client in clients:
            client.close()
        wait_until(
            lambda: set(sidecar._actuator.targets().values()) == {16 * MB}, sidecar.metrics.snapshot
        )


@pytest.mark.parametrize(
    "then",
    ["nothing", "a plan", "a plan before", "a rollback", "a plan that keeps it", "a restart"],
)
def test_room_goes_back_from_one_that_does_not_evict_any_more(
    one_empty: tuple[dict[str, LocalServer], Path], then: str
) -> None:
    """A client that filled buffers and then took work from a queue kept it for good."""
    servers, path = one_empty

    def gives_as_the_others_fill(sidecar: Sidecar) -> None:
        has = settled_sizes(servers)["a"]

        def gives() -> bool:
            for name in "bc":
                fill(servers[name], 16)
            # On a slow machine it has given all by now.
            return settled_sizes(servers)["a"] < max(has, 16 * MB + 1)

        wait_until(gives, sidecar.metrics.snapshot)

    with sidecar_in_thread(path) as sidecar:
        clients = room_for_replies(sidecar, servers)
        # A plan that is taken back later does not bring back what somebody needs now.
        before = sidecar._control._enforcement.sizes_to_come_back_to()
        assert set(before.values()) == {16 * MB}
        if then not in ("a plan before", "a rollback"):
            servers["a"].client.lpop("queue")
        if then.startswith("a plan"):
            # It leaves the one that cannot be given another size as it is.
            targets = sidecar._actuator.targets()
            moved = {**targets, "b": targets["b"] - MB, "c": targets["c"] + MB}
            sidecar._actuator.set_targets(moved, "plan")
        if then == "a plan before":
            # Of what it needed for so long that plans gave it as much.
            wait_until(
                lambda: sidecar._store.now.room.made_bytes == moved, sidecar.metrics.snapshot
            )
            servers["a"].client.lpop("queue")
        if then == "a rollback":
            with sidecar._lock:
                sidecar._control._enforcement.back_to(
                    {"a": 16 * MB, "b": 10 * MB, "c": 22 * MB}, "rolled back"
                )
        for client in clients:
            client.close()
        wait_until(lambda: sidecar._actuator.targets()["a"] == 16 * MB, sidecar.metrics.snapshot)
        if then == "a plan that keeps it":
            # By one that was made while it hung, and could not be given another size.
            has = settled_sizes(servers)["a"]
            rest = (48 * MB - has) // 2
            sidecar._actuator.set_targets({"a": has, "b": rest, "c": rest}, "plan")
            wait_until(
                lambda: sidecar._actuator.targets()["a"] == 16 * MB, sidecar.metrics.snapshot
            )
        if then == "a rollback":
            assert sidecar._actuator.targets() == {"a": 16 * MB, "b": 10 * MB, "c": 22 * MB}
        if then != "a restart":
            gives_as_the_others_fill(sidecar)
    if then == "a restart":
        with sidecar_in_thread(path) as sidecar:
            gives_as_the_others_fill(sidecar)


def test_keys_without_a_ttl_and_scripts_stay_in_what_plans_leave(
    start_server: StartServer, write_node: WriteNode
) -> None:
    pinned = start_server("24mb", **{"maxmemory-policy": "volatile-lru"})
    fill(pinned, 10)
    scripts, hungry = start_server("8mb"), start_server("16mb")
    load_scripts(scripts, range(3))
    path = write_node(
        {"pinned": pinned.url, "scripts": scripts.url, "hungry": hungry.url},
        budget="48mb",
        memory='rss_wait = "0s"',
        more=CYCLES + "[planning]\nminimum_gain_ratio = 0.0\n",
        server_keys='backend_latency = "50ms"',
    )
    with sidecar_in_thread(path) as sidecar:

        def load_until(cycles: int) -> None:
            step = 0
            while sidecar.cycles < cycles:
                step += 1
                # Hot caches beside what cannot be evicted, and one that misses all the time.
                for server, key in ((pinned, step % 50), (scripts, step % 50), (hungry, step)):
                    if server.client.get(f"c{key}") is None:
                        server.client.set(f"c{key}", b"x" * 2000, ex=3600)

        load_until(6)
        assert maxmemory(pinned) > 10 * MB
        assert maxmemory(scripts) > 3 * MB
        assert [refused_writes(server) for server in (pinned, scripts)] == [0, 0]
        observation = sidecar.last_observation
        assert observation is not None
        least = {server.name: server.minimum_bytes for server in observation.servers}
        assert least["pinned"] > 10 * MB
        assert least["scripts"] > 3 * MB
        # Of an equal share it keeps half beside so much.
        assert least["hungry"] == 8 * MB


def test_a_server_that_refuses_writes_grows_without_waiting_for_a_plan(
    start_server: StartServer, write_node: WriteNode
) -> None:
    server, other = start_server("2mb"), start_server("16mb")
    load_scripts(server, range(3))
    assert not takes_writes(server)
    path = write_node({"small": server.url, "other": other.url}, budget="18mb")
    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: takes_writes(server), sidecar.metrics.snapshot)
        # What comes later than the start is noticed as well.
        load_scripts(server, range(3, 6))
        wait_until(
            lambda: maxmemory(server) > 6 * MB and takes_writes(server),
            sidecar.metrics.snapshot,
        )
        assert maxmemory(server) + maxmemory(other) <= 18 * MB


def test_a_policy_for_keys_with_a_ttl_evicts_nothing_where_none_has_one(
    start_server: StartServer, write_node: WriteNode
) -> None:
    pinned = start_server("16mb", **{"maxmemory-policy": "volatile-lru"})
    fill(pinned, 10)
    path = write_node({"pinned": pinned.url, "other": start_server("16mb").url}, budget="20mb")
    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
        assert maxmemory(pinned) == 16 * MB
        pinned.client.set("key", "x")

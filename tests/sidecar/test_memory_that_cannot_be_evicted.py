"""No server is shrunk to where it would refuse writes, and one that is there gets out."""

from __future__ import annotations

from collections.abc import Mapping

import redis
from hypothesis import given
from hypothesis import strategies as st

from sidecar.config.node import ServerConfig
from sidecar.servers.initial_sizes import initial_sizes
from sidecar.servers.unevictable import is_too_small, least_maxmemory_bytes
from tests.sidecar.actuated_node import MB, fill
from tests.sidecar.fixtures import StartServer, WriteNode
from workloads.local_node import sidecar_in_thread, wait_until
from workloads.local_server import LocalServer

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
    """Of a megabyte each; the server keeps them whatever its maxmemory is."""
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
def test_nobody_starts_below_its_least_while_the_budget_allows_it(
    servers: list[tuple[int, int, int, bool]],
) -> None:
    budget = 400
    configs = [ServerConfig(f"s{i}", "", minimum_bytes=m) for i, (m, *_) in enumerate(servers)]
    known = {f"s{i}": size for i, (_, size, _, _) in enumerate(servers)}
    fixed = {f"s{i}" for i, (*_, is_fixed) in enumerate(servers) if is_fixed and known[f"s{i}"]}
    least = {f"s{i}": floor for i, (_, _, floor, _) in enumerate(servers)}
    wanted = [
        known[c.name] if c.name in fixed else max(c.minimum_bytes, least[c.name]) for c in configs
    ]
    needed = sum(known[c.name] if c.name in fixed else c.minimum_bytes for c in configs)
    if needed > budget:
        return
    sizes = initial_sizes(configs, known, fixed, budget, least)
    assert sum(sizes.values()) <= budget
    for config, floor in zip(configs, wanted, strict=True):
        assert sizes[config.name] >= (floor if sum(wanted) <= budget else config.minimum_bytes) or (
            config.name in fixed
        )


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
        assert least["hungry"] == 2 * MB


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

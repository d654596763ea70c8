"""The sizes before the first plan fit into the budget, whatever is found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.config.node import ServerConfig
from sidecar.servers.sizes.initial_sizes import initial_sizes, sizes_to_begin_with
from solver_lambda.documents.reader import DocumentError

MB = 1 << 20
BUDGET = 100 * MB


@st.composite
def nodes(draw: st.DrawFn) -> tuple[list[ServerConfig], dict[str, int]]:
    count = draw(st.integers(1, 6))
    servers, known = [], {}
    for place in range(count):
        minimum = draw(st.integers(1, BUDGET // count))
        maximum = draw(st.none() | st.integers(minimum, 2 * BUDGET))
        name = f"s{place}"
        servers.append(ServerConfig(name, "", minimum_bytes=minimum, maximum_bytes=maximum))
        size = draw(st.none() | st.just(0) | st.integers(1, 2 * BUDGET))
        if size is not None:
            known[name] = size
    return servers, known


@given(nodes())
def test_they_fit_and_respect_every_bound(node: tuple[list[ServerConfig], dict[str, int]]) -> None:
    servers, known = node
    sizes = initial_sizes(servers, known, (), BUDGET)
    assert sum(sizes.values()) <= BUDGET
    for server in servers:
        assert server.minimum_bytes <= sizes[server.name]
        assert server.maximum_bytes is None or sizes[server.name] <= server.maximum_bytes


@given(nodes(), st.lists(st.integers(0, 2 * BUDGET), min_size=6, max_size=6))
def test_nobody_loses_a_key_where_all_that_is_used_fits(
    node: tuple[list[ServerConfig], dict[str, int]], used: list[int]
) -> None:
    servers, known = node
    uses = {server.name: one for server, one in zip(servers, used, strict=False)}
    sizes = initial_sizes(servers, known, (), BUDGET, {}, uses)
    assert sum(sizes.values()) <= BUDGET
    keeps = {
        server.name: max(
            server.minimum_bytes,
            min(
                known.get(server.name) or BUDGET,
                uses[server.name],
                server.maximum_bytes or 2 * BUDGET,
            ),
        )
        for server in servers
    }
    if sum(keeps.values()) <= BUDGET:
        assert all(sizes[name] >= keeps[name] for name in keeps)


def test_who_has_no_limit_keeps_what_it_uses_where_that_fits() -> None:
    known = {"s0": 0, "s1": 33 * MB, "s2": 33 * MB}
    uses = {"s0": 60 * MB, "s1": 2 * MB, "s2": 2 * MB}
    sizes = initial_sizes(_servers(3), known, (), BUDGET, {}, uses)
    assert sizes["s0"] >= 60 * MB
    assert sum(sizes.values()) <= BUDGET
    # Where it does not fit, nobody loses memory for it.
    assert initial_sizes(_servers(3), known, (), BUDGET, {}, uses | {"s0": 99 * MB}) == {
        "s0": BUDGET // 3,
        "s1": 33 * MB,
        "s2": 33 * MB,
    }


def test_two_slips_by_hand_cost_a_full_server_nothing() -> None:
    known = {"s0": 60 * MB, "s1": 60 * MB, "s2": 32 * MB}
    sizes = initial_sizes(_servers(3), known, (), BUDGET, {}, dict.fromkeys(known, 28 * MB))
    assert min(sizes.values()) >= 28 * MB
    assert sum(sizes.values()) == pytest.approx(BUDGET, abs=4)


def _servers(count: int) -> list[ServerConfig]:
    return [ServerConfig(f"s{place}", "", minimum_bytes=MB) for place in range(count)]


def test_sizes_that_fit_are_kept() -> None:
    known = {"s0": 60 * MB, "s1": 30 * MB}
    assert initial_sizes(_servers(2), known, (), BUDGET) == known


def test_sizes_that_do_not_fit_are_scaled_down_in_proportion() -> None:
    sizes = initial_sizes(_servers(2), {"s0": 301 * MB, "s1": 101 * MB}, (), BUDGET)
    assert sizes["s0"] - MB == pytest.approx(3 * (sizes["s1"] - MB), abs=4)
    assert sum(sizes.values()) == pytest.approx(BUDGET, abs=4)


def test_beside_one_that_keeps_its_size_each_other_keeps_half_of_an_equal_share() -> None:
    """A client who wrote keys that are not evicted had the others shrunk in proportion."""
    servers = [ServerConfig(name, "", minimum_bytes=MB) for name in "abcd"]
    known = {"a": 10 * MB, "b": 36 * MB, "c": 24 * MB, "d": 3 * MB}
    sizes = initial_sizes(servers, known, {"b"}, 64 * MB)
    assert sizes["b"] == 36 * MB
    assert sizes["d"] == 3 * MB
    assert 8 * MB < sizes["a"] < 10 * MB
    assert 64 * MB - 3 <= sum(sizes.values()) <= 64 * MB
    # Where that cannot be, their minima count.
    assert initial_sizes(servers, {**known, "b": 58 * MB}, {"b"}, 64 * MB)["d"] < 3 * MB


def test_unlimited_servers_get_equal_shares() -> None:
    sizes = initial_sizes(_servers(4), dict.fromkeys(("s0", "s1", "s2", "s3"), 0), (), BUDGET)
    assert set(sizes.values()) == {25 * MB}


def test_a_server_that_does_not_evict_keeps_what_it_has() -> None:
    sizes = initial_sizes(_servers(2), {"s0": 70 * MB, "s1": 70 * MB}, {"s0"}, BUDGET)
    assert sizes == {"s0": 70 * MB, "s1": 30 * MB}


def test_a_server_that_does_not_evict_and_has_no_limit_is_refused() -> None:
    with pytest.raises(DocumentError, match=r"server s0: .*noeviction"):
        initial_sizes(_servers(1), {"s0": 0}, {"s0"}, BUDGET)
    with pytest.raises(DocumentError, match=r"s0\) and the others' minima need"):
        initial_sizes(_servers(2), {"s0": BUDGET, "s1": 0}, {"s0"}, BUDGET)


Begun = tuple[dict[str, int], dict[str, int]]


def test_who_was_interrupted_goes_on_from_what_is_found_if_that_fits() -> None:
    servers = [ServerConfig(name, "", minimum_bytes=1) for name in ("a", "b", "down")]
    planned = {"a": 10, "b": 60, "down": 30}

    def begin(found: dict[str, int], fixed: set[str], *, interrupted: bool = True) -> Begun:
        return sizes_to_begin_with(servers, found, planned, fixed, 100, {}, interrupted=interrupted)

    found = {"a": 40, "b": 30}
    assert begin(found, set()) == ({**found, "down": 30}, planned)
    sizes = {**found, "down": 30}
    assert begin(found, set(), interrupted=False) == (sizes, sizes)
    # Without a limit, or above the budget, there is nothing to wait for.
    assert begin({"a": 0, "b": 30}, set()) == (planned, planned)
    assert begin({"a": 75, "b": 30}, set()) == (planned, planned)
    # Who does not answer had no more than the others leave; they give nothing for it.
    assert begin({"a": 50, "b": 30}, set()) == ({"a": 50, "b": 30, "down": 20}, planned)
    # Who does not evict keeps what it has.
    assert begin({"a": 15, "b": 30}, {"a"}) == (
        {"a": 15, "b": 30, "down": 28},
        {"a": 15, "b": 56, "down": 28},
    )

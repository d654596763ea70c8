"""What a team wishes may make the others slower by so much, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.config.node import ServerConfig
from sidecar.team_wishes import beside_wishes
from solver_lambda.documents.curve import MissRatioCurve
from solver_lambda.documents.observation import Observation, ServerObservation
from solver_lambda.planning.effective_access_time import EffectiveAccessTime
from solver_lambda.planning.planner import make_plan

MIB = 1 << 20
NAMES = ("greedy", "near", "far")
EQUAL = 16 * MIB
SLOWDOWN = 0.25
WISHING = {"greedy": ServerConfig("greedy", "", backend_latency_seconds=0.002)}


def _server(name: str, scale_mib: float, **values: object) -> ServerObservation:
    sizes = np.linspace(0, 48 * MIB, 200)
    server = ServerObservation(
        name=name,
        maxmemory_bytes=EQUAL,
        minimum_bytes=2 * MIB,
        weight=1.0,
        request_rate_per_second=1000.0,
        cache_latency_seconds=200e-6,
        backend_latency_seconds=0.02,
        curve=MissRatioCurve(sizes, np.exp(-sizes / MIB / scale_mib)),
        curve_error_ratio=0.01,
        sampled_objects=8192,
        installed_bytes=EQUAL,
    )
    return replace(server, **values)  # type: ignore[arg-type]


def _observed(servers: Sequence[ServerObservation], cycle: int = 1) -> Observation:
    return Observation("n1", cycle, 1e6, 3600.0, 3 * EQUAL, tuple(servers))


def _after(wishing: dict[str, ServerConfig], cycles: int = 16) -> dict[str, float]:
    """How many times as long reads take as with equal shares, once plans were carried out."""
    greedy = {"weight": 10.0, "backend_latency_seconds": 0.02, "backend_latency_source": "team"}
    first = [_server("greedy", 12, **greedy), _server("near", 4), _server("far", 8)]
    servers = first
    for cycle in range(1, cycles):
        asked = beside_wishes(_observed(servers, cycle), wishing, SLOWDOWN)
        plan = make_plan(asked, now_seconds=1e6)
        sizes = {one.name: one.maxmemory_bytes for one in plan.servers}
        servers = [replace(one, maxmemory_bytes=sizes[one.name]) for one in servers]
    return {
        one.name: float(np.divide(*EffectiveAccessTime.of(one).seconds([size, EQUAL])))
        for one in servers
        if (size := one.maxmemory_bytes)
    }


def test_a_team_that_says_all_it_may_starves_nobody() -> None:
    starved, protected = _after({}), _after(WISHING)
    assert max(starved[name] for name in NAMES[1:]) > 2
    assert all(protected[name] <= 1 + SLOWDOWN for name in NAMES[1:])
    assert protected["greedy"] < 1


def test_who_wishes_a_little_for_others_too_does_not_unlock_them() -> None:
    """Who may write one team's document in a folder may write all of them."""
    greedy, near = _server("greedy", 12, weight=10.0), _server("near", 8, weight=2.0)
    wishing = {name: ServerConfig(name, "") for name in ("greedy", "near")}
    asked = beside_wishes(_observed([greedy, near, _server("far", 8)]), wishing, SLOWDOWN)
    assert asked.servers[1].minimum_bytes == asked.servers[2].minimum_bytes > 8 * MIB
    # Who says that he counts for less gives.
    less = _observed([greedy, replace(near, weight=0.5), _server("far", 8)])
    assert beside_wishes(less, wishing, SLOWDOWN).servers[1].minimum_bytes == 2 * MIB


def test_a_wish_that_counts_for_less_than_twice_as_much_protects_nobody() -> None:
    servers = [_server(name, 8) for name in NAMES]
    for values, wishing in (
        ({"weight": 1.9}, {"greedy": ServerConfig("greedy", "")}),
        ({"weight": 10.0}, {}),
        ({"weight": 10.0}, {"greedy": ServerConfig("greedy", "", weight=6.0)}),
        ({"backend_latency_seconds": 60.0}, {"greedy": ServerConfig("greedy", "")}),
    ):
        asked = _observed([_server("greedy", 8, **values), *servers[1:]])
        assert beside_wishes(asked, wishing, SLOWDOWN) is asked
    measured = {"backend_latency_seconds": 0.04, "measured_backend_latency_seconds": 0.02}
    asked = _observed([_server("greedy", 8, **measured), *servers[1:]])
    wishing = {"greedy": ServerConfig("greedy", "")}
    greedy, *others = beside_wishes(asked, wishing, SLOWDOWN).servers
    assert all(one.minimum_bytes > 2 * MIB for one in (greedy, *others))


@settings(max_examples=200)
@given(
    has_mib=st.integers(2, 40),
    had_mib=st.one_of(st.none(), st.integers(0, 40)),
    scale_mib=st.floats(0.5, 60),
    slowdown=st.floats(0, 3),
    maximum_mib=st.one_of(st.none(), st.integers(2, 40)),
)
def test_the_least_size_is_that_of_the_slow_way(
    has_mib: int,
    had_mib: int | None,
    scale_mib: float,
    slowdown: float,
    maximum_mib: int | None,
) -> None:
    other = _server(
        "near",
        scale_mib,
        maxmemory_bytes=has_mib * MIB,
        installed_bytes=None if had_mib is None else had_mib * MIB,
        maximum_bytes=None if maximum_mib is None else maximum_mib * MIB,
    )
    asked = _observed([_server("greedy", 8, weight=10.0), other, _server("far", 8)])
    kept = beside_wishes(asked, WISHING, slowdown).servers[1].minimum_bytes
    had = min(other.installed_bytes or EQUAL, EQUAL)
    eat = EffectiveAccessTime.of(other)
    size = EQUAL // 16
    while size < had and eat.seconds([size])[0] > (1 + slowdown) * eat.seconds([had])[0]:
        size += EQUAL // 16
    least = min(size, had, has_mib * MIB, (maximum_mib or 48) * MIB)
    assert kept == max(2 * MIB, least)

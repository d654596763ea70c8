"""Shrinks that nothing presses are spread over time, and end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sidecar.servers.connection.server_reading import ServerReading
from sidecar.servers.sizes.pace import (
    KEYS_PER_SECOND,
    LEAST_BYTES_PER_SECOND,
    PORTION_SECONDS,
    SIZE_RATIO_PER_SECOND,
    Pace,
)
from sidecar.servers.sizes.transitions import EnterShrinkMode, ServerState, Shrink, resolve
from tests.sidecar.actuated_node import ActuatedNode, fill
from tests.sidecar.fixtures import MakeNode
from tests.sidecar.set_clock import Clock

MB = 1 << 20


INFO = {
    "run_id": "a" * 40,
    "maxmemory_policy": "allkeys-lru",
    "keyspace_hits": 0,
    "keyspace_misses": 0,
}


def _reading(used_bytes: int, keys: int) -> ServerReading:
    info = {
        **INFO,
        "maxmemory": used_bytes,
        "used_memory": used_bytes,
        "db0": {"keys": keys, "expires": 0, "avg_ttl": 0},
    }
    return ServerReading.parse(info, {}, 0.0)


def _next(pace: Pace, state: ServerState, keys: int, budget_bytes: int) -> ServerState:
    """Return the state after what is due now; it evicts at once."""
    used = state.held_bytes
    (slowed,) = pace.slowed([state], {"s": _reading(used, keys)}, {}, budget_bytes)
    for transition in resolve([slowed], budget_bytes):
        if isinstance(transition, Shrink):
            size = transition.to_bytes
            state = replace(state, maxmemory_bytes=size, held_bytes=min(used, size))
    return state


def test_a_server_whose_evictions_are_dearer_shrinks_more_slowly() -> None:
    """With 3,000 samples clients waited 42 to 58 ms at the pace of 5, and 1.3 to 3.8 with 5."""
    state = ServerState("s", 64 * MB, 64 * MB, 8 * MB, in_shrink_mode=True)
    gave = []
    for samples in ("1", "5", "10", "3000"):
        reading = ServerReading.parse(
            {**INFO, "maxmemory": 64 * MB, "used_memory": 64 * MB},
            {"maxmemory-samples": samples},
            0.0,
        )
        (slowed,) = Pace(Clock()).slowed([state], {"s": reading}, {}, 64 * MB)
        gave.append(64 * MB - slowed.floor_bytes)
    assert gave[0] == gave[1]
    assert gave[1] == pytest.approx(2 * gave[2], rel=1e-3)
    assert gave[1] == pytest.approx(64 / 5 * gave[3], rel=1e-3)


@example(27_395_952_480, 27_395_952_480, 0.0, 29_317_128, [8.0])
@example(1 << 38, 1 << 38, 0.0, 10**8, [0.1])
@given(
    st.integers(2 * MB, 1 << 38),
    st.integers(0, 1 << 38),
    st.floats(0, 1),
    st.integers(1, 10**8),
    st.lists(st.floats(0.001, 10), min_size=1, max_size=30),
)
def test_each_portion_is_small_and_the_target_is_reached(
    size_bytes: int, used_bytes: int, share: float, keys: int, waits: list[float]
) -> None:
    clock = Clock()
    pace = Pace(clock)
    used = min(used_bytes, size_bytes)
    target = max(MB, int(share * size_bytes))
    state = ServerState("s", size_bytes, used, target, in_shrink_mode=True)
    for wait in waits:
        before = state
        state = _next(pace, state, keys, size_bytes)
        evicted = before.held_bytes - state.held_bytes
        most = max(
            KEYS_PER_SECOND * before.held_bytes / keys,
            SIZE_RATIO_PER_SECOND * before.held_bytes,
            LEAST_BYTES_PER_SECOND,
        )
        assert evicted <= 2 * PORTION_SECONDS * most + 1
        assert target <= state.maxmemory_bytes <= before.maxmemory_bytes
        # What is not used goes at once.
        assert state.maxmemory_bytes <= max(target, before.held_bytes)
        clock.seconds += wait
    for _ in range(20_000):
        state = _next(pace, state, keys, size_bytes)
        clock.seconds += 2 * PORTION_SECONDS  # the longest that counts
        if state.maxmemory_bytes == target:
            break
    assert state.maxmemory_bytes == target
    assert not pace.is_waiting


def test_half_of_a_large_server_takes_minutes_and_of_a_small_one_too() -> None:
    for size_bytes, keys in ((1 << 37, 10**6), (500 * MB, 800_000), (500 * MB, 8_000_000)):
        clock = Clock()
        pace = Pace(clock)
        state = ServerState("s", size_bytes, size_bytes, size_bytes // 2, in_shrink_mode=True)
        while state.maxmemory_bytes > state.target_bytes:
            state = _next(pace, state, keys, size_bytes)
            clock.seconds += PORTION_SECONDS
        assert 20 < clock.seconds - 100.0 < 600


def test_above_the_budget_all_is_given_at_once() -> None:
    state = ServerState("s", 100 * MB, 100 * MB, 40 * MB, in_shrink_mode=True)
    assert _next(Pace(), state, 100_000, 90 * MB).maxmemory_bytes == 40 * MB
    assert _next(Pace(), state, 100_000, 100 * MB).maxmemory_bytes > 99 * MB


def test_where_a_server_would_refuse_writes_all_is_given_at_once() -> None:
    states = [
        ServerState("s", 100 * MB, 100 * MB, 40 * MB, in_shrink_mode=True),
        ServerState("t", 10 * MB, 10 * MB, 70 * MB),
    ]
    readings = {"s": _reading(100 * MB, 100_000), "t": _reading(10 * MB, 10)}
    slowed = Pace().slowed(states, readings, {"s": 5 * MB, "t": 11 * MB}, 110 * MB)
    assert [state.goal_bytes for state in slowed] == [40 * MB, 70 * MB]
    slowed = Pace().slowed(states, readings, {"s": 5 * MB, "t": 10 * MB}, 110 * MB)
    assert slowed[0].goal_bytes > 99 * MB


def test_shrink_mode_lasts_from_the_first_portion_to_the_last() -> None:
    pace = Pace(Clock())
    state = ServerState("s", 100 * MB, 100 * MB, 40 * MB)
    readings = {"s": _reading(100 * MB, 100_000)}
    found = resolve(pace.slowed([state], readings, {}, 100 * MB), 100 * MB)
    assert [type(one) for one in found] == [EnterShrinkMode, Shrink]
    state = replace(state, in_shrink_mode=True)
    # Between two portions nothing is to be done, and it is not over.
    assert list(resolve(pace.slowed([state], readings, {}, 100 * MB), 100 * MB)) == []
    assert pace.is_waiting


def test_a_lowered_maximum_takes_many_small_shrinks(make_node: MakeNode) -> None:
    node: ActuatedNode = make_node("24mb", "24mb", gradual=True)
    fill(node.servers["s0"], 24)
    node.settle(24, 24)
    before = node.metrics.value("config_set_maxmemory", instance="s0")
    node.actuator.intermediate_sizes.bounds_bytes = {"s0": (0, 22 * MB)}
    node.want(22, 24)
    node.step_until(lambda: node.maxmemory()["s0"] == 22 * MB)
    node.settle()
    # 2 MiB of keys of 1 KB, five hundred a portion at most.
    assert node.metrics.value("config_set_maxmemory", instance="s0") - before >= 3
    assert node.knob("s0", "maxmemory-eviction-tenacity") == "10"
    assert node.knob("s0", "hz") == "10"

"""A server that gives back too little, or says so for too long, is stuck."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from sidecar.base.metrics import Metrics
from sidecar.config.memory import MemoryConfig
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.servers.sizes import held_memory
from sidecar.servers.sizes.held_memory import LONGEST_FREEING_SECONDS, HeldMemory
from sidecar.servers.sizes.transitions import ServerState

MB = 1 << 20


@pytest.mark.parametrize(
    ("freed_ratio", "most_seconds"),
    [(0.0, 70), (0.015, 70), (0.3, LONGEST_FREEING_SECONDS + 10)],
)
def test_who_frees_too_little_or_for_too_long_is_stuck(
    monkeypatch: pytest.MonkeyPatch, freed_ratio: float, most_seconds: float
) -> None:
    now = 1000.0
    monkeypatch.setattr(held_memory, "time", SimpleNamespace(monotonic=lambda: now))
    held = HeldMemory("s0", MemoryConfig(budget_bytes=48 * MB), Metrics())
    bytes_held = 1e12
    began = now
    while not held.is_stuck(ServerState("s0", 16 * MB, round(bytes_held), 16 * MB)):
        now += 5
        bytes_held = 16 * MB + (bytes_held - 16 * MB) * (1 - freed_ratio / 9)
        assert now - began < most_seconds
    assert now - began > 60
    assert not held.is_stuck(ServerState("s0", 16 * MB, 16 * MB, 16 * MB))


def test_who_comes_down_to_its_limit_is_not_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(held_memory, "time", SimpleNamespace(monotonic=lambda: now))
    held = HeldMemory("s0", MemoryConfig(budget_bytes=48 * MB), Metrics())
    for bytes_held in range(900 * MB, 0, -10 * MB):
        assert not held.is_stuck(ServerState("s0", 16 * MB, bytes_held, 16 * MB))
        now += 5


# --- Resident memory that does not come back is waited for once, not after each shrink.


def _reading(maxmemory_bytes: int, resident_bytes: int) -> ServerReading:
    rss = resident_bytes * held_memory.RSS_ALLOWANCE_RATIO + held_memory.RSS_ALLOWANCE_BYTES
    info = {
        "run_id": "a" * 40,
        "maxmemory": maxmemory_bytes,
        "used_memory": maxmemory_bytes,
        "used_memory_rss": round(rss),
        "keyspace_hits": 0,
        "keyspace_misses": 0,
    }
    return ServerReading.parse(info, {}, 0.0)


@pytest.fixture
def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    now = [1000.0]
    monkeypatch.setattr(held_memory.time, "monotonic", lambda: now[0])

    def pass_time(seconds: float) -> None:
        now[0] += seconds

    return pass_time


def test_what_stays_after_one_shrink_is_not_waited_for_after_the_next(
    pass_time: Callable[[float], None],
) -> None:
    metrics = Metrics()
    memory = MemoryConfig(1000 * MB, rss_wait_seconds=60.0)
    held = HeldMemory("a", memory, metrics)
    held.note_shrink()
    assert held.held_bytes(_reading(400 * MB, 500 * MB), shrinks=False) == pytest.approx(500 * MB)
    pass_time(61.0)
    assert held.held_bytes(_reading(400 * MB, 500 * MB), shrinks=False) == 400 * MB
    assert metrics.value("rss_waits_given_up") == 1
    for size in (390 * MB, 380 * MB):
        held.note_shrink()
        assert held.held_bytes(_reading(size, 490 * MB), shrinks=False) == size
    pass_time(61.0)
    assert held.held_bytes(_reading(380 * MB, 490 * MB), shrinks=False) == 380 * MB
    assert metrics.value("rss_waits_given_up") == 1
    # What came back after all is waited for again.
    held.note_shrink()
    assert held.held_bytes(_reading(390 * MB, 390 * MB), shrinks=False) == 390 * MB
    held.note_shrink()
    assert held.held_bytes(_reading(300 * MB, 390 * MB), shrinks=False) == pytest.approx(390 * MB)


def test_pages_that_no_keys_brought_are_not_waited_for() -> None:
    """A client left 100 MiB to Lua's collector, for a moment less than the wait, again and again:
    nobody grew."""
    held = HeldMemory("a", MemoryConfig(1000 * MB, rss_wait_seconds=60.0), Metrics())

    def holds(maxmemory: int, resident: int, *, shrinks: bool) -> int:
        reading = _reading(maxmemory * MB, resident * MB)
        return round(held.held_bytes(reading, shrinks=shrinks) / MB)

    assert holds(500, 500, shrinks=False) == 500
    held.note_shrink()
    assert holds(400, 600, shrinks=True) == 500
    assert holds(400, 410, shrinks=True) == 410
    assert holds(400, 600, shrinks=True) == 410
    # What keys fill again, the next shrink has to free.
    assert holds(450, 450, shrinks=False) == 450
    held.note_shrink()
    assert holds(400, 600, shrinks=True) == 450

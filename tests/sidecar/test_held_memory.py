"""A server that gives back too little, or says so for too long, is stuck."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sidecar.base.metrics import Metrics
from sidecar.config.memory import MemoryConfig
from sidecar.servers import held_memory
from sidecar.servers.held_memory import LONGEST_FREEING_SECONDS, HeldMemory
from sidecar.servers.transitions import ServerState

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

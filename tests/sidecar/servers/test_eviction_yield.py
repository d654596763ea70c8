"""What a shrink teaches: of memory that goes with its keys, and of memory that does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.base.metrics import Metrics
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.servers.eviction_yield import FORGET_SECONDS, SURE_SECONDS, EvictionYield
from tests.sidecar.monitored_load import STATS

MB = 1 << 20
KEYS, KEY_BYTES, BASELINE = 10_000, 1024, MB


def _reading(
    keys: int, beside: int = 0, *, limit: int | None = None, late: float = 0.0
) -> ServerReading:
    """A look for each hundred keys that went, each as long after the one before as makes it sure;
    ``late``: seconds more."""
    counted = BASELINE + beside + keys * KEY_BYTES
    return replace(
        STATS,
        at_seconds=STATS.at_seconds + (KEYS - keys) / 100 * SURE_SECONDS + late,
        keys=keys,
        counted_bytes=counted,
        baseline_bytes=BASELINE,
        unevictable_bytes=BASELINE,
        maxmemory_bytes=counted if limit is None else limit,
    )


def _known_bytes(read: ServerReading) -> int:
    """What is sure: until then it is only shrunk no further."""
    return read.baseline_bytes - BASELINE


@pytest.mark.parametrize("beside", [0, 2 * MB, 8 * MB, 20 * MB])
def test_what_keys_do_not_bring_back_is_found_before_many_are_gone(beside: int) -> None:
    """Exactly as much as there is, once it is more than half of what is left."""
    learns = EvictionYield("a", Metrics())
    for keys in range(KEYS, 0, -100):
        read = learns.learn(_reading(keys, beside))
        if _known_bytes(read):
            assert read.unevictable_bytes == read.baseline_bytes
            assert read.unyielding_bytes == pytest.approx(beside, abs=KEY_BYTES)
            assert keys * KEY_BYTES <= beside
            assert KEYS - keys <= KEYS // 20 + 100 or (keys + 200) * KEY_BYTES >= beside
            return
    assert beside == 0


def test_what_is_left_without_a_key_is_none_whatever_it_is_given_meanwhile() -> None:
    """Who takes all at once leaves no key: with none, all that a server holds seemed to be needed,
    and with a first one nothing. It was given room and lost it again, several times a second."""
    learns = EvictionYield("a", Metrics())
    learns.learn(_reading(KEYS, 8 * MB))
    for tenth in range(60):
        keys, limit = (0, 6 * MB) if tenth % 4 < 2 else (120, 10 * MB)
        now = _reading(keys, 8 * MB, limit=limit)
        now = replace(now, at_seconds=STATS.at_seconds + tenth / 10)
        if not keys:
            now = replace(now, unevictable_bytes=now.counted_bytes)
        read = learns.learn(now)
    assert read.unevictable_bytes == pytest.approx(BASELINE + 8 * MB, rel=0.06)
    assert read.baseline_bytes == read.unevictable_bytes


def test_a_server_that_lost_all_its_keys_keeps_little_of_its_own() -> None:
    learns = EvictionYield("a", Metrics())
    learns.learn(_reading(KEYS))
    for tenth in range(60):
        now = _reading(0, MB // 8, limit=2 * MB)
        now = replace(now, at_seconds=STATS.at_seconds + tenth / 10)
        assert not _known_bytes(learns.learn(replace(now, unevictable_bytes=now.counted_bytes)))


def test_without_a_shrink_nothing_is_learned() -> None:
    """Keys expire and are deleted, and buffers come, for other reasons."""
    learns = EvictionYield("a", Metrics())
    for number, keys in enumerate(range(KEYS, 0, -100)):
        read = learns.learn(_reading(keys, number * MB, limit=200 * MB))
        assert not _known_bytes(read)


def _taught() -> EvictionYield:
    learns = EvictionYield("a", Metrics())
    for keys in (KEYS, KEYS - 500, KEYS - 600):
        read = learns.learn(_reading(keys, 20 * MB))
    assert _known_bytes(read) > 0
    return learns


def test_buffers_that_are_never_told_are_found_out_when_they_are_gone() -> None:
    """Connections that are replaced all the time: none is there when a server looks at it."""
    learns = EvictionYield("a", Metrics())
    assert not _known_bytes(learns.learn(_reading(KEYS)))
    seen = _reading(KEYS - 600)
    for tenth in range(5, 50):
        now = replace(seen, at_seconds=seen.at_seconds + tenth / 10)
        read = learns.learn(replace(now, counted_bytes=now.counted_bytes + 8 * MB))
    assert _known_bytes(read)
    assert not _known_bytes(learns.learn(replace(now, at_seconds=now.at_seconds + 1)))


@pytest.mark.parametrize("told_late", [0.0, 1.0])
def test_buffers_that_come_and_go_are_no_memory_that_stays(told_late: float) -> None:
    """A server tells up to a second late that what took its keys' place are clients' buffers: a
    stranger with a burst of two seconds had it keep what it does not need for six hours."""
    learns = EvictionYield("a", Metrics())
    assert not _known_bytes(learns.learn(_reading(KEYS)))
    for tenth in range(5, 30):
        buffers = 8 * MB if tenth < 25 else 0
        now = _reading(KEYS - 600, late=tenth / 10)
        is_told = tenth / 10 >= told_late
        unevictable = BASELINE + (buffers if is_told else 0)
        seen = replace(now, counted_bytes=now.counted_bytes + buffers)
        read = learns.learn(replace(seen, unevictable_bytes=unevictable))
        assert not _known_bytes(read), tenth


@pytest.mark.parametrize(
    "change",
    [
        {"run_id": "b" * 40},
        {"at_seconds": STATS.at_seconds + FORGET_SECONDS + 100},
        {"counted_bytes": 19 * MB},
    ],
)
def test_it_is_forgotten_after_a_restart_a_while_or_where_it_was_freed(
    change: dict[str, object],
) -> None:
    taught = _taught()
    now = _reading(KEYS - 600, 20 * MB)
    assert _known_bytes(taught.learn(now))
    assert not _known_bytes(taught.learn(replace(now, **change)))  # type: ignore[arg-type]


@pytest.mark.parametrize("ignores", ["yes", "no"])
def test_what_the_primary_drops_of_a_replica_teaches_nothing(ignores: str) -> None:
    """Its keys go by no limit of its own: while it is shrunk, and what came before it was one."""
    learns = EvictionYield("a", Metrics())
    config = {"replica-ignore-maxmemory": ignores}

    def read(keys: int, role: str) -> int:
        now = replace(_reading(keys, 20 * MB), role=role, config=config)
        return _known_bytes(learns.learn(now))

    assert not read(KEYS, "master")
    assert not read(KEYS - 600, "slave")
    assert not read(KEYS - 1200, "slave")
    assert bool(read(KEYS - 1300, "slave")) == (ignores == "no")


def test_what_a_replica_lost_teaches_nothing_when_it_is_promoted() -> None:
    learns = EvictionYield("a", Metrics())
    for keys, role in ((KEYS, "slave"), (KEYS - 100, "slave"), (KEYS - 600, "master")):
        assert not _known_bytes(learns.learn(replace(_reading(keys, 20 * MB), role=role)))
    assert not _known_bytes(learns.learn(_reading(KEYS - 1400, 20 * MB)))
    assert _known_bytes(learns.learn(_reading(KEYS - 1500, 20 * MB)))

"""Servers that gave room to others miss what they lost by that, whatever plan comes next."""

from __future__ import annotations

from dataclasses import replace

from sidecar.control.room_givers import RoomGivers
from tests.sidecar.monitored_load import STATS

MB = 1 << 20


def test_who_gave_room_refills_until_it_holds_what_it_held() -> None:
    """A plan was judged by misses of caches that had been emptied before it was made."""
    givers, targets = RoomGivers(), {"a": 24 * MB}

    def look(at_seconds: float, used_mb: float, *, gives: bool = False) -> bool:
        reading = replace(STATS, counted_bytes=int(used_mb * MB), at_seconds=at_seconds)
        givers.take_readings({"a": reading, "b": None}, {"a"} if gives else (), targets, 3600.0)
        return "a" in givers.refilling

    assert not look(0, 20)
    assert not look(1, 8, gives=True)  # it is told apart already
    assert look(2, 9)
    assert look(60, 19)
    assert not look(61, 19.5)
    assert not look(62, 8)  # keys that expire are no room
    # It is to hold less by now.
    assert not look(63, 20)
    assert not look(64, 8, gives=True)
    targets["a"] = 10 * MB
    assert look(65, 9)
    assert not look(66, 9.8)
    # Its load has become less.
    assert not look(100, 9.8)
    assert not look(101, 4, gives=True)
    assert look(3700, 5)
    assert not look(3702, 5)

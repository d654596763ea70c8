"""Tells how fast servers shrink where nothing presses: their clients are not to feel it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sidecar.servers.connection.server_reading import ServerReading
from sidecar.servers.sizes.transitions import ServerState

# An eviction takes about two microseconds, and who sends a request then waits for it: at this rate
# one request in a hundred meets one.
KEYS_PER_SECOND = 5_000
# That is with the default of ``maxmemory-samples``: each key that is looked at takes its time.
USUAL_SAMPLES = 5
# A large server is not shrunk for hours: half of it goes within minutes.
SIZE_RATIO_PER_SECOND = 0.0025
LEAST_BYTES_PER_SECOND = 1 << 20
PORTION_SECONDS = 0.1
# After each portion it is seen what the keys that went brought back: a part of them has to be left.
MOST_PORTION_RATIO = 0.02


class Pace:
    """Slows down shrinks of one node's servers. ``now``: seconds, of a clock that does not jump.

    Attributes:
        is_waiting: a server is about to give its next portion.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._portion_at: dict[str, float] = {}
        self.is_waiting = False

    def slowed(
        self,
        states: Sequence[ServerState],
        readings: Mapping[str, ServerReading],
        least_bytes: Mapping[str, int],
        budget_bytes: float,
    ) -> list[ServerState]:
        """Return the states, with how far each may be shrunk now. It gives at once what it does not
        use, and the rest in portions; it stops where keys go in vain. All is given at once where
        the sizes exceed the budget, or one has less than it needs to take writes
        (``least_bytes``)."""
        presses = sum(_limit_bytes(state) for state in states) > budget_bytes or any(
            state.maxmemory_bytes < least_bytes.get(state.name, 0) for state in states
        )
        self.is_waiting = False
        slowed = []
        for state in states:
            reading = readings.get(state.name)
            floor = 0 if presses else self._floor_bytes(state, reading)
            if reading is not None and not presses and _shrinks_in_vain(state, reading):
                floor = reading.maxmemory_bytes
            slowed.append(replace(state, floor_bytes=max(floor, state.floor_bytes)))
            self.is_waiting |= floor > max(state.target_bytes, state.floor_bytes)
        return slowed

    def _floor_bytes(self, state: ServerState, reading: ServerReading | None) -> int:
        lowest = max(state.target_bytes, state.floor_bytes)
        shrinks = state.moves and lowest < state.maxmemory_bytes < math.inf
        if not shrinks or reading is None:
            self._portion_at.pop(state.name, None)
            return 0
        used = int(min(reading.counted_bytes, state.maxmemory_bytes))
        if used <= lowest:
            return 0
        now = self._now()
        last = self._portion_at.get(state.name)
        waited = PORTION_SECONDS if last is None else now - last
        if waited < PORTION_SECONDS:
            return used
        self._portion_at[state.name] = now
        # After a wait that was longer, for whatever reason, there is no burst.
        portion = _bytes_per_second(reading) * min(waited, 2 * PORTION_SECONDS)
        return used - math.ceil(min(portion, MOST_PORTION_RATIO * used))


def _shrinks_in_vain(state: ServerState, reading: ServerReading) -> bool:
    is_in_vain = reading.unyielding_bytes > 0 or reading.seems_unyielding
    return is_in_vain and state.target_bytes < reading.unevictable_bytes


def _limit_bytes(state: ServerState) -> float:
    return state.maxmemory_bytes if state.moves else state.counted_bytes


def _bytes_per_second(reading: ServerReading) -> float:
    of_keys = max(0, reading.counted_bytes - reading.baseline_bytes)
    by_keys = KEYS_PER_SECOND * of_keys / reading.keys if reading.keys else 0.0
    by_size = SIZE_RATIO_PER_SECOND * reading.counted_bytes
    dearer = max(1.0, reading.maxmemory_samples / USUAL_SAMPLES)
    return max(by_keys, by_size, LEAST_BYTES_PER_SECOND) / dearer

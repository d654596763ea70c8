"""The stack and SHARDS by their definitions: lists, searched from end to end."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from sidecar.curves.lru_stack import COLD, UNSEEN_HIT, LruStack
from sidecar.samples.batch import Batch
from sidecar.samples.wire_format import FLAG_SIZE_ALLOCATED, FLAG_SIZE_KNOWN, FLAG_TTL, UNKNOWN_DB
from tests.oracles import lru_stack as in_python

READ_HIT, READ_MISS, WRITE, DELETE, EXPIRY, EVICTION, FLUSH, SWAP = range(1, 9)
Key = Hashable


@dataclass
class Entry:
    """An object, or a hole (no key)."""

    key: Key | None
    weight: int


class NaiveStack:
    """Weighted objects and holes in one list, most recent first; distances by adding up."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def live(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.key is not None]

    def total_weight(self) -> int:
        """Down to the last object."""
        last = max((i for i, e in enumerate(self.entries) if e.key is not None), default=-1)
        return sum(entry.weight for entry in self.entries[: last + 1])

    def place(self, key: Key) -> int | None:
        return next((i for i, entry in enumerate(self.entries) if entry.key == key), None)

    def access(self, key: Key, operation: int, weight: int, default: int) -> tuple[int, int] | None:
        place = self.place(key)
        if operation in (DELETE, EXPIRY):
            if place is not None:
                self.entries[place].key = None
            return None
        if operation == EVICTION:
            return None
        told = None
        if place is None:
            if operation == READ_MISS:
                return COLD, 0
            room = weight = weight or default
            if operation == READ_HIT:
                told = UNSEEN_HIT, weight
        else:
            room = self.entries[place].weight
            if operation != WRITE:
                told = sum(entry.weight for entry in self.entries[:place]), room
            weight = weight or room
            self.entries[place].key = None
        for entry in self.entries:
            if entry.key is None:
                filled = min(room, entry.weight)
                entry.weight -= filled
                room -= filled
        kept = [entry for entry in self.entries if entry.key is not None or entry.weight]
        self.entries = [Entry(key, weight), *kept]
        return told


def allocated(size: int) -> int:
    """The least of jemalloc's classes that is not smaller."""
    taken = 0
    while taken < size:
        taken += 16 if taken < 128 else 2 ** (taken.bit_length() - 3)
    return taken


class NaiveShards:
    """Record by record; a key is (db, hash)."""

    def __init__(self, live_objects: int | None, volatile: bool) -> None:
        self.live_objects = live_objects
        self.volatile = volatile
        self.stack = NaiveStack()
        self.pinned: dict[tuple[int, int], int] = {}
        self.threshold: int | None = None

    def take(self, batch: Batch, overhead: int, default: int, resident_bytes: float) -> list[float]:
        if self.threshold is None or batch.threshold < self.threshold:
            self._lower(batch.threshold, batch.modulus)
        assert self.threshold is not None
        rate = self.threshold / batch.modulus
        told: list[tuple[tuple[int, int], float] | None] = []
        for record in batch.records:
            key = int(record["db"]), int(record["hash"])
            operation = int(record["operation"])
            size = int(record["size_bytes"])
            if operation == FLUSH:
                self._flush(key[0])
            elif operation == SWAP:
                turn = {key[0]: size, size: key[0]}
                self._rename(lambda k, turn=turn: (turn.get(k[0], k[0]), k[1]))  # type: ignore[misc]
            elif key[1] % batch.modulus < self.threshold:
                if not record["flags"] & FLAG_SIZE_ALLOCATED:
                    size = allocated(size)
                weight = max(1, size + overhead) if record["flags"] & FLAG_SIZE_KNOWN else 0
                has_ttl = bool(record["flags"] & FLAG_TTL)
                by_patch = batch.source == 1
                read = self._access(key, operation, weight, default, has_ttl, by_patch)
                told.append(read and (read, sum(self.pinned.values()) / rate))
        least = self.stack.total_weight() / (rate or 1)
        distances = []
        for pair in told:
            if pair is None:
                continue
            (above, own), pinned = pair
            if above == COLD:
                distances.append(float("inf"))
            elif above == UNSEEN_HIT:
                distances.append((least + pinned + max(least + pinned, resident_bytes)) / 2)
            else:
                distances.append(above / (rate or 1) + own + pinned)
        live = [*(entry.key for entry in self.stack.live()), *self.pinned]
        if self.live_objects is not None and len(live) > self.live_objects:
            lows = sorted(key[1] % batch.modulus for key in live)  # type: ignore[index]
            self._lower(lows[self.live_objects - self.live_objects // 16], batch.modulus)
        return distances

    def _access(
        self,
        key: tuple[int, int],
        operation: int,
        weight: int,
        default: int,
        has_ttl: bool,
        ttl_known: bool,
    ) -> tuple[int, int] | None:
        told = ttl_known or operation == WRITE or weight or key in self.pinned
        if self.volatile and operation in (READ_HIT, WRITE) and told and not has_ttl:
            self.pinned[key] = weight or self.pinned.get(key, default)
            self.stack.access(key, DELETE, 0, default)
            return (0, 0) if operation == READ_HIT else None
        if self.volatile and operation != EVICTION:
            self.pinned.pop(key, None)
        return self.stack.access(key, operation, weight, default)

    def _lower(self, threshold: int, modulus: int) -> None:
        self.threshold = threshold
        self.stack.entries = [
            entry
            for entry in self.stack.entries
            if entry.key is None or entry.key[1] % modulus < threshold  # type: ignore[index]
        ]
        self.pinned = {k: w for k, w in self.pinned.items() if k[1] % modulus < threshold}

    def _flush(self, db: int) -> None:
        if db == UNKNOWN_DB:
            self.stack.entries, self.pinned = [], {}
            return
        for entry in self.stack.live():
            if entry.key[0] in (db, UNKNOWN_DB):  # type: ignore[index]
                entry.key = None
        self.pinned = {k: w for k, w in self.pinned.items() if k[0] not in (db, UNKNOWN_DB)}

    def _rename(self, new: Callable[[tuple[int, int]], tuple[int, int]]) -> None:
        for entry in self.stack.live():
            entry.key = new(entry.key)  # type: ignore[arg-type]
        self.pinned = {new(key): weight for key, weight in self.pinned.items()}


def weights_of(stack: LruStack | in_python.LruStack) -> list[int]:
    """Return the weights of the live objects, least recently used first."""
    if isinstance(stack, in_python.LruStack):
        return list(stack._weights[stack._live()])
    return list(stack.listed()[1])

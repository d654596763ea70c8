"""Makes records of a server's accesses from the idle times of its keys.

Each round asks the idle time of every followed key. An idle time that fell tells of an access, and
in which second it was. A key that is gone was evicted, or it expired or was deleted; one that is
back was missed and filled. A key that is found for the first time was there before, by its idle
time, or was missed and filled since. The records are those that a sampler in the server would send,
with one difference. Of accesses within the same second, or between two rounds, the last counts: the
others are hits at any size that matters.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sidecar.look.followed_keys import NEVER, FollowedKey, FollowedKeys
from sidecar.look.key_scan import KeyScan
from sidecar.look.question_cost import within_own_time
from sidecar.look.question_encoding import packed
from sidecar.look.server_questions import (
    MOST_AT_ONCE,
    CannotBeLookedAtError,
    LookedServer,
    Told,
)
from sidecar.samples.batch import Batch, record_type
from sidecar.samples.wire_format import (
    DEFAULT_MODULUS,
    FLAG_SIZE_ALLOCATED,
    FLAG_SIZE_KNOWN,
    FLAG_TTL,
    FLAG_TTL_KNOWN,
    SOURCE_PATCH,
    Operation,
)
from sidecar.servers.connection.server_errors import ITS_WORDS

# What a look found, in the form in which a sampler in the server would send it.
_MOST_U4 = 2**32 - 1
_RECORD = record_type()


class LookRecord(NamedTuple):
    """Tells what happened to a key, in which second by the server's clock; ``tie`` orders equal
    ones."""

    second: int
    tie: float
    operation: Operation
    key: FollowedKey


def record_table(records: Sequence[LookRecord], now_seconds: float) -> npt.NDArray[Any]:
    """Return the records as a table in their order, shape (n,), with TTLs as they are left now
    (Unix time)."""
    table = np.zeros(len(records), _RECORD)
    for place, record in enumerate(records):
        key = record.key
        left_ms = min(_MOST_U4, max(0, key.expires_at_seconds - now_seconds) * 1e3)
        flags = FLAG_SIZE_KNOWN | FLAG_SIZE_ALLOCATED if key.size_bytes else 0
        if key.expires_at_seconds < NEVER:
            flags |= FLAG_TTL | FLAG_TTL_KNOWN
        table[place] = (
            *(key.hash, min(key.size_bytes, _MOST_U4), key.database & 0xFFFF),
            *(record.operation, flags, left_ms if flags & FLAG_TTL else 0, 0),
        )
    return table


# Followed of one server, those that are gone included.
MOST_KEYS = 8_192
# At first there are so many of them: the others come and go.
_FIRST_KEYS = MOST_KEYS * 2 // 3
# Of a cluster's node: to go through them takes it some .6 s.
MOST_CLUSTER_KEYS = 500_000
# The sampled part of a server may grow to so many times the keys that are followed.
_MOST_GROWTH = 16
# And so many times are kept while they are looked for: then fewer of them are followed.
_MOST_KEPT = 4
# The keys are too few if there are so many times fewer than there would be.
_MOST_THIN = 16
# One round may take so much of our processor: anybody may be answering.
_MOST_ROUND_SECONDS = 10.0
# Asked at once, between two looks at the server's clock.
_CHUNK = 1_024
# Where few keys are new, every so many rounds are enough to look for them.
_MOST_ROUNDS = 16
_FEW_NEW = 0.01

Answer = int | None | Exception


class IdleTimeSampler:
    """Samples one server's keys by their idle times.

    Raises:
        CannotBeLookedAtError: to find a sample of its keys would cost too much.

    Attributes:
        keys: that are followed.
        oldest_seconds: idle time that nine in ten of the sampled keys are below.
    """

    def __init__(
        self,
        server: LookedServer,
        told: Told,
        *,
        most_keys: int = MOST_KEYS,
        scans_after_seconds: float = math.inf,
    ) -> None:
        """Look for new keys at least every ``scans_after_seconds``: what is missed is known only
        then."""
        self._server = server
        total = sum(told.databases.values())
        first = most_keys if total <= most_keys else _FIRST_KEYS * most_keys // MOST_KEYS
        # In a cluster's node SCAN goes by slots, so no part of its way is a sample.
        if told.is_cluster and total > MOST_CLUSTER_KEYS:
            raise CannotBeLookedAtError(
                f"is a node of a cluster and holds more than {MOST_CLUSTER_KEYS:,} keys, all of "
                "which would have to be gone through",
                told.reading.size_bytes,
            )
        self._scan = KeyScan(server, first, whole=told.is_cluster or total <= most_keys)
        # Its clients could fill it meanwhile, and then this process.
        self._most_found = 2 * MOST_CLUSTER_KEYS if told.is_cluster else _MOST_GROWTH * most_keys
        self._most_keys, self._most_kept = most_keys, _MOST_KEPT * most_keys
        self._random = Random(0)
        self.keys = FollowedKeys(os.urandom(16))
        self._hashed_share = min(1.0, first / max(1, total)) if told.is_cluster else 1.0
        self._salt_id = int.from_bytes(os.urandom(8), "little")
        self.oldest_seconds = 0.0
        self._rounds_to_scan, self._rounds_between = 0, 1
        self._scans_after_seconds = scans_after_seconds
        self._scanned_since: int | None = None
        self._scan_began = self._evicted = 0
        self._sequence = self._sampled = self._seen_reads = 0
        self._counted = 0
        self._last_us = round(told.reading.at_seconds * 1e6)

    def round(
        self, tell: Callable[[], Told], is_over: Callable[[], bool] = lambda: False
    ) -> tuple[Batch, Told]:
        """Ask once more; what that told. ``tell`` asks for the server's figures, of which our own
        questions are taken away.

        Raises:
            CannotBeLookedAtError: the server does not let itself be asked this.
            ServerDownError, ServerRefusedError: as LookedServer.
        """
        is_over = within_own_time(is_over, _MOST_ROUND_SECONDS)
        found = self._look_for_keys(is_over)
        answers = self._idle_times(is_over)
        with self._server.own.alone:
            told = tell()
            told = replace(told, reading=self._server.own.left_out(told.reading))
        went = told.evicted - self._evicted if self._sequence else 0
        self._evicted = told.evicted
        now = told.reading.at_seconds
        records: list[LookRecord] = []
        unknown: list[FollowedKey] = []
        for key, second in answers:
            records += self._record(key, second, now, went > 0)
            is_back = second is not None and not key.is_present
            if is_back or (second is not None and key.expires_at_seconds <= now):
                unknown.append(key)
            key.is_present = second is not None
            key.second = key.second if second is None else second
        self._ask_more(unknown, now, is_over)
        self.keys.keep(lambda key: key.second is not None)
        records.sort(key=lambda record: record[:2])
        if found is not None:
            self._look_again_after(found)
        return self._batch(records, told), told

    def is_too_thin(self, told: Told) -> bool:
        """Whether so few keys are left below T, where a look that begins now would follow many."""
        total = sum(told.databases.values())
        followed = total * self.keys.threshold / DEFAULT_MODULUS
        return followed < min(total, self._most_keys) / _MOST_THIN

    def _look_for_keys(self, is_over: Callable[[], bool]) -> int | None:
        """Return how many new ones there are; ``None``: nobody looked for any."""
        began, since = self._server.lru_clock(), self._scanned_since
        is_soon = since is None or began - since < self._scans_after_seconds
        if self._rounds_to_scan > 0 and is_soon:
            self._rounds_to_scan -= 1
            return None
        is_settled = self._scan.is_settled
        if is_settled and since is None:
            self.keys.settle(1.0, self._hashed_share)
        # Keys of the first database, until it has told which share of its keys they are.
        first: list[tuple[int, bytes]] = []
        found = new = 0
        for database, names in self._scan.passed(self._databases):
            found += len(names)
            if self._scan.is_settled and not is_settled:
                is_settled, new = True, self._settle(first)
            here = [(database, name) for name in names]
            if is_settled:  # names of clients' choice are not gathered
                new += self._add(here)
            else:
                first += here
            if found > self._most_found:
                raise CannotBeLookedAtError("has many times the keys that it had: look again")
            if is_over():
                if since is None:
                    raise CannotBeLookedAtError("answers so slowly that its keys were not found")
                return None
        self._scan_began = began
        return new if is_settled else self._settle(first)

    def _settle(self, first: Iterable[tuple[int, bytes]]) -> int:
        self.keys.settle(self._scan.share, self._hashed_share)
        return self._add(first)

    def _add(self, found: Iterable[tuple[int, bytes]]) -> int:
        """Add keys, and return how many are new. Of too many, only a part is followed from then
        on."""
        new = sum(self.keys.add(database, name) is not None for database, name in found)
        if len(self.keys) > self._most_kept:
            self.keys.keep_at_most(self._most_kept // 2)
        return new

    @property
    def _databases(self) -> list[int]:
        told = self._server.databases
        return sorted(told, key=lambda number: -told[number]) or [0]

    def _look_again_after(self, new: int) -> None:
        if self._scanned_since is not None:
            few = new < _FEW_NEW * len(self.keys)
            step = self._rounds_between * 2 if few else self._rounds_between // 2
            self._rounds_between = min(_MOST_ROUNDS, max(1, step))
        self._scanned_since = self._scan_began
        self._rounds_to_scan = self._rounds_between - 1

    def _idle_times(self, is_over: Callable[[], bool]) -> list[tuple[FollowedKey, int | None]]:
        """Ask for the second of each key's last access, until it ``is_over``. ``None``: the key is
        gone."""
        found: list[tuple[FollowedKey, int | None]] = []
        by_database: dict[int, list[FollowedKey]] = {}
        for key in self.keys:
            by_database.setdefault(key.database, []).append(key)
        idle: list[int] = []
        clock = self._server.lru_clock()
        for database, keys in by_database.items():
            self._server.select(database)
            for start in range(0, len(keys), _CHUNK):
                if is_over():
                    return found
                part = keys[start : start + _CHUNK]
                answers, clock = self._asked(part, clock)
                found += zip(part, [self._second(one, clock) for one in answers], strict=True)
                idle += [one for one in answers if isinstance(one, int)]
        if idle:
            self.oldest_seconds = float(np.quantile(idle, 0.9))
        return found

    def _asked(self, keys: Sequence[FollowedKey], clock: int) -> tuple[list[Answer], int]:
        """Return answers to ``OBJECT IDLETIME``, and what the server's clock said all the while.
        Where it went on, they are asked once more."""
        questions = [key.question for key in keys]
        answers: list[Answer] = []
        for _ in range(2):
            answers = self._server.ask_after_keys(questions, "object|idletime", None)
            before, clock = clock, self._server.lru_clock()
            if clock == before:
                break
        return answers, clock

    def _second(self, answer: Answer, clock: int) -> int | None:
        if isinstance(answer, Exception):
            raise CannotBeLookedAtError(_refusal_words(self._server.said(answer)))
        return None if answer is None else clock - answer

    def _record(
        self, key: FollowedKey, second: int | None, now: float, evicts: bool
    ) -> list[LookRecord]:
        tie = self._random.random()
        if second is None:
            if not key.is_present:
                return []
            operation = Operation.EVICTION if evicts else Operation.DELETE
            if key.expires_at_seconds <= now:
                operation = Operation.EXPIRY
            return [LookRecord(-1, tie, operation, key)]
        if key.is_present:
            if key.second is None or second <= key.second:
                return []
            return [LookRecord(second, tie, Operation.READ_HIT, key)]
        # Found for the first time, its idle time tells whether it was there before the look.
        since = self._scanned_since
        was_there = key.second is None and (since is None or second < since)
        missed = [] if was_there else [LookRecord(second, tie, Operation.READ_MISS, key)]
        return [*missed, LookRecord(second, tie, Operation.WRITE, key)]

    def _ask_more(
        self, keys: Sequence[FollowedKey], now: float, is_over: Callable[[], bool]
    ) -> None:
        """Ask for size and TTL of keys that came or came back."""
        for key in keys:
            key.expires_at_seconds = NEVER
        for database in {key.database for key in keys}:
            self._server.select(database)
            here = [key for key in keys if key.database == database]
            for start in range(0, len(here), MOST_AT_ONCE):
                if is_over():
                    return
                part = here[start : start + MOST_AT_ONCE]
                sizes = [packed("MEMORY", "USAGE", key.name) for key in part]
                ttls = [packed("PTTL", key.name) for key in part]
                answers = self._server.ask_numbers(sizes, "memory|usage")
                lives = self._server.ask_after_keys(ttls, "pttl", -2)
                for key, size_bytes, left_ms in zip(part, answers, lives, strict=True):
                    if isinstance(size_bytes, int):
                        key.size_bytes = size_bytes
                    if isinstance(left_ms, int):
                        key.expires_at_seconds = now + left_ms / 1e3 if left_ms >= 0 else NEVER

    def _batch(self, records: Sequence[LookRecord], told: Told) -> Batch:
        now = told.reading.at_seconds
        table = record_table(records, now)
        reads = told.reading.keyspace_hits + told.reading.keyspace_misses
        if self._sequence:  # what came before the first round is nobody's
            self._seen_reads += max(0, reads - self._counted)
        self._counted = reads
        self._sampled += len(records)
        at_us = max(self._last_us, round(now * 1e6))
        batch = Batch(
            *(SOURCE_PATCH, table, told.reading.instance, self._sequence, at_us, at_us),
            *(self.keys.threshold, DEFAULT_MODULUS, self._salt_id),
            *(self._seen_reads, self._seen_reads, self._sampled),
            dropped=0,
            secret=b"",
        )
        self._sequence, self._last_us = self._sequence + 1, at_us
        return batch


def _refusal_words(words: str) -> str:
    """Say why ``OBJECT IDLETIME`` was refused, as the end of a sentence that begins with the
    server's name."""
    if words.startswith(("MOVED", "ASK", "CLUSTERDOWN")):
        return "is a node of a cluster, and sends us elsewhere for its keys"
    if words.startswith("NOPERM"):
        return "does not let this user ask OBJECT IDLETIME of all keys: +object|idletime ~*"
    if "unknown command" in words:
        return "has no OBJECT IDLETIME: who hosts it may have switched it off"
    return f"refuses OBJECT IDLETIME: {ITS_WORDS}{words[:200]}"

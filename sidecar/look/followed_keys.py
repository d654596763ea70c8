"""Holds the keys that are followed: their names, for they must be asked again, and what is known of
them.

Everything else has a salted hash of a key. Nothing of this is written to a disk or a log.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from hashlib import blake2b

from sidecar.look.question_encoding import packed
from sidecar.samples.batch import DB_SHIFT, HASH_MASK
from sidecar.samples.wire_format import DEFAULT_MODULUS

_HASH_MASK = int(HASH_MASK)
_LOW_BITS = DEFAULT_MODULUS.bit_length() - 1
NEVER = math.inf


@dataclass(slots=True)
class FollowedKey:
    """Tells what is known of one key.

    Attributes:
        name: as the server has it.
        hash: its place below the threshold, and above it bits of the salted hash.
        question: ``OBJECT IDLETIME`` of it, as it is sent.
        second: of its last known access, by the server's clock; ``None`` until it is known.
        is_present: whether the server had it when it was last asked.
        size_bytes: that it takes; 0 is unknown.
        expires_at_seconds: Unix time; infinite without a TTL.
    """

    name: bytes
    database: int
    hash: int
    question: bytes
    second: int | None = None
    is_present: bool = False
    size_bytes: int = 0
    expires_at_seconds: float = NEVER

    @property
    def identity(self) -> int:
        """Return the key's number in the stack, see ``object_ids``."""
        return self.hash & _HASH_MASK | (self.database & 0xFFFF) << DB_SHIFT


class FollowedKeys:
    """Holds one server's keys that are followed, by database and name.

    Attributes:
        threshold: T of all of its keys, of ``DEFAULT_MODULUS``.
    """

    def __init__(self, salt: bytes) -> None:
        self._salt = salt
        self._keys: dict[tuple[int, bytes], FollowedKey] = {}
        self._share = 1.0
        self.threshold = DEFAULT_MODULUS

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[FollowedKey]:
        return iter(self._keys.values())

    def settle(self, share: float, hashed_share: float = 1.0) -> None:
        """The keys that will be found are this share of all, and of those a share by their hash is
        followed: T over P is both."""
        self._share = share
        found = math.ceil(share * hashed_share * DEFAULT_MODULUS)
        self.threshold = min(max(1, found), DEFAULT_MODULUS)

    def add(self, database: int, name: bytes) -> FollowedKey | None:
        """Add a key that was found, if it is new and below the threshold."""
        if (database, name) in self._keys:
            return None
        hashed = self._hash(database, name)
        if (hashed & (DEFAULT_MODULUS - 1)) >= self.threshold:
            return None
        key = FollowedKey(name, database, hashed, packed("OBJECT", "IDLETIME", name))
        self._keys[database, name] = key
        return key

    def _hash(self, database: int, name: bytes) -> int:
        """Hash a key. Where only a share of the keys is sampled, their places are below T all the
        same."""
        digest = blake2b(name, digest_size=8, key=self._salt, salt=database.to_bytes(4, "big"))
        hashed = int.from_bytes(digest.digest(), "little")
        place = int((hashed & (DEFAULT_MODULUS - 1)) * self._share)
        return hashed >> _LOW_BITS << _LOW_BITS | place

    def keep(self, is_wanted: Callable[[FollowedKey], bool]) -> None:
        """Leave the others alone from now on."""
        self._keys = {place: key for place, key in self._keys.items() if is_wanted(key)}

    def forget(self, identities: Collection[int]) -> None:
        """Leave these alone, as far as they are gone."""
        self.keep(lambda key: key.is_present or key.identity not in identities)

    def thin_out(self, threshold: int | None, forgotten: Collection[int], most: int) -> None:
        """Follow what the curve still needs, once it has taken them; where they have become more
        than ``most``, two thirds of that, so that others may come."""
        self.lower(threshold or self.threshold)
        self.forget(forgotten)
        if len(self) > most:
            self.keep_at_most(2 * most // 3)

    def keep_at_most(self, number: int) -> None:
        """Follow about so many of them from now on, and of all others as large a part."""
        self.lower(int(number / max(1, len(self)) * self.threshold))

    def lower(self, threshold: int) -> None:
        """Follow a part of them from now on."""
        if threshold < self.threshold:
            self.threshold = threshold
            self.keep(lambda key: key.hash & (DEFAULT_MODULUS - 1) < threshold)

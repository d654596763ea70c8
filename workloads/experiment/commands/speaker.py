"""Draws commands: the same ones for the same seed."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import NamedTuple

from workloads.experiment.commands.vocabulary import (
    KINDS,
    LIBRARY,
    POLICIES,
    SCRIPTS,
    SERVER,
    TABLES,
)

_WORD = re.compile(r"\{(?:(\d+)\*)?(\w+)\}")
_KEYS_OF_A_KIND = 8
_SHARE_OF_RIGHT_KINDS = 0.88
_ODD_KEYS = (b"", b"k" * 300, b"\x00\xff\r\n", b"{tag}", b"weight-m1")
_ODD_INTEGERS = (0, -1, 2**31, 2**63 - 1, -(2**63), 2**64, 10**30)
_FLOATS = (b"0", b"-1", b"1.5", b"3", b"2e9", b"1e300", b"-0.1", b"inf", b"nan", b"x")


class Command(NamedTuple):
    """Holds words, and how replies are compared: by a sign of the vocabulary."""

    words: tuple[bytes, ...]
    comparison: str

    @property
    def name(self) -> bytes:
        return self.words[0]

    def __str__(self) -> str:
        return " ".join(_shown(word) for word in self.words)


class Speaker:
    """Draws commands. ``has_twin``: of those alone whose replies a twin can repeat.

    Attributes:
        dumped: what the last DUMP gave, for RESTORE.
    """

    def __init__(self, seed: str, *, has_twin: bool) -> None:
        self.draw = random.Random(seed)
        self.dumped = b""
        self._tables = [
            [line for line in table.strip().splitlines() if line[0] != "!" or not has_twin]
            for table in TABLES
        ]
        self._weights = list(TABLES.values())
        self._of_server = list(TABLES).index(SERVER)
        self._words = self._vocabulary()

    def command(self, *, in_transaction: bool = False) -> Command:
        """Draw the next command. Commands to the server as a whole stay out of transactions."""
        while True:
            place = self.draw.choices(range(len(self._tables)), self._weights)[0]
            if not (in_transaction and place == self._of_server):
                break
        sign, *template = self.draw.choice(self._tables[place]).split()
        return Command(tuple(word for part in template for word in self._fill(part)), sign)

    def key(self, kind: str) -> bytes:
        """The name of a key that has a value of this kind, mostly."""
        if self.draw.random() > _SHARE_OF_RIGHT_KINDS:
            if self.draw.random() < 0.2:
                return self.draw.choice(_ODD_KEYS)
            kind = self.draw.choice(KINDS)
        return f"{kind}{self.draw.randrange(_KEYS_OF_A_KIND)}".encode()

    def member(self) -> bytes:
        """Draw a member of a set, a field or a short value."""
        kind = self.draw.random()
        if kind < 0.7:
            return b"m%d" % self.draw.randrange(40)
        if kind < 0.9:
            return b"%d" % self.draw.randrange(40)
        return self.draw.choice((b"", b"long" * 20, b"\x00\xfe", b"m" * 64))

    def integer(self) -> bytes:
        """Draw an integer, mostly a small one."""
        if self.draw.random() < 0.05:
            return b"%d" % self.draw.choice(_ODD_INTEGERS)
        return b"%d" % self.draw.randrange(-50, 1000)

    def value(self) -> bytes:
        """Draw the value of a string: short, a number, or up to 20,000 bytes."""
        kind = self.draw.random()
        if kind < 0.5:
            return self.member()
        if kind < 0.65:
            return self.integer()
        most = 2000 if kind < 0.97 else 20_000
        return self.draw.choice((b"a", b"bc", b"\x00\xff\x01")) * self.draw.randrange(most // 2)

    def _number(self, low: int, high: int) -> Callable[[], bytes]:
        return lambda: b"%d" % self.draw.randrange(low, high)

    def _one_of(self, *choices: bytes) -> Callable[[], bytes]:
        return lambda: self.draw.choice(choices)

    def _vocabulary(self) -> dict[str, Callable[[], bytes]]:
        scripts = [script.encode() for script in SCRIPTS]
        policies = [policy.encode() for policy in POLICIES]
        kinds = {kind: (lambda kind=kind: self.key(kind)) for kind in KINDS}
        return {
            **kinds,
            "key": lambda: self.key(self.draw.choice(KINDS)),
            "member": self.member,
            "integer": self.integer,
            "value": self.value,
            "float": self._one_of(*_FLOATS),
            "score": self._one_of(*_FLOATS[:-1]),
            "degrees": self._number(-85, 86),
            "index": self._number(-4, 12),
            "small": self._number(0, 30),
            "bit": self._number(0, 2),
            "db": self._number(0, 4),
            "far": self._number(100_000, 200_000),
            "soon": self._number(1, 50),
            "memory": self._one_of(b"0", b"3mb", b"4mb", b"5mb", b"8mb"),
            "policy": self._one_of(*policies),
            "events": self._one_of(b"", b"KEA", b"Kx", b"AKEn"),
            "yes": self._one_of(b"yes", b"no"),
            "script": self._one_of(*scripts),
            "library": lambda: LIBRARY.encode(),
            "dumped": lambda: self.dumped,
        }

    def _fill(self, part: str) -> list[bytes]:
        match = _WORD.fullmatch(part)
        if match and match[1]:
            draw = self._words[match[2]]
            return [draw() for _ in range(self.draw.randrange(int(match[1])) + 1)]
        filled, end = b"", 0
        for match in _WORD.finditer(part):
            filled += part[end : match.start()].encode() + self._words[match[2]]()
            end = match.end()
        return [filled + part[end:].encode()]


def _shown(word: bytes) -> str:
    text = repr(word)[2:-1]
    text = text if len(text) <= 80 else f"{text[:60]}...({len(word)} bytes)"
    return text if text and " " not in text else f"'{text}'"

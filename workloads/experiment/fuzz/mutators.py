"""Changes of input: of bytes, whatever they mean, and of JSON documents by their grammar.

A reader that is fuzzed, mutants that it is given, and a judgement of what comes out.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from workloads.quiet_log import quiet_log

# Longer than the longest that says where, what and why; in words that a terminal and a log show.
MOST_MESSAGE = 10_000
_MOST_FINDINGS = 20


@dataclass(frozen=True)
class Parser:
    """Describes one of the parsers.

    Attributes:
        name: on the command line.
        seeds: well-formed input.
        mutate: draws another input.
        read: reads it; raises AssertionError where it accepts what it must not.
        documented: what else it may raise; the messages are for people, and are checked.
        share: of the mutants, beside the others: slow ones get fewer.
    """

    name: str
    seeds: list[bytes]
    mutate: Callable[[random.Random], bytes]
    read: Callable[[bytes], object]
    documented: tuple[type[Exception], ...]
    share: float = 1.0


@dataclass
class Outcome:
    """What became of the mutants of one parser.

    Attributes:
        findings: the kind of error, and the input.
        seconds: of the processor.
    """

    parser: str
    accepted: int = 0
    refused: int = 0
    findings: list[tuple[str, bytes]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def mutants(self) -> int:
        return self.accepted + self.refused + len(self.findings)


def fuzz(parser: Parser, mutants: int, seed: int) -> Outcome:
    """Try so many mutants, the same ones for the same seed; end early where all goes wrong."""
    draw = random.Random(f"{parser.name}/{seed}")
    outcome = Outcome(parser.name)
    began = time.process_time()
    with quiet_log():  # what a reader refuses it may log
        for data in parser.seeds:
            parser.read(data)  # a seed that is refused would be a mistake of ours
        for _ in range(mutants):
            data = parser.mutate(draw)
            finding, is_accepted = judge(parser, data)
            if finding:
                outcome.findings.append((finding, data))
                if len(outcome.findings) >= _MOST_FINDINGS:
                    break
            elif is_accepted:
                outcome.accepted += 1
            else:
                outcome.refused += 1
    outcome.seconds = time.process_time() - began
    return outcome


def judge(parser: Parser, data: bytes) -> tuple[str | None, bool]:
    """Return what is wrong with how it was read, if anything is; and whether it was accepted."""
    try:
        parser.read(data)
    except parser.documented as error:
        return _fault_of(str(error)), False
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what we look for
        return f"{type(error).__name__}: {error}"[:500], False
    return None, True


def _fault_of(message: str) -> str | None:
    if not message:
        return "a refusal without words"
    if len(message) > MOST_MESSAGE:
        return f"a refusal of {len(message)} characters"
    if not message.isprintable():
        return f"a refusal that cannot be printed as one line: {ascii(message)[:300]}"
    return None


_BYTES = b'\x00\x01\x7f\x80\xff\n\r \t"\\{}[]:,-+.eE0123456789/%=$*'
_LENGTHS = (1, 1, 2, 4, 8, 16, 1000)
# What readers stumble over, and what is at the edge of what they may take.
_ODD_VALUES = [
    value.encode()
    for value in (
        *("null", "true", "false", '""', "[]", "{}", "[[]]", "[null]", '{"a":{}}', '{"":0}'),
        *("0", "-0", "-1", "1", "2", "0.5", "1.0", "-0.0", "1e-400", "1e-61", "5e-324"),
        *("1e308", "1e999", "-1e999", "NaN", "Infinity", "-Infinity", "1e19", "1.1e19", "1e400"),
        *("4294967296", "9223372036854775808", "18446744073709551615", "18446744073709551616"),
        *("2305843009213693952", "2305843009213693953", "999999999999", "1000000000000"),
        *("253402300799", "253402300800", "1e18", "-62135596801", "1" * 400, "1" * 5000),
        *("0." + "3" * 400, "1e" + "9" * 30, "01", "+1", "1.", ".5", "0x10", "1_000"),
        *('"\\ud800"', '"\\udfff\\ud800"', '"\\u0000"', '"\\n"', '"a\\rb"', '"\u202e"', '"é"'),
        *('"\\ud83d\\ude00"', '"\\u2028"', f'"{"a" * 64}"', f'"{"a" * 5000}"', '"%00"', '"+"'),
        *('"true"', '"1"', '" "', '"node-1"', '"a/../b"', '"keep"', '"apply"', '"auto"', '"-"'),
        *('"2026-11-22T06:40:00+00:00"', '"2026-13-45T99:99:99Z"', '"0001-01-01T00:00:00+23:59"'),
        *('"9999-12-31T23:59:59-23:59"', '"2026-W01"', '"20261122"', '"2026-11-22"'),
        *('{"a":1,"a":2}', "[1,2", '"', "{", "]", ",", ":", "\\", "/*", "'a'", "tru", "\ufeff1"),
        *("[" * 11 + "]" * 11, "[" * 14 + "]" * 14, "[" * 2000, '{"a":' * 2000),
    )
]
_ODD_KEYS = [
    key.encode()
    for key in ('""', '"kind"', '"name"', '"\\ud800"', '"a\\nb"', '"\\u0000"', f'"{"k" * 300}"')
]


def changed_bytes(data: bytes, draw: random.Random, others: Sequence[bytes] = ()) -> bytes:
    """Make one to three changes: a byte, a bit, a piece less, twice or of one of ``others``."""
    message = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 3))):
        kind, place = draw.randrange(7), draw.randrange(len(message) + 1)
        length = draw.choice(_LENGTHS)
        if kind == 0 and place < len(message):
            message[place] = draw.choice(_BYTES)
        elif kind == 1 and place < len(message):
            message[place] ^= 1 << draw.randrange(8)
        elif kind == 2:
            del message[place : place + length]
        elif kind == 3:
            message[place:place] = draw.randbytes(min(length, 16))
        elif kind == 4:
            message[place:place] = message[place : place + length]
        elif kind == 5:
            del message[place:]
        elif others:
            other = draw.choice(others)
            start = draw.randrange(len(other) + 1)
            message[place : place + length] = other[start : start + length]
    return bytes(message)


class _Spans(NamedTuple):
    """Tells where in a text there are values, keys, and members of tables and lists."""

    text: bytes
    values: list[tuple[int, int]]
    keys: list[tuple[int, int]]
    members: list[tuple[int, int]]


class JsonMutator:
    """Changes some documents. ``changed`` draws one and changes it, mostly by its grammar."""

    def __init__(self, documents: Sequence[bytes]) -> None:
        self._documents = list(documents)
        self._spans = [_spans(json.loads(document)) for document in documents]
        self._all_values = [
            spans.text[start:end] for spans in self._spans for start, end in spans.values
        ]

    def changed(self, draw: random.Random) -> bytes:
        """Draw a document and change it."""
        if draw.random() < 0.2:
            return changed_bytes(draw.choice(self._documents), draw, self._documents)
        spans = draw.choice(self._spans)
        changes = sorted(self._change(spans, draw) for _ in range(draw.choice((1, 1, 2, 3))))
        text, end = b"", 0
        for start, stop, instead in changes:
            if start >= end:  # another change may hold this one
                text += spans.text[end:start] + instead
                end = stop
        text += spans.text[end:]
        if draw.random() < 0.01:
            return text.decode("utf-8", "replace").encode(
                draw.choice(("utf-16", "utf-32", "utf-8-sig"))
            )
        return text

    def _change(self, spans: _Spans, draw: random.Random) -> tuple[int, int, bytes]:
        kind = draw.randrange(10)
        if kind < 5 or not spans.members:
            return *draw.choice(spans.values), draw.choice(_ODD_VALUES)
        if kind == 5:
            return *draw.choice(spans.values), draw.choice(self._all_values)
        start, end = draw.choice(spans.members)
        if kind == 6:  # with the comma
            return start, min(end + 1, len(spans.text)), b""
        if kind == 7:
            return end, end, b"," + spans.text[start:end]
        if kind == 8 and spans.keys:
            return *draw.choice(spans.keys), draw.choice(_ODD_KEYS)
        return end, end, b',"more":' + draw.choice(_ODD_VALUES)


def _spans(document: Any) -> _Spans:
    text = bytearray()
    spans = _Spans(b"", [], [], [])

    def write(value: Any) -> None:
        start = len(text)
        if isinstance(value, dict | list):
            text.extend(b"{" if isinstance(value, dict) else b"[")
            for place, item in enumerate(value):
                text.extend(b"," if place else b"")
                member = len(text)
                if isinstance(value, dict):
                    text.extend(json.dumps(item).encode())
                    spans.keys.append((member, len(text)))
                    text.extend(b":")
                    item = value[item]
                write(item)
                spans.members.append((member, len(text)))
            text.extend(b"}" if isinstance(value, dict) else b"]")
        else:
            text.extend(json.dumps(value).encode())
        spans.values.append((start, len(text)))

    write(document)
    return spans._replace(text=bytes(text))

"""Whether time and memory grow no faster than the input: long inputs of many kinds."""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import NamedTuple

from workloads.experiment.fuzz.mutators import Parser, judge

# What is made of a number of repetitions. Where a seed is an object, "more" stands beside its keys.
KINDS: dict[str, Callable[[int], bytes]] = {
    "nested lists": lambda n: b"[" * n + b"]" * n,
    "nested lists without end": lambda n: b"[" * n,
    "nested tables": lambda n: b'{"a":' * n + b"1" + b"}" * n,
    "empty lists": lambda n: b"[" + b"[]," * n + b"[]]",
    "numbers": lambda n: b"[" + b"1," * n + b"1]",
    "keys": lambda n: b"{" + b",".join(b'"k%d":1' % i for i in range(n)) + b"}",
    "one key": lambda n: b"{" + b",".join([b'"k":1'] * n) + b"}",
    "a long key": lambda n: b'{"' + b"k" * n + b'":1}',
    "digits": lambda n: b"1" * n,
    "digits behind the point": lambda n: b"0." + b"1" * n,
    "an exponent": lambda n: b"1e" + b"9" * n,
    "a text": lambda n: b'"' + b"a" * n + b'"',
    "escapes": lambda n: b'"' + b"\\u00e9" * n + b'"',
    "backslashes": lambda n: b'"' + b"\\" * n,
    "quotes": lambda n: b'"' * n,
    "blanks": lambda n: b" " * n,
    "zero bytes": lambda n: b"\x00" * n,
    "line ends": lambda n: b"\r\n" * n,
    "colons": lambda n: b":" * n,
    "header lines": lambda n: b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * n + b"\r\n",
    "a header line": lambda n: b"GET / HTTP/1.1\r\nHost: " + b"y" * n + b"\r\n\r\n",
    "parts of a key": lambda n: b"a" + b".a" * n + b" = 1",
}


class Cost(NamedTuple):
    """Tells what an input costs: processor seconds, calls, and the most memory above the input."""

    size_bytes: int
    seconds: float
    calls: int
    peak_bytes: int


def inputs(parser: Parser, kind: str, count: int) -> list[bytes]:
    """Return the input by itself, and as another value of a seed that is a table."""
    long = KINDS[kind](count)
    seed = parser.seeds[0]
    return [long, seed[:-1] + b',"more":' + long + b"}"] if seed.endswith(b"}") else [long]


def cost(parser: Parser, data: bytes) -> Cost:
    """Read it three times. Raises AssertionError: it is a finding."""
    began = time.process_time()
    finding, _ = judge(parser, data)
    seconds = time.process_time() - began
    assert finding is None, f"{parser.name}: {finding} of {data[:200]!r}"
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        judge(parser, data)
    finally:
        sys.setprofile(None)
    tracemalloc.start()
    try:
        judge(parser, data)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return Cost(len(data), seconds, calls, peak_bytes)

"""What is fuzzed: a reader, well-formed input for it, and what it may raise."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Parser:
    """One of them.

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

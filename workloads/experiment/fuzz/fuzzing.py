"""A reader that is fuzzed, mutants that it is given, and a judgement of what comes out."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from workloads.quiet_log import quiet_log

# Longer than the longest that says where, what and why; in words that a terminal and a log show.
MOST_MESSAGE = 10_000
_MOST_FINDINGS = 20


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
    """So many of them, the same ones for the same seed; it ends early where all goes wrong."""
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
    """What is wrong with how it was read, ``None`` if nothing is; and whether it was accepted."""
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

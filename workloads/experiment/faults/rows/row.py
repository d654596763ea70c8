"""One row of the table: a fault, what is allowed, and what came of it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from workloads.experiment.faults.stage.node_servers import PATCH
from workloads.experiment.faults.stage.script import Step, dumps, loads, play, random_script
from workloads.experiment.faults.stage.stage import START_LOG_BYTES, FaultStage
from workloads.experiment.faults.stage.waiting import StoppedError

SERVERS = 3
Run = TypeVar("Run", bound=Callable[..., object])

OK, FAILED, SKIPPED = "ok", "FAILED", "skipped"
# What the observer has to reach.
LEAST_LOOKS_PER_SECOND = 100.0


def random_row(seed: int) -> Row:
    """Make a row of one generated script."""
    return _row(f"random {seed}", random_script(seed, SERVERS))


def replayed_row(file: Path) -> Row:
    """The script of a file, for a stage's servers. Raises ScriptError, OSError."""
    return _row(file.name, loads(file.read_text(), SERVERS))


def _row(name: str, steps: Sequence[Step]) -> Row:
    """How long it may be above the budget depends on what meets what: the named gaps say it."""
    text = dumps(steps)

    return Row(
        name,
        text,
        lambda stage: play(steps, stage),
        script=text,
        gap="what the script does",
        bound_seconds=math.inf,
    )


class RowSkippedError(Exception):
    """It cannot be played here; the message says why."""


class RowFailedError(Exception):
    """Something was not as it must be; the message says what."""


@dataclass(frozen=True)
class Row:
    """Describes a fault.

    Attributes:
        name, does: short, and in words.
        run: does it, and leaves it to the stage to undo what is left.
        gap: the name of the gap in which the sum may be above the budget; empty: it may not.
        bound_seconds: the longest that it may be.
        says: what the log must have.
        quick: part of the quick form.
        traces: the log may have a traceback: somebody's code fails, as it was told to.
        options: of the stage.
        script: what is played, told where it fails: ``--replay`` plays it again.
        around: gives further options, for as long as the row is played.
    """

    name: str
    does: str
    run: Callable[[FaultStage], object]
    gap: str = ""
    bound_seconds: float = 0.0
    says: tuple[str, ...] = ()
    quick: bool = False
    traces: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    script: str = ""
    around: Callable[[], AbstractContextManager[Mapping[str, Any]]] | None = None


class Rows(list[Row]):
    """Faults, most of which are said where they are done."""

    def add(self, name: str, does: str, *arguments: object, **more: Any) -> Callable[[Run], Run]:
        """Decorates what does it to a stage, with these arguments; the rest is as in ``Row``."""

        def added(run: Run) -> Run:
            self.append(Row(name, does, lambda stage: run(stage, *arguments), **more))
            return run

        return added


@dataclass(frozen=True)
class Outcome:
    """Tells what came of a row.

    Attributes:
        longest_above_seconds, above_seconds: the sum of ``maxmemory`` was above the budget.
        cycles: until all was as planned.
        looks_per_second: of the observer.
        used_mib, rss_mib: the most of all servers.
        words: what was wrong, or is to be said.
    """

    name: str
    verdict: str
    words: str = ""
    longest_above_seconds: float = 0.0
    above_seconds: float = 0.0
    cycles: int = 0
    log_bytes_per_second: float = 0.0
    looks_per_second: float = 0.0
    used_mib: float = 0.0
    rss_mib: float = 0.0
    seconds: float = 0.0


def play_row(row: Row, way: str = PATCH) -> Outcome:
    """Play a row and tell what comes of it. Raises StoppedError."""
    started = time.monotonic()
    with ExitStack() as stack:
        try:
            more = stack.enter_context(row.around()) if row.around else {}
            stage = stack.enter_context(FaultStage(**{"way": way, **row.options, **more}))
            said = row.run(stage)
            stage.settle()
            return _judged(row, stage, str(said or ""), started)
        except RowSkippedError as error:
            return Outcome(row.name, SKIPPED, str(error))
        except StoppedError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the other rows are played
            words = f"{type(error).__name__}: {error}"
            return Outcome(row.name, FAILED, words, seconds=time.monotonic() - started)


def _judged(row: Row, stage: FaultStage, said: str, started: float) -> Outcome:
    verdict, seen, log = stage.verdict(), stage.seen(), stage.sidecar.log()
    wrong = [verdict.words] if verdict.words else []
    wrong += [f"the log does not say {words!r}" for words in row.says if words not in log]
    if not row.traces and "Traceback" in log:
        wrong.append(f"the log has a traceback: {log[log.index('Traceback') :][:3000]}")
    if seen.longest_above_seconds > row.bound_seconds:
        wrong.append(f"above the budget for {seen.longest_above_seconds:.3f} s at a stretch")
    return Outcome(
        name=row.name,
        verdict=FAILED if wrong else OK,
        words="; ".join(wrong) or said,
        longest_above_seconds=seen.longest_above_seconds,
        above_seconds=seen.above_seconds,
        cycles=stage.cycles,
        log_bytes_per_second=stage.sidecar.log_bytes_per_second(START_LOG_BYTES),
        looks_per_second=seen.rate_per_second,
        used_mib=seen.used_bytes / (1 << 20),
        rss_mib=seen.rss_bytes / (1 << 20),
        seconds=time.monotonic() - started,
    )

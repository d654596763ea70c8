"""Scripts on a model of a node, by command: very many random ones, or one from a file."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from workloads.experiment.faults.model.model import (
    ModelRun,
    play_on_model,
    run_model,
    servers_of,
)
from workloads.experiment.faults.model.simulated_time import simulated_time
from workloads.experiment.faults.stage.script import loads
from workloads.quiet_log import quiet_log

_PROCESSES = 2
_SCRIPTS_AT_ONCE = 5_000
_MOST_FAILURES = 5


def play_many(count: int, seed: int, kind: str) -> int:
    """So many scripts, with the seeds from ``seed`` on. Exit code 0; 1: some failed, which are
    printed, as short as they can be."""
    began_at = time.monotonic()
    scripts = steps = failures = 0
    with ProcessPoolExecutor(_PROCESSES) as pool:
        portions = list(_portions(count, seed))
        for run in pool.map(run_portion, *zip(*((*each, kind) for each in portions), strict=True)):
            scripts, steps = scripts + run.scripts, steps + run.steps
            failures += len(run.failures)
            for failure in run.failures:
                print(failure)
            seconds = time.monotonic() - began_at
            print(f"{scripts:,} of {count:,} in {seconds:.0f} s", file=sys.stderr, flush=True)
            if failures >= _MOST_FAILURES:
                pool.shutdown(cancel_futures=True)
                break
    print(
        f"{scripts:,} random scripts with {steps:,} steps on the {kind} in "
        f"{time.monotonic() - began_at:.0f} s: {failures} failed"
    )
    return int(failures > 0)


def replay(file: Path, kind: str) -> int:
    """One script. Exit code 0; 1: something did not hold. Raises ScriptError, OSError."""
    text = file.read_text()
    servers = servers_of(loads(text))
    script = loads(text, servers)
    with quiet_log(), simulated_time() as clock:
        verdict = play_on_model(script, clock, servers, kind)
    print("all held" if verdict.ok else "\n".join(verdict.words.split("; ")))
    print(
        f"above the budget for {verdict.above_budget_seconds:.2f} simulated seconds, "
        f"{verdict.longest_above_seconds:.2f} at a time"
    )
    return int(not verdict.ok)


def run_portion(count: int, seed: int, kind: str) -> ModelRun:
    """In a process of its own."""
    return run_model(count, seed, kind, _MOST_FAILURES)


def _portions(count: int, seed: int) -> Iterator[tuple[int, int]]:
    for first in range(0, count, _SCRIPTS_AT_ONCE):
        yield min(_SCRIPTS_AT_ONCE, count - first), seed + first

"""Random scripts of faults on a model of a node, very many; one that fails is made short."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from sidecar.state.state_store import StateStore
from workloads.experiment.faults.model.model_line import MakeSidecar
from workloads.experiment.faults.model.model_stage import BUDGET_BYTES, ModelStage
from workloads.experiment.faults.model.sidecars import ModelSidecar, ResolverFile, ResolverSidecar
from workloads.experiment.faults.model.simulated_time import SimulatedClock, simulated_time
from workloads.experiment.faults.stage.script import (
    Step,
    Verdict,
    dumps,
    loads,
    play,
    random_script,
)
from workloads.quiet_log import quiet_log
from workloads.table import say

_SERVERS = (2, 3, 4)
# What is under the faults: the real actuator, with targets that count at once or are handed over
# as servers fill; or only the resolver, which is many times faster.
KINDS = ("actuator", "handover", "resolver")
_PROCESSES = 2
_SCRIPTS_AT_ONCE = 5_000
_MOST_FAILURES = 5


@dataclass(frozen=True)
class Failure:
    """A script after which something does not hold.

    Attributes:
        script: as text, shortened.
        words: what does not.
    """

    seed: int
    servers: int
    kind: str
    script: str
    words: str

    def __str__(self) -> str:
        said = "\n# ".join(self.words.split("; "))
        return f"# {self.kind}, {self.servers} servers, seed {self.seed}\n# {said}\n{self.script}"


@dataclass(frozen=True)
class ModelRun:
    """What ``run_model`` found, and how long it took."""

    scripts: int
    steps: int
    seconds: float
    failures: tuple[Failure, ...]


def run_model(
    count: int, seed: int, kind: str = "resolver", most_failures: int = _MOST_FAILURES
) -> ModelRun:
    """Play the random scripts with the seeds from ``seed`` on, until so many have failed."""
    began_at = time.monotonic()
    failures: list[Failure] = []
    scripts = steps = 0
    with quiet_log(), simulated_time() as clock:
        for number in range(seed, seed + count):
            servers = _SERVERS[number % len(_SERVERS)]
            script = random_script(number, servers)
            scripts, steps = scripts + 1, steps + len(script)
            if not play_on_model(script, clock, servers, kind).ok:
                failures.append(_failure(number, script, clock, servers, kind))
                if len(failures) >= most_failures:
                    break
    return ModelRun(scripts, steps, time.monotonic() - began_at, tuple(failures))


def play_on_model(
    steps: Sequence[Step], clock: SimulatedClock, servers: int, kind: str = "actuator"
) -> Verdict:
    """Play one script, to its end and until all is well again, or should be."""
    stage = ModelStage(clock, servers, maker(kind, clock))
    play(steps, stage)
    stage.settle()
    return stage.verdict()


def servers_of(steps: Sequence[Step]) -> int:
    """Return how many a script is about: as many as a plan has shares, or as it names."""
    shares = [len(step.value) for step in steps if isinstance(step.value, tuple)]
    return max([2, *shares, *(step.server + 1 for step in steps if step.server is not None)])


def maker(kind: str, clock: SimulatedClock) -> MakeSidecar:
    """Makes sidecars of this kind, with one file for all their lives."""
    if kind == "resolver":
        file = ResolverFile()
        return lambda lines: ResolverSidecar(lines, BUDGET_BYTES, file, clock)
    store = StateStore(None)
    return lambda lines: ModelSidecar(lines, BUDGET_BYTES, store, gradual=kind == "handover")


def shortest(steps: Sequence[Step], fails: Callable[[Sequence[Step]], bool]) -> list[Step]:
    """Leave out all that can be left out so that it still fails; ``steps`` do."""
    kept = list(steps)
    size = max(1, len(kept) // 2)
    while True:
        at, before = 0, len(kept)
        while at < len(kept):
            without = kept[:at] + kept[at + size :]
            if fails(without):
                kept = without
            else:
                at += size
        if size == 1 and len(kept) == before:
            return kept
        size = max(1, size // 2)


def _failure(
    seed: int, script: Sequence[Step], clock: SimulatedClock, servers: int, kind: str
) -> Failure:
    def verdict(steps: Sequence[Step]) -> Verdict:
        return play_on_model(steps, clock, servers, kind)

    short = shortest(script, lambda steps: not verdict(steps).ok)
    return Failure(seed, servers, kind, dumps(short), verdict(short).words)


def play_many(count: int, seed: int, kind: str) -> int:
    """Play so many scripts, with the seeds from ``seed`` on. Exit code 0; 1: some failed, which are
    printed, as short as they can be."""
    began_at = time.monotonic()
    scripts = steps = failures = 0
    with ProcessPoolExecutor(_PROCESSES) as pool:
        portions = list(_portions(count, seed))
        for run in pool.map(run_model, *zip(*((*each, kind) for each in portions), strict=True)):
            scripts, steps = scripts + run.scripts, steps + run.steps
            failures += len(run.failures)
            for failure in run.failures:
                print(failure)
            seconds = time.monotonic() - began_at
            say(f"{scripts:,} of {count:,} in {seconds:.0f} s")
            if failures >= _MOST_FAILURES:
                pool.shutdown(cancel_futures=True)
                break
    print(
        f"{scripts:,} random scripts with {steps:,} steps on the {kind} in "
        f"{time.monotonic() - began_at:.0f} s: {failures} failed"
    )
    return int(failures > 0)


def replay(file: Path, kind: str) -> int:
    """Replay one script. Exit code 0; 1: something did not hold. Raises ScriptError, OSError."""
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


def _portions(count: int, seed: int) -> Iterator[tuple[int, int]]:
    for first in range(0, count, _SCRIPTS_AT_ONCE):
        yield min(_SCRIPTS_AT_ONCE, count - first), seed + first

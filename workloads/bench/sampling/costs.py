"""What sampling costs a server: each state against another one, measured in the same round.

Instructions that a server executes for one command, counted by callgrind.

Unlike times they do not depend on the machine, nor on what else it is doing. The server's clocks
stand still and its random numbers are fixed. So no timer runs and its hash tables collide the same
way each time: two counts of one server agree.
"""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import redis

from workloads.bench.sampling.slices import (
    PERCENTILES,
    Kind,
    MedianRatio,
    Slice,
    Target,
    median_ratio,
)
from workloads.bench.sampling.states import (
    MODULE,
    MONITOR,
    OFF,
    OFF_AGAIN,
    OTHER_STOCK,
    PATCH,
    STOCK,
    STOCK_AGAIN,
    State,
)
from workloads.local_server import PreloadedServer

Command = tuple[str | bytes | int, ...]

_STEADY = Path(__file__).with_name("steady.c")


def available() -> str | None:
    """Return None if instructions can be counted here, else why they cannot."""
    for program in ("valgrind", "callgrind_control"):
        if not shutil.which(program):
            return f"{program} is not installed (apt-get install valgrind)"
    return None


class CountedServer(PreloadedServer):
    """A local server under callgrind; ``settings`` as for a local server.

    Counted is all that its main thread executes outside of the kernel, its event loop too; not the
    threads of ZeroMQ.

    Raises:
        RuntimeError: the server did not come up.
        subprocess.CalledProcessError: no C compiler.
    """

    def __init__(self, settings: dict[str, object], binary: Path) -> None:
        callgrind = ["valgrind", "--tool=callgrind", "--toggle-collect=main"]
        super().__init__(
            _STEADY, settings, binary, wrapper=[*callgrind, "--callgrind-out-file=counts.%p"]
        )

    def instructions_per_command(self, commands: Sequence[Command], pipeline: int) -> float:
        """Return the mean instructions for each of ``commands``, sent ``pipeline`` at a time.

        All of them are sent once before, to warm up.
        """
        connection: redis.Connection = self.client.connection_pool.get_connection()
        try:
            _send(connection, commands, pipeline)
            self._control("-z")
            _send(connection, commands, pipeline)
            before = set(self.folder.glob("counts.*"))
            self._control("-d")
            (dump,) = set(self.folder.glob("counts.*")) - before
        finally:
            self.client.connection_pool.release(connection)
        totals = re.findall(r"^(?:totals|summary): (\d+)", dump.read_text(), re.MULTILINE)
        return int(totals[0]) / len(commands)

    def _control(self, request: str) -> None:
        subprocess.run(
            ["callgrind_control", request, str(self.process.pid)], check=True, capture_output=True
        )


def _send(connection: redis.Connection, commands: Sequence[Command], pipeline: int) -> None:
    for start in range(0, len(commands), pipeline):
        batch = commands[start : start + pipeline]
        packed = connection.pack_commands(batch)  # type: ignore[no-untyped-call]
        connection.send_packed_command([b"".join(packed)], check_health=False)  # type: ignore[no-untyped-call]
        for _ in batch:
            connection.read_response()


METRICS = {
    "throughput": lambda s: s.throughput,
    "p50": lambda s: s.latency_seconds[PERCENTILES.index(50.0)],
    "p99": lambda s: s.latency_seconds[PERCENTILES.index(99.0)],
    "p99.9": lambda s: s.latency_seconds[PERCENTILES.index(99.9)],
    "CPU per operation": lambda s: s.cpu_seconds,
    "CPU per operation, all threads": lambda s: s.process_cpu_seconds,
}


class Comparison(NamedTuple):
    """``state`` is measured against ``base``; ``null`` too, which is the same server as ``base``,
    so that what it differs is what the machine made it differ."""

    state: State
    base: State
    null: State

    def __str__(self) -> str:
        mark = " (null)" if self.state == self.null else ""
        return f"{self.state.name} / {self.base.name}{mark}"


# Within one process what differs between processes of the same file, some per cent, cancels.
# Only the patch against the stock server needs two processes.
COMPARISONS = [
    *(Comparison(state, STOCK, STOCK_AGAIN) for state in (STOCK_AGAIN, *MODULE, MONITOR)),
    *(Comparison(state, OFF, OFF_AGAIN) for state in (OFF_AGAIN, *PATCH)),
    *(Comparison(state, STOCK, OTHER_STOCK) for state in (OTHER_STOCK, OFF_AGAIN, *PATCH)),
]
_IN_USE = {
    "throughput": Target(0.99, at_most=False),
    "p50": Target(1.01),
    "CPU per operation": Target(1.01),
}
_CONSUMER_FAILS = {"throughput": Target(0.95, at_most=False)}


class Measured(NamedTuple):
    """Holds one slice of one round."""

    round: int
    kind: Kind
    state: State
    slice: Slice


class Ratio(NamedTuple):
    """Holds the ratios of all rounds of one comparison."""

    comparison: Comparison
    kind: Kind
    metric: str
    found: MedianRatio


class Verdict(NamedTuple):
    """What a ratio shows about its target; ``null`` is the ratio of the null comparison."""

    ratio: Ratio
    target: Target
    null: MedianRatio

    @property
    def word(self) -> str:
        return self.target.verdict(self.ratio.found, self.null)

    def __str__(self) -> str:
        comparison, kind, metric, found = self.ratio
        return (
            f"{comparison}, {kind}, {metric} {self.target}: {found}, null {self.null}: {self.word}"
        )


def ratios(measured: Sequence[Measured]) -> list[Ratio]:
    """Compute the ratios of all comparisons, kinds and metrics."""
    kinds = list(dict.fromkeys(one.kind for one in measured))
    rounds = sorted({one.round for one in measured})
    slices: dict[tuple[int, Kind, State], list[Slice]] = {}
    for one in measured:
        slices.setdefault((one.round, one.kind, one.state), []).append(one.slice)

    def values(state: State, kind: Kind, metric: str) -> list[float]:
        """Return a value for each round: the geometric mean, if there is more than one slice."""
        return [
            math.exp(
                sum(math.log(METRICS[metric](s)) for s in slices[number, kind, state])
                / len(slices[number, kind, state])
            )
            for number in rounds
        ]

    return [
        Ratio(
            comparison,
            kind,
            metric,
            median_ratio(
                values(comparison.state, kind, metric), values(comparison.base, kind, metric)
            ),
        )
        for metric in METRICS
        for comparison in COMPARISONS
        for kind in kinds
    ]


def verdicts(found: Sequence[Ratio]) -> Iterator[Verdict]:
    """Judge all ratios that have a target."""
    of = {(r.comparison.state, r.comparison.base, r.kind, r.metric): r.found for r in found}
    for ratio in found:
        state, base, null = ratio.comparison
        targets: dict[str, Target] = {}
        if state.rate == 0.01:
            targets = _IN_USE
        elif state.consumer != "listening":
            targets = _CONSUMER_FAILS
        if ratio.metric in targets:
            null_ratio = of[null, base, ratio.kind, ratio.metric]
            yield Verdict(ratio, targets[ratio.metric], null_ratio)

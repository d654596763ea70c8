"""What one division of memory came to: shares of the possible gain, losses, targets reached.

Other ways to divide the memory: by rules of thumb, and by hill climbing on the spot.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sidecar.config.node import DEFAULT_MINIMUM_BYTES
from sidecar.samples.wire_format import Operation
from workloads.experiment.gain.mix import CACHE_LATENCY_SECONDS, Mix, Requests, Targets
from workloads.experiment.gain.oracle import StatedErrors
from workloads.experiment.gain.simulated_server import (
    OVERHEAD_BYTES,
    REDIS_SAMPLES,
    Served,
    SimulatedServer,
)
from workloads.experiment.gain.simulation import Division, Outcome

# The first cycles are for learning.
LATE_CYCLE = 6
# If the best fixed sizes gain less than this, a share of it says nothing.
LEAST_GAIN_RATIO = 0.02
# What is less would be printed as 0.00 %.
LEAST_MISS = 0.00005


@dataclass(frozen=True)
class Score:
    """One division, judged beside equal shares; access times are weighted means.

    Attributes:
        salt: of SPREDS' samples, in hexadecimal; empty for all others.
        share, late_share: of the gain that the best fixed sizes have over equal shares, in the
            whole run and from cycle ``LATE_CYCLE`` on; ``None`` where they gain less than
            ``LEAST_GAIN_RATIO``.
        loss_ratio: by how much the whole run is slower than with equal shares; negative: faster.
        worst_cycle_ratio: the same of the worst cycle after the first.
        moves: how often other sizes were decided on.
        changes: of servers' sizes: a move may take several.
        moved_bytes: that servers were given, in all.
        cycles_seconds: the mean access time of each cycle.
        lost_ratio: the most that a server's hit ratio is below that with equal shares, in the whole
            run.
        within_ratio, within_twice_ratio: see ``StatedErrors``.
    """

    division: str
    salt: str
    access_seconds: float
    share: float | None
    late_share: float | None
    loss_ratio: float
    worst_cycle_ratio: float
    moves: int
    changes: int
    moved_bytes: int
    cycles_seconds: list[float]
    lost_ratio: float
    within_ratio: float | None = None
    within_twice_ratio: float | None = None

    @property
    def gain_ratio(self) -> float:
        """Return by how much the whole run is faster than with equal shares."""
        return -self.loss_ratio

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def score(
    division: str,
    outcome: Outcome,
    equal: Outcome,
    static: Outcome,
    salt: str = "",
    errors: StatedErrors | None = None,
) -> Score:
    """Judge one division."""
    mine = outcome.cycles_seconds()
    ratios = list(map(_ratio, mine[1:], equal.cycles_seconds()[1:]))
    return Score(
        division,
        salt,
        outcome.access_seconds(),
        _share(outcome, equal, static, 0),
        _share(outcome, equal, static, LATE_CYCLE - 1),
        _ratio(outcome.access_seconds(), equal.access_seconds()),
        float(np.max(ratios)),
        outcome.moves,
        outcome.changes,
        outcome.moved_bytes,
        mine,
        _lost_ratio(outcome, equal),
        *(errors or ()),
    )


def _lost_ratio(outcome: Outcome, equal: Outcome) -> float:
    reads = np.maximum(1, equal.reads.sum(axis=0))
    return float(np.max((outcome.misses - equal.misses).sum(axis=0) / reads, initial=0.0))


def _ratio(seconds: float, equal_seconds: float) -> float:
    return seconds / equal_seconds - 1 if equal_seconds else 0.0


def _share(outcome: Outcome, equal: Outcome, static: Outcome, first: int) -> float | None:
    before, best = equal.access_seconds(first), static.access_seconds(first)
    if before - best <= LEAST_GAIN_RATIO * before:
        return None
    return (before - outcome.access_seconds(first)) / (before - best)


@dataclass(frozen=True)
class Verdict:
    """Tells how far one target was reached.

    Attributes:
        target: an attribute of ``Score``.
        bound: of it; at least that where more is better.
        reached: by the worst salt.
        salt: that one's, in hexadecimal.
        missed_by: 0 if it is met.
    """

    target: str
    bound: float
    reached: float
    salt: str
    missed_by: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def judge(targets: Targets, changes: bool, scores: Sequence[Score]) -> list[Verdict]:
    """Judge SPREDS' scores, by the worst salt.

    A stationary mix is judged by its shares. One that changes is to gain at least what the climber
    and the best fixed sizes gain. This also holds where these gain next to nothing.
    """
    rivals = [one.gain_ratio for one in scores if one.division in ("climber", "static oracle")]
    least: dict[str, float] = (
        {"gain_ratio": max(rivals)}
        if changes
        else {"share": targets.share, "late_share": targets.late_share}
    )
    most: dict[str, float] = {
        "loss_ratio": targets.loss_ratio,
        "worst_cycle_ratio": targets.worst_cycle_ratio,
    }
    if targets.moves is not None:
        most["moves"] = targets.moves
    verdicts = []
    for bounds, sign in ((least, -1), (most, 1)):
        for target, bound in bounds.items():
            reached = [(getattr(one, target), one.salt) for one in scores if one.salt]
            if any(value is None for value, _ in reached):
                continue  # the best fixed sizes gain next to nothing: there are no shares of it
            value, salt = max(reached, key=lambda pair: sign * pair[0])
            over = sign * (value - bound)
            missed_by = over if over >= LEAST_MISS else 0.0
            verdicts.append(Verdict(target, bound, value, salt, missed_by))
    return verdicts


# After all reads.
_NONE = (sys.maxsize, 0, Operation.EVICTION)


def by_demand(mix: Mix, requests: Sequence[Requests]) -> list[int]:
    """Divide in proportion to the reads of the whole run."""
    return _in_proportion(mix, [sum(map(len, one.cycles)) for one in requests])


def by_working_set(mix: Mix, requests: Sequence[Requests]) -> list[int]:
    """Divide in proportion to the bytes of all keys that are ever read."""
    parts = []
    for one in requests:
        used = np.unique(np.concatenate(one.cycles))
        parts.append(int((one.sizes_bytes[used].astype(np.int64) + OVERHEAD_BYTES).sum()))
    return _in_proportion(mix, parts)


def _in_proportion(mix: Mix, parts: Sequence[float]) -> list[int]:
    spare = mix.budget_bytes - len(parts) * DEFAULT_MINIMUM_BYTES
    total = sum(parts) or 1
    return [DEFAULT_MINIMUM_BYTES + int(spare * part / total) for part in parts]


class Climber(Division):
    """A hill climber by shadow queues, after Cliffhanger (Cidon and others, NSDI'16).

    Each server has a queue of the keys that it evicted last. Whose queue is hit most, weighted by
    what a miss costs, gets a step of memory from whose is hit least.
    """

    STEP_SHARE = 0.005

    def begin(self, mix: Mix, servers: list[SimulatedServer]) -> None:
        self._servers = servers
        self._step_bytes = int(self.STEP_SHARE * mix.budget_bytes)
        self._penalties = [
            server.weight * (server.backend_latency_seconds - CACHE_LATENCY_SECONDS)
            for server in mix.servers
        ]
        self._gains = [0.0] * len(servers)
        self._queues: list[OrderedDict[int, None]] = [OrderedDict() for _ in servers]
        self._queued_bytes = [0] * len(servers)

    def follow(self, place: int, served: Served) -> None:
        queue, weights = self._queues[place], self._servers[place].weights
        evicted = iter([one for one in served.removed if one[2] == Operation.EVICTION])
        after, key, _ = next(evicted, _NONE)
        for at in np.flatnonzero(~served.hit).tolist():
            missed = int(served.keys[at])
            if missed in queue:
                del queue[missed]
                self._queued_bytes[place] -= weights[missed]
                self._gains[place] += self._penalties[place]
            while after <= at:
                if key not in queue:
                    self._queued_bytes[place] += weights[key]
                queue[key] = None
                queue.move_to_end(key)
                while self._queued_bytes[place] > self._step_bytes:
                    self._queued_bytes[place] -= weights[queue.popitem(last=False)[0]]
                after, key, _ = next(evicted, _NONE)

    def sizes_bytes(self, now_seconds: float) -> Sequence[int] | None:  # noqa: ARG002
        sizes = [server.maxmemory_bytes for server in self._servers]
        best = int(np.argmax(self._gains))
        may_give = [
            place
            for place, size in enumerate(sizes)
            if place != best and size - self._step_bytes >= DEFAULT_MINIMUM_BYTES
        ]
        if not may_give:
            return None
        worst = min(may_give, key=lambda place: self._gains[place])
        if self._gains[best] <= self._gains[worst]:
            return None
        self.applied += 1
        sizes[worst] -= self._step_bytes
        sizes[best] += self._step_bytes
        self._gains = [gain * 0.9 for gain in self._gains]
        return sizes


def one_shared_server(
    mix: Mix, requests: Sequence[Requests], samples: int = REDIS_SAMPLES
) -> Outcome:
    """Put all keys in one server that has all the memory, and one baseline instead of several."""
    starts = np.cumsum([0, *(len(one.sizes_bytes) for one in requests)])
    sizes = np.concatenate([one.sizes_bytes for one in requests])
    ttls = np.repeat(
        [one.ttl_seconds for one in requests], [len(one.sizes_bytes) for one in requests]
    )
    server = SimulatedServer(1, sizes, mix.budget_bytes, ttls_seconds=ttls, samples=samples)
    reads, misses = np.zeros((2, mix.cycles, len(requests)))
    for cycle in range(mix.cycles):
        parts = [one.cycles[cycle] + start for one, start in zip(requests, starts, strict=False)]
        times = np.concatenate([(np.arange(len(part)) + 0.5) / max(1, len(part)) for part in parts])
        owners = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        order = np.argsort(times, kind="stable")
        begin = cycle * mix.cycle_seconds
        keys = np.concatenate(parts)[order]
        hit = server.read(keys, begin, begin + mix.cycle_seconds).hit
        reads[cycle] = [len(part) for part in parts]
        misses[cycle] = np.bincount(owners[order][~hit], minlength=len(parts))
    return Outcome(mix, reads, misses, np.zeros_like(reads))

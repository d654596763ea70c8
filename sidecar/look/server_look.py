"""Looks at one server: its keys followed, its curve, and what both cost it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sidecar.config.node import ServerConfig
from sidecar.config.sampling import LOOK_COST_RATIO
from sidecar.curves.estimate import Estimate
from sidecar.curves.guarded_monitor import MOST_RATE
from sidecar.curves.monitor import ServerMonitor
from sidecar.curves.served_reads import FULL_RATIO
from sidecar.look.idle_time_sampler import MOST_KEYS, IdleTimeSampler
from sidecar.look.question_cost import INTERVAL_SECONDS, QuestionCost, pause_seconds
from sidecar.look.server_questions import CannotBeLookedAtError, LookedServer, Told
from sidecar.servers.connection.reading_window import ReadingWindow
from sidecar.servers.connection.server_errors import ServerDownError, ServerRefusedError
from sidecar.servers.connection.server_reading import ServerReading
from solver_lambda.documents.curve import MissRatioCurve

# A look follows a curve only up to some size. A key that was gone before the look is a miss at
# every size, as far as anybody can tell. So beyond what the server held, and what it evicted
# meanwhile, the curve says the most that would be missed. There it is taken to go on as a power of
# the size, as it did until then: where misses hardly fell, they are not said to fall.

# The part of the curve that tells how it goes on, and how far it is believed to.
_FROM, _TO = 0.6, 2.0
_MOST_POWER = 3.0
_POINTS = 32


def extended(curve: MissRatioCurve, empty_bytes: float, known_bytes: float) -> MissRatioCurve:
    """Return the curve, of which what lies above ``known_bytes`` is the most that would be missed;
    of a server that takes ``empty_bytes`` without any key."""
    end_bytes = float(curve.sizes_bytes[-1])
    room = known_bytes - empty_bytes
    if room <= 0 or known_bytes >= end_bytes:
        return curve
    here, before = curve.miss_ratio([known_bytes, empty_bytes + _FROM * room])
    if not 0 < here < before:
        return curve
    power = min(_MOST_POWER, float(np.log(before / here) / np.log(1 / _FROM)))
    beyond = np.geomspace(known_bytes, min(end_bytes, empty_bytes + _TO * room), _POINTS)[1:]
    sizes = np.union1d(curve.sizes_bytes, beyond)
    depths = np.clip((sizes - empty_bytes) / room, 1.0, _TO)
    ratios = np.minimum(curve.miss_ratio(sizes), np.where(depths > 1, here * depths**-power, 1.0))
    return MissRatioCurve(sizes, np.minimum.accumulate(ratios))


# Reads count after this share of the look's time. By then it is known how deep evicted keys lie.
LEARNS_SHARE = 0.5
# Predictions are held against what came so often.
_WINDOWS = 12
_STEPS_A_WINDOW = 2
# Counts hardly fade within a look.
_LOOKS_A_CYCLE = 12
_FAILURES = 5
# A curve reaches to this many times the server's size.
_REACH = 2
# Nothing is said of a server with fewer reads.
_FEWEST_READS = 100
_WRITES = (
    *("append", "decr", "getset", "hincrby", "hmset", "hset", "incr", "incrby", "lpush", "mset"),
    *("psetex", "rpush", "sadd", "set", "setex", "setnx", "setrange", "zadd"),
)
# Of the keys that it held before.
_FILLING_RATIO = 1.02


@dataclass(frozen=True)
class Seen:
    """Holds what is known of one server.

    Attributes:
        estimate: with rate and miss ratio of all the time in which reads were counted, and the
            curve extended; ``None``: nothing yet.
        reading: the last one.
        known_to_bytes: a server of this size or less would have held nothing that was gone before
            the look; of larger ones, it is only known what they would miss at most.
        age_seconds: nine in ten of its keys were read since.
        cost_ratio: of a core of the server.
        followed: keys.
        window: its readings.
        seconds, hits, misses: counted by the server, our own questions left out.
        is_filling: it has room, and holds more and more.
        tells_settings: otherwise they are taken for Redis' defaults.
        has_config: otherwise its size is set where it is hosted.
        writes_per_second: by the commands that most write with, fills among them.
    """

    config: ServerConfig
    reading: ServerReading
    estimate: Estimate | None
    known_to_bytes: float
    age_seconds: float
    cost_ratio: float
    followed: int
    window: ReadingWindow
    seconds: float
    hits: int
    misses: int
    is_filling: bool = False
    tells_settings: bool = True
    has_config: bool = True
    writes_per_second: float = 0.0

    def error_at(self, size_bytes: float) -> float:
        """Return by how much the miss ratio may be off there: the curve's error, or all that it
        falls beyond what is known, if that is more. There must be an estimate."""
        assert self.estimate is not None
        curve = self.estimate.curve
        known_bytes = min(size_bytes, self.known_to_bytes)
        fall = curve.miss_ratio(known_bytes) - curve.miss_ratio(size_bytes)
        return max(self.estimate.curve_error_ratio, float(fall))

    @property
    def is_known(self) -> bool:
        """Whether there is a curve to go by."""
        has_curve = self.estimate is not None and self.estimate.keep_reason is None
        return has_curve and self.hits + self.misses >= _FEWEST_READS


class ServerLook:
    """Looks at one server.

    ``budget_bytes``: how far its curve is to reach. Times are in seconds of any clock.
    ``believed``: users who alone may listen at its address, whenever we connect.

    Raises:
        CannotBeLookedAtError: it has no idle times, or does not answer.
    """

    def __init__(
        self,
        config: ServerConfig,
        *,
        most_keys: int = MOST_KEYS,
        most_cost: float = LOOK_COST_RATIO,
        interval_seconds: float = INTERVAL_SECONDS,
        believed: frozenset[int] | None = None,
    ) -> None:
        self.config = config
        self.server = LookedServer(config, believed)
        self.told: Told = self.server.begin()
        self._sampler = IdleTimeSampler(self.server, self.told, most_keys=most_keys)
        self._most_keys, self._most_cost = most_keys, most_cost
        self._interval_seconds = interval_seconds
        self._cost = QuestionCost(self.server, self.told)
        self._failures = 0
        self._run_id = self.told.reading.run_id

    def begin(self, budget_bytes: int, look_seconds: float, now: float) -> None:
        """The first round comes next."""
        # Even for a single server it should be known what more memory would bring.
        self._reach_bytes = max(budget_bytes, _REACH * self.told.reading.size_bytes)
        self._look_seconds = look_seconds
        self.monitor = ServerMonitor(
            self.config.name,
            live_objects=self._most_keys,
            cycle_seconds=_LOOKS_A_CYCLE * look_seconds,
        )
        self._window = ReadingWindow()
        self._began = self._stepped = now
        self.due = now
        self._steps = 0
        self._counts = False
        self._stack_bytes = 0.0
        self._first: Told | None = None
        self._estimate: Estimate | None = None

    def round(self, now: float, is_over: Callable[[], bool] = lambda: False) -> None:
        """Ask the server once more. Raises CannotBeLookedAtError."""
        try:
            batch, self.told = self._sampler.round(self.server.tell, is_over)
            self._failures = 0
        except (ServerDownError, ServerRefusedError) as error:
            self._failures += 1
            if self._failures >= _FAILURES:
                is_down = isinstance(error, ServerDownError)
                what = "does not answer any more" if is_down else "cannot be asked"
                raise CannotBeLookedAtError(f"{what}: {error}") from error
            self.due = now + self._interval_seconds
            return
        if self.told.reading.run_id != self._run_id:
            raise CannotBeLookedAtError("was started anew during the look: look again")
        self.monitor.take(batch)
        self._sampler.keys.lower(self.monitor.shards.threshold or 1)
        self._window.add(self.told.reading)
        if self._first is None:
            self._first = self.told
            self._observe()
        self._step(now)
        rate = self._estimate.request_rate_per_second if self._estimate else 0.0
        if rate > MOST_RATE:
            raise CannotBeLookedAtError(f"says that it serves {rate:,.0f} reads a second")
        spent = self._cost.add(self.told)
        age, least = self._sampler.oldest_seconds, self._interval_seconds
        self.due = now + pause_seconds(age, spent, self._most_cost, least)

    def _step(self, now: float) -> None:
        step_seconds = self._look_seconds / _WINDOWS / _STEPS_A_WINDOW
        if now - self._stepped < step_seconds:
            return
        self.monitor.step(now - self._stepped)
        self._stepped = now
        self._steps += 1
        is_learnt = not self._counts and now - self._began >= LEARNS_SHARE * self._look_seconds
        if self._steps % _STEPS_A_WINDOW == 0 or is_learnt:
            self._observe()
        if is_learnt:
            self._count_from_now_on()

    def _count_from_now_on(self) -> None:
        """Forget what was counted until now: it took for a miss at every size what had been evicted
        before."""
        self._counts = True
        self.monitor.forget()
        self._first = self.told
        shards = self.monitor.shards
        stack_bytes = shards.stack.total_weight / (shards.rate or 1.0)
        self._stack_bytes = stack_bytes + self.monitor.counts.empty_bytes

    def _observe(self) -> None:
        reading = self.told.reading
        # One without a limit has room for what it uses.
        sized = replace(reading, maxmemory_bytes=reading.size_bytes)
        found = self.monitor.observe(sized, self._reach_bytes, self._window)
        self._estimate = found or self._estimate
        stack = self.monitor.shards.stack
        self._sampler.keys.keep(lambda key: key.is_present or key.identity in stack)

    @property
    def followed(self) -> int:
        """Count the keys that are followed."""
        return len(self._sampler.keys)

    @property
    def so_far(self) -> Estimate | None:
        """Return the estimate of the last window that is over."""
        return self._estimate

    def seen(self, now: float) -> Seen:
        """Return what is known now."""
        if now > self._stepped and self._first is not None:
            self.monitor.step(now - self._stepped)
            self._stepped = now
            self._observe()
        first_told = self._first or self.told
        reading, first = self.told.reading, first_told.reading
        seconds = max(1e-9, reading.at_seconds - first.at_seconds)
        hits = max(0, reading.keyspace_hits - first.keyspace_hits)
        misses = max(0, reading.keyspace_misses - first.keyspace_misses)
        estimate = self._estimate
        if estimate is not None:
            estimate = replace(
                estimate,
                curve=self._extended(estimate.curve),
                request_rate_per_second=(hits + misses) / seconds,
                miss_ratio=misses / (hits + misses) if hits + misses else None,
                window_seconds=seconds,
            )
        return Seen(
            config=self.config,
            reading=reading,
            estimate=estimate,
            known_to_bytes=self._known_to_bytes,
            age_seconds=self._sampler.oldest_seconds,
            cost_ratio=self._cost.seconds / max(1e-9, now - self._began),
            followed=self.followed,
            window=self._window,
            seconds=seconds,
            hits=hits,
            misses=misses,
            is_filling=(
                reading.keys > _FILLING_RATIO * first.keys
                and reading.counted_bytes < FULL_RATIO * reading.maxmemory_bytes
            ),
            tells_settings=self.server.tells_settings,
            has_config=self.server.has_config,
            writes_per_second=(_writes(self.told) - _writes(first_told)) / seconds,
        )

    def _extended(self, curve: MissRatioCurve) -> MissRatioCurve:
        """One that evicts nothing misses what it never had: no size helps."""
        if self._first is None or self.told.evicted <= self._first.evicted:
            return curve
        return extended(curve, float(self.monitor.counts.empty_bytes), self._known_to_bytes)

    @property
    def _known_to_bytes(self) -> float:
        return max(self._stack_bytes, float(self.told.reading.size_bytes))

    def close(self) -> None:
        """Hang up."""
        self.server.close()


def _writes(told: Told) -> int:
    return sum(told.calls.get(name, 0) for name in _WRITES)

"""Samples servers that have no sampler: a thread for each follows some of its keys."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

from sidecar.base.metrics import Metrics
from sidecar.config.node import SidecarConfig
from sidecar.curves.curve_readiness import no_curve_reason
from sidecar.curves.decaying_counts import STEPS_A_CYCLE
from sidecar.curves.shards import Shards
from sidecar.look.idle_time_sampler import MOST_KEYS, IdleTimeSampler
from sidecar.look.question_cost import QuestionCost, pause_seconds
from sidecar.look.server_questions import CannotBeLookedAtError, LookedServer, why_not_looked_at
from sidecar.samples.batch import Batch
from sidecar.servers.back_off import BackOff
from sidecar.servers.connection.own_questions import OwnQuestions
from sidecar.servers.connection.redis_server import RedisServer
from sidecar.servers.connection.server_errors import ServerDownError, ServerRefusedError
from sidecar.servers.connection.server_reading import ServerReading

log = logging.getLogger(__name__)

# A server that cannot be looked at is tried again so late: it may be empty still, or get another
# policy or a right.
AGAIN_SECONDS, LATEST_AGAIN_SECONDS = 10.0, 120.0
_TURN_SECONDS = 0.5
_OF_A_STEP = 1 / 4
# One server may take so much of our core; an honest one takes some 2 %.
_MOST_OWN_COST = 0.05


def _tell_refused(name: str, own: OwnQuestions, words: str) -> None:
    """Log why a server is not looked at, where that is new."""
    if words != own.refused:
        own.refused = words
        log.warning("server %s is not sampled: it %s", name, words)


class LookSampler:
    """Samples one server until ``stop``. Names of keys stay in its thread; samples have salted
    hashes.

    What the server says does not end it: it begins anew.
    """

    def __init__(
        self,
        server: RedisServer,
        config: SidecarConfig,
        stop: threading.Event,
        metrics: Metrics,
    ) -> None:
        """Take ``stop`` of the whole sidecar."""
        step_seconds = config.cycle.maximum_age_seconds / STEPS_A_CYCLE
        self._config, self._own, self._metrics = server.config, server.own, metrics
        self._most_keys = min(MOST_KEYS, config.sampling.live_objects)
        self._scans_after_seconds = _OF_A_STEP * step_seconds
        self._most_cost = config.sampling.look_cost_ratio
        # Nothing is asked again before the last answers were taken.
        self._taken: queue.Queue[tuple[Batch, list[int]]] = queue.Queue(1)
        self._absent: list[int] = []
        # Keys that are gone and that no curve needs any more; and T.
        self._forgotten: frozenset[int] = frozenset()
        self._threshold: int | None = None
        self._heard_at_seconds = time.monotonic()
        self._pause_seconds, self._refused = 0.0, BackOff(AGAIN_SECONDS, LATEST_AGAIN_SECONDS)
        self._stop, self._is_wanted = stop, True
        self._thread = threading.Thread(
            target=self._run, name=f"looks at {server.name}", daemon=True
        )
        self._thread.start()

    @property
    def silent_seconds(self) -> float:
        """Return the seconds since there should have been something."""
        return max(0.0, time.monotonic() - self._heard_at_seconds - self._pause_seconds)

    def take(self) -> Batch | None:
        """Return what it has found since; ``None``: nothing yet."""
        try:
            batch, self._absent = self._taken.get_nowait()
        except queue.Empty:
            return None
        self._heard_at_seconds = time.monotonic()
        return batch

    def follow(self, shards: Shards) -> None:
        """Learn which keys are still needed, after the batch is in there."""
        self._threshold = shards.threshold or None
        self._forgotten = frozenset(key for key in self._absent if key not in shards.stack)

    def stop(self) -> bool:
        """Ask nothing more; returns at once. Whether it was not told so before."""
        was_wanted, self._is_wanted = self._is_wanted, False
        return was_wanted

    @property
    def is_on(self) -> bool:
        """Whether it was not stopped."""
        return self._is_wanted

    @property
    def has_ended(self) -> bool:
        """Whether its thread has ended: one server has one at most."""
        return not self._thread.is_alive()

    def _is_over(self) -> bool:
        return self._stop.is_set() or not self._is_wanted

    def _run(self) -> None:
        self._own_since_seconds = time.thread_time()
        # What the look before it has taken, however that ended.
        self._pause_seconds = max(0.0, self._own.rest_until_seconds - time.monotonic())
        self._wait(self._pause_seconds)
        try:
            self._look_again_and_again()
        finally:
            self._owe(0.0)

    def _look_again_and_again(self) -> None:
        # One for all attempts: a password that was refused is read again from its file.
        server = LookedServer(self._config, own=self._own)
        while not self._is_over():
            try:
                self._look(server)
            except CannotBeLookedAtError as error:
                self._refuse(str(error))
            except Exception as error:  # noqa: BLE001 - whatever a server says, it is looked at again
                self._refuse(f"gives answers that make no sense: {type(error).__name__}: {error}")
            finally:
                server.close()
            self._rest(self._refused.fail())

    def _rest(self, seconds: float) -> None:
        """Rest at least so long, and until it has taken no more of us than it may, whatever the
        server says that it cost."""
        self._owe(seconds)
        self._wait(self._pause_seconds)

    def _owe(self, seconds: float) -> None:
        now_seconds = time.thread_time()
        own_seconds, self._own_since_seconds = now_seconds - self._own_since_seconds, now_seconds
        self._pause_seconds = max(seconds, own_seconds / _MOST_OWN_COST)
        until_seconds = time.monotonic() + own_seconds / _MOST_OWN_COST
        self._own.rest_until_seconds = max(self._own.rest_until_seconds, until_seconds)

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self._is_over() and (left := end - time.monotonic()) > 0:
            self._stop.wait(min(left, _TURN_SECONDS))

    def _refuse(self, words: str) -> None:
        if self._is_over():
            return
        self._metrics.sampler_refused.labels(self._config.name).inc()
        _tell_refused(self._config.name, self._own, words)

    def _look(self, server: LookedServer) -> None:
        """Look until it is another process, or cannot be looked at any more."""
        told = server.begin(may_be_empty=True)
        run_id = told.reading.run_id
        sampler = IdleTimeSampler(
            server,
            told,
            most_keys=self._most_keys,
            scans_after_seconds=self._scans_after_seconds,
        )
        cost, began, failed = QuestionCost(server, told), time.monotonic(), 0
        while not self._is_over():
            try:
                batch, told = sampler.round(server.tell, self._is_over)
            except ServerDownError as error:
                # What was learnt stays, unless it restarts. Whoever reads it may be answered: once
                # more, and it is told.
                failed += 1
                if failed > 1:
                    self._refuse(f"cannot be asked: {error}")
                self._rest(AGAIN_SECONDS)
                continue
            except ServerRefusedError as error:
                raise CannotBeLookedAtError(f"cannot be asked: {error}") from error
            if told.reading.run_id != run_id:
                return
            self._refused.reset()
            failed = 0
            if self._own.refused or not cost.seconds:
                self._own.refused = ""
                log.info("server %s is looked at from outside", self._config.name)
            self._give(batch, sampler)
            spent = cost.add(told)
            self._own.cost_ratio = cost.seconds / max(1.0, time.monotonic() - began)
            self._rest(pause_seconds(sampler.oldest_seconds, spent, self._most_cost))
            sampler.keys.thin_out(self._threshold, self._forgotten, self._most_keys)
            if sampler.is_too_thin(told):
                log.info("server %s is looked at anew: it holds far fewer keys", self._config.name)
                return

    def _give(self, batch: Batch, sampler: IdleTimeSampler) -> None:
        absent = [key.identity for key in sampler.keys if not key.is_present]
        while not self._is_over():
            try:
                self._taken.put((batch, absent), timeout=_TURN_SECONDS)
                return
            except queue.Full:
                continue


class LookSamplers:
    """Samples all servers that are looked at."""

    def __init__(
        self,
        servers: Sequence[RedisServer],
        config: SidecarConfig,
        stop: threading.Event,
        metrics: Metrics,
    ) -> None:
        self._servers = {server.name: server for server in servers}
        self._like = (config, stop, metrics)
        self._looks: dict[str, LookSampler] = {}
        self._chosen: dict[str, bool] = {}

    def follow(self, readings: Mapping[str, ServerReading]) -> None:
        """Look at those that are to be looked at, and of which there is something to learn."""
        for name, reading in readings.items():
            self._chosen[name] = reading.is_looked_at
            # Asked of what the others go by, too: the server may tell a look something else.
            why = why_not_looked_at(reading) if reading.is_looked_at else None
            wanted = reading.is_looked_at and why is None
            look = self._looks.get(name)
            if wanted and (look is None or look.has_ended):
                self._begin(name)
            elif not wanted and look is not None and look.stop():
                self._servers[name].own.refused = ""
            if why and no_curve_reason(reading) is None:
                _tell_refused(name, self._servers[name].own, why)

    def _begin(self, name: str) -> None:
        try:
            self._looks[name] = LookSampler(self._servers[name], *self._like)
        except RuntimeError as error:  # the machine gives no thread: perhaps at the next turn
            _tell_refused(name, self._servers[name].own, f"cannot be looked at: {error}")

    def batches(self) -> Iterator[tuple[str, Batch]]:
        """Yield what there is to take."""
        for name, look in self._looks.items():
            if look.is_on and (batch := look.take()) is not None:
                yield name, batch

    def taken(self, name: str, shards: Shards) -> None:
        """A batch is in there."""
        self._looks[name].follow(shards)

    def silent_seconds(self, name: str) -> float | None:
        """Return how long a server has been silent; ``None``: it is not to be looked at."""
        if not self._chosen.get(name):
            return None
        look = self._looks.get(name)
        return look.silent_seconds if look and look.is_on else 0.0

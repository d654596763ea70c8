"""A clock that goes as it is told, in the place of the machine's, for the code that sets sizes."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

_PACKAGE = "sidecar.servers."
_EPOCH_SECONDS = 1_700_000_000.0
_WAIT_SECONDS = 0.05


class NotYetError(BaseException):
    """A job has nothing to say yet: it is to be asked again when time has gone by."""


class SimulatedClock:
    """Stands in for the module ``time``: ``monotonic`` and ``time`` say what ``advance`` brought.

    Attributes:
        now: seconds since it was made.
        on_advance: told of each stretch of time, in seconds, before it has gone by.
        on_result: told of what a job has brought, when that is taken.
        in_job: a job is asked, which must not wait.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.on_advance: Callable[[float], None] = lambda _seconds: None
        self.on_result: Callable[[Any], None] = lambda _result: None
        self.in_job = False
        self._lock = threading.RLock()
        self._jobs: list[_Job] = []

    def monotonic(self) -> float:
        # The machine's is never near 0 either, and code may take 0 for "never".
        return _EPOCH_SECONDS + self.now

    def time(self) -> float:
        return _EPOCH_SECONDS + self.now

    def thread_time(self) -> float:
        return 0.0  # nothing takes any of it

    def advance(self, seconds: float) -> None:
        """Let time go by."""
        if seconds > 0:
            with self._lock:
                self.on_advance(seconds)
                self.now += seconds

    def forget_jobs(self) -> None:
        """Nobody wants to know any more."""
        self._jobs.clear()

    def submit(self, job: Callable[[], Any]) -> Future[Any]:
        """Take a job, to be done as by a thread of its own, which may hang."""
        future = _Taken(self)
        with self._lock:
            self._jobs.append(_Job(job, future))
            self.poll()
        return future

    def poll(self) -> None:
        """Ask all jobs that are not done."""
        with self._lock:
            for job in list(self._jobs):
                self.in_job = True
                try:
                    job.future.set_result(job.ask())
                except NotYetError:
                    continue
                except Exception as error:  # noqa: BLE001 - passed on by the future
                    job.future.set_exception(error)
                finally:
                    self.in_job = False
                self._jobs.remove(job)

    def as_completed(self, futures: Iterable[Future[Any]], seconds: float) -> Iterator[Future[Any]]:
        """Yield as ``as_completed`` of ``concurrent.futures`` does."""
        waiting, until = list(futures), self.now + seconds
        if self._jobs and not any(job.future in waiting for job in self._jobs):
            self.advance(_WAIT_SECONDS)  # who asks again and again waits for time to go by
            self.poll()
        while waiting:
            self.poll()
            done = [future for future in waiting if future.done()]
            waiting = [future for future in waiting if future not in done]
            yield from done
            if waiting and not done:
                if self.now >= until:
                    raise TimeoutError
                self.advance(min(_WAIT_SECONDS, until - self.now))

    def wait_for(self, futures: Iterable[Future[Any]], seconds: float) -> None:
        """Wait as ``wait`` of ``concurrent.futures`` does."""
        try:
            for _ in self.as_completed(futures, seconds):
                pass
        except TimeoutError:
            pass


class _Taken(Future[Any]):
    """Tells the clock when its result is taken."""

    def __init__(self, clock: SimulatedClock) -> None:
        super().__init__()
        self._clock = clock

    def result(self, timeout: float | None = None) -> Any:
        found = super().result(timeout)
        self._clock.on_result(found)
        return found


@dataclass(frozen=True)
class _Job:
    ask: Callable[[], Any]
    future: Future[Any]


class _NoLock:
    """Replaces kernel locks: one process models one sidecar, and many of them may at once."""

    def hold(self, run_id: str) -> None:
        pass

    def release(self) -> None:
        pass


def _worker_of(clock: SimulatedClock) -> type:
    class SimulatedWorker:
        """Takes the place of ``sidecar.base.worker.Worker``."""

        def __init__(self, name: str) -> None:
            self.name = name

        def submit(self, job: Callable[[], Any]) -> Future[Any]:
            return clock.submit(job)

        def close(self) -> None:
            pass

    return SimulatedWorker


@contextmanager
def simulated_time() -> Iterator[SimulatedClock]:
    """Meanwhile all modules of ``sidecar.servers`` go and wait by this clock, and lock nothing."""
    clock = SimulatedClock()
    stand_ins: dict[str, object] = {
        "time": clock,
        "CurrentProcessLock": _NoLock,
        "Worker": _worker_of(clock),
        "as_completed": clock.as_completed,
        "wait_for": clock.wait_for,
        "_LOOK_SECONDS": 0.0,
    }
    undo: list[Callable[[], None]] = []
    for name, module in list(sys.modules.items()):
        if not name.startswith(_PACKAGE):
            continue
        for attribute, stand_in in stand_ins.items():
            if attribute in vars(module):
                undo.append(partial(setattr, module, attribute, vars(module)[attribute]))
                setattr(module, attribute, stand_in)
        for value in list(vars(module).values()):
            if isinstance(value, type) and value.__module__ == name:
                undo += _with_clock_in_defaults(value, clock)
    try:
        yield clock
    finally:
        for put_back in reversed(undo):
            put_back()


def _with_clock_in_defaults(owner: type, clock: SimulatedClock) -> list[Callable[[], None]]:
    """Put the clock where ``time.monotonic`` is a parameter's default; return how to undo it."""
    init: Any = vars(owner).get("__init__")
    undo: list[Callable[[], None]] = []
    stand_ins: dict[Any, Any] = {time.monotonic: clock.monotonic, time.time: clock.time}
    if found := getattr(init, "__defaults__", None):
        undo.append(partial(setattr, init, "__defaults__", found))
        init.__defaults__ = tuple(_stand_in(value, stand_ins) for value in found)
    if named := getattr(init, "__kwdefaults__", None):
        undo.append(partial(setattr, init, "__kwdefaults__", named))
        init.__kwdefaults__ = {key: _stand_in(value, stand_ins) for key, value in named.items()}
    return undo


def _stand_in(value: Any, stand_ins: dict[Any, Any]) -> Any:
    return next((new for old, new in stand_ins.items() if value is old), value)

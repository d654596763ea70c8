"""Runs a thread for jobs that may hang in a call to another machine."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

Result = TypeVar("Result")


class NoThreadError(RuntimeError):
    """The machine lets this process have no more threads; a later job may have one."""


class Worker:
    """Does jobs one after the other. Python does not wait for it at its end, as it would for the
    threads of an executor. A call that nobody answers must not hold up the end of the process."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]
        self._jobs = queue.SimpleQueue()
        self._closed = threading.Event()
        self._starting = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def submit(self, job: Callable[[], Result]) -> Future[Result]:
        """Do a job when those before it are done; if no thread can be started for the first, its
        future fails with ``NoThreadError``."""
        future: Future[Result] = Future()
        with self._starting:
            try:
                if self._thread.ident is None:
                    self._thread.start()
            except RuntimeError as error:
                future.set_exception(NoThreadError(f"{self._thread.name}: {error}"))
                return future
        self._jobs.put((future, job))
        return future

    def close(self) -> None:
        """Begin no other job; returns at once."""
        self._closed.set()
        self._jobs.put(None)

    def _run(self) -> None:
        while (item := self._jobs.get()) is not None:
            future, job = item
            if self._closed.is_set():
                future.cancel()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(job())
            except Exception as error:  # noqa: BLE001 - passed on by the future
                future.set_exception(error)
            del item, future, job  # nothing is kept until the next one comes

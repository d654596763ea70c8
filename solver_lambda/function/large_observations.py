"""Lets one large observation be read at a time: text can take 40 times its size meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from solver_lambda.http.message import RefusedError

LARGE_BYTES = 1 << 18
WAIT_SECONDS = 1.0


class LargeObservations:
    """Keeps one service to one large observation at a time."""

    def __init__(self) -> None:
        self._one = threading.Lock()

    @contextmanager
    def reading(self, size_bytes: int) -> Iterator[None]:
        """Hold the place while an observation of this size is read. Raises RefusedError: another
        one is read, and it is not over soon."""
        if size_bytes <= LARGE_BYTES:
            yield
        elif self._one.acquire(timeout=WAIT_SECONDS):
            try:
                yield
            finally:
                self._one.release()
        else:
            why = f"another observation of more than {LARGE_BYTES} bytes is being read"
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, "large", why)

"""Does work in a thread while something else is done."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def in_background(work: Callable[[threading.Event], object]) -> Iterator[None]:
    """Run ``work`` in a thread meanwhile; it returns soon after its event is set."""
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(stop,), name="load")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()

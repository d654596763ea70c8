"""What holds while something else is done.

Work that goes on in a thread, and a log that is out of the way where errors are what is played.
"""

from __future__ import annotations

import logging
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


@contextmanager
def quiet_log() -> Iterator[None]:
    """Log nothing meanwhile; whatever was logged before is again afterwards."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)

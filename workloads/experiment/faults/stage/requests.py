"""Load on servers that may hang, die, refuse and come back, as a process of its own.

``python -m workloads.experiment.faults.stage.requests KEYS OBJECT_BYTES SOCKET...``: until SIGTERM.
One thread a server: what one does is nothing to the others.
"""

from __future__ import annotations

import random
import signal
import sys
import threading

from workloads.experiment.faults.stage.orders import end_with_parent
from workloads.lookaside import LookAsideClient, ServerRefusedError

BATCH_REQUESTS = 40
PAUSE_SECONDS = 0.03
AGAIN_SECONDS = 0.1


def ask(url: str, keys: int, object_bytes: int, stop: threading.Event) -> None:
    """Reads of keys of which some are read more often; what is missed is filled."""
    chance = random.Random(1)
    while not stop.is_set():
        try:
            with LookAsideClient(url) as client:
                while not stop.wait(PAUSE_SECONDS):
                    batch = [
                        b"key%d" % int(keys * chance.random() ** 1.5) for _ in range(BATCH_REQUESTS)
                    ]
                    client.request(batch, [object_bytes] * len(batch), [0.0] * len(batch))
        except (OSError, ServerRefusedError):
            stop.wait(AGAIN_SECONDS)


def main() -> int:
    end_with_parent()
    keys, object_bytes, *paths = sys.argv[1:]
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    for path in paths:
        arguments = (f"unix://{path}", int(keys), int(object_bytes), stop)
        # A thread that waits for a server that hangs does not hold up the end.
        threading.Thread(target=ask, args=arguments, daemon=True).start()
    stop.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A node of our own: two servers with unequal demands, their load, and a sidecar in a thread.

For tests and measurements of the loop: every cycle has something to move.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from sidecar.config.node import load_config
from sidecar.daemon import Sidecar
from workloads.background_work import in_background
from workloads.local_server import equal_shares, running_servers, sizes_in_force
from workloads.lookaside import LookAsideClient

# Number of keys of each server: one fits into its least size, the other needs all that it gets.
DEMANDS = {"modest": 400, "hungry": 40_000}
OBJECT_BYTES = 700
FIRST_BYTES = 16 << 20
BUDGET_BYTES = 32 << 20
BATCH_REQUESTS = 200
PAUSE_SECONDS = 0.02
WAIT_LIMIT_SECONDS = 60.0

_FILE = """
node = "{name}"
state_file = "state.json"
mode = "apply"

[memory]
budget = {budget_bytes}
rss_wait = "0s"                # resident memory is not what is measured

[sampling]
endpoint = "ipc://{folder}/samples"
rate = 1.0

[cycle]
samples = 4000
maximum_age = "6s"

[planning]
minimum_gain_ratio = 0.0
forecast = "last"              # sizes are taken at once, and not as the load fills them
"""


class LocalNode:
    """The servers and the file of a node; a context manager.

    Args:
        name: of the node.
        controller: the text of its ``[controller]``.

    Attributes:
        servers: by name.
        folder: of the file, the state and the samples' socket.
    """

    def __init__(self, name: str, controller: str) -> None:
        # Not in the caller's folder: a Unix socket's path may have 107 bytes at most.
        self.folder = Path(tempfile.mkdtemp(prefix="spreds-node-"))
        self._running = ExitStack()
        self._running.callback(shutil.rmtree, self.folder, ignore_errors=True)
        with ExitStack() as undone:
            undone.push(self._running)
            equal = equal_shares(list(DEMANDS), FIRST_BYTES * len(DEMANDS))
            self.servers = self._running.enter_context(running_servers(equal))
            undone.pop_all()
        text = _FILE.format(name=name, folder=self.folder, budget_bytes=BUDGET_BYTES)
        for server, local in self.servers.items():
            text += f'\n[[server]]\nname = "{server}"\nurl = "{local.url}"\n'
            text += 'backend_latency = "50ms"\n'
        self._text = text
        self._controller = controller

    def write(self, controller: str | None = None) -> Path:
        """The file for the sidecar, with another ``[controller]`` if one is given."""
        path = self.folder / "node.toml"
        path.write_text(f"{self._text}\n{controller or self._controller}")
        return path

    def sizes_bytes(self) -> dict[str, int]:
        """Return ``maxmemory`` in force, by server."""
        return sizes_in_force(self.servers)

    @contextmanager
    def load(self, seed: int = 1) -> Iterator[None]:
        """Requests to both servers, in a thread that leaves time for others."""
        with in_background(partial(self._request, seed)):
            yield

    def _request(self, seed: int, stop: threading.Event) -> None:
        choice = random.Random(seed)
        with ExitStack() as stack:
            clients = {
                keys: stack.enter_context(LookAsideClient(self.servers[name].url))
                for name, keys in DEMANDS.items()
            }
            while not stop.wait(PAUSE_SECONDS):
                for keys, client in clients.items():
                    batch = [
                        b"key%d" % int(keys * choice.random() ** 2) for _ in range(BATCH_REQUESTS)
                    ]
                    client.request(batch, [OBJECT_BYTES] * len(batch), [0.0] * len(batch))

    @contextmanager
    def sidecar(self, controller: str | None = None) -> Iterator[Sidecar]:
        """A sidecar of this node, as ``sidecar_in_thread``."""
        with sidecar_in_thread(self.write(controller)) as sidecar:
            yield sidecar

    def __enter__(self) -> LocalNode:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()


@contextmanager
def sidecar_in_thread(path: Path) -> Iterator[Sidecar]:
    """The sidecar of a file, in a thread, stopped at the end."""
    sidecar = Sidecar(load_config(path))
    thread = threading.Thread(target=sidecar.run, name="sidecar")
    thread.start()
    try:
        yield sidecar
    finally:
        sidecar.stop()
        thread.join()


def wait_until(
    condition: Callable[[], object], what: Callable[[], object], pause_seconds: float = 0.02
) -> None:
    """Return when ``condition`` holds.

    Raises:
        TimeoutError: it does not within a minute; the message has ``what`` is the case instead.
    """
    asked_at = time.monotonic()
    deadline = asked_at + WAIT_LIMIT_SECONDS
    while not condition():
        now = time.monotonic()
        if now > deadline:
            raise TimeoutError(f"waited in vain: {what()}")
        # What takes long to ask would take the processor from what is waited for.
        time.sleep(max(pause_seconds, 3 * (now - asked_at)) if pause_seconds else 0)
        asked_at = time.monotonic()

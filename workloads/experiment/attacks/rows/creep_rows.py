"""Plans that each cost little: a cache must not be emptied step by step."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from workloads.background_work import in_background
from workloads.experiment.attacks.stage.attack import Rows, must
from workloads.experiment.attacks.stage.hostile_server import HostileSolver, forged_plan
from workloads.experiment.attacks.stage.target import MIB, SERVER_BYTES, Target

ROWS = Rows()

SECTIONS = {
    "sampling": 'endpoint = "ipc://{folder}/samples"\nrate = 0.1\n',
    "cycle": 'maximum_age = "5s"\nsamples = 100000000\n',
}
READS_AT_ONCE, VICTIMS_READS_AT_ONCE = 100, 4
PAUSE_SECONDS = 0.04
# The victim holds all of its keys; the busy one hardly any, whatever its size is.
VICTIMS_KEYS, BUSY_KEYS = 11_000, 2_000_000
VALUE = b"x" * 900
UNIT_BYTES = 65536
CYCLES_SECONDS = 90.0


class _Halver:
    """Halves the victim in each cycle, and moves the busy server by one unit."""

    def __init__(self) -> None:
        self.forged = 0

    def answer(self, question: bytes, _headers: dict[str, str]) -> tuple[bytes, dict[str, str]]:
        servers = {server["name"]: server for server in json.loads(question)["servers"]}
        if any(server["keep_reason"] for server in servers.values()):
            return b"{}", {}
        self.forged += 1
        size = {name: server["maxmemory_bytes"] for name, server in servers.items()}
        step_bytes = -UNIT_BYTES if self.forged % 2 else UNIT_BYTES
        sizes = {"victim": size["victim"] // 2, "busy": size["busy"] + step_bytes}
        return forged_plan(question, "gain: more", **sizes), {}


@contextmanager
def _reads(target: Target, name: str, keys: int, at_once: int) -> Iterator[None]:
    """Read keys at an even rate, and fill each miss."""
    client, draw = target.client(name), random.Random(1)
    for first in range(0, min(keys, 30_000), 1000):
        client.mset({f"key:{first + number}": VALUE for number in range(1000)})

    def read(stop: threading.Event) -> None:
        while not stop.wait(PAUSE_SECONDS):
            wanted = [f"key:{draw.randrange(keys)}" for _ in range(at_once)]
            target.read_through(client, wanted, VALUE)

    with in_background(read):
        yield


@ROWS.add(
    "plans: a full cache is halved in each cycle",
    "a hostile solver halves a full cache with few of the node's reads, and moves a busy "
    "server by one unit, whose curve's error is larger than that loss: each plan is refused",
    quick=False,
)
def _a_busy_server_lends_its_error() -> None:
    halver = _Halver()
    with HostileSolver(halver.answer) as solver:
        controller = f'kind = "http"\nurl = "{solver.url}"\nplan_deadline = "1s"\n'
        target = Target(("busy", "victim"), {"controller": controller, **SECTIONS})
        with (
            target,
            _reads(target, "victim", VICTIMS_KEYS, VICTIMS_READS_AT_ONCE),
            _reads(target, "busy", BUSY_KEYS, READS_AT_ONCE),
        ):
            target.until(lambda: halver.forged > 3, "the sidecar asks for no plans", CYCLES_SECONDS)
            size = target.sizes()["victim"]
            must(size == SERVER_BYTES, f"the victim has {size / MIB:.1f} MiB")
            must("plan refused: harmful" in target.log_text(), "none was refused as harmful")

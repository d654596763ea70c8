"""Attacks that keep servers' samplers out, or take their samples, by connecting or by lying."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from workloads.experiment.attacks.rows.sample_rows import hear
from workloads.experiment.attacks.stage.attack import Rows, must
from workloads.experiment.attacks.stage.hostile_server import HostileServer, bulk
from workloads.experiment.attacks.stage.target import SERVER_BYTES, Target

ROWS = Rows()

CROWD_SECONDS = 25
# Each of so many processes connects over and over, and keeps so many at most that are taken.
_CROWD = f"""
import os, socket, sys, time
path, processes, most = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for _ in range(processes - 1):
    if not os.fork():
        break
held, end = [], time.monotonic() + {CROWD_SECONDS}
def is_taken(one):
    try:
        return bool(one.recv(1000))
    except BlockingIOError:
        return True
    except OSError:
        return False
print("on", flush=True)
while time.monotonic() < end and os.path.exists(path):
    held = [one for one in held if is_taken(one)]
    if len(held) < most:
        one = socket.socket(socket.AF_UNIX)
        one.setblocking(False)
        try:
            one.connect(path)
            held.append(one)
        except OSError:
            pass
    time.sleep(0.0002 * processes)
"""


@contextmanager
def _crowd(target: Target, processes: int, most: int) -> Iterator[None]:
    words = [str(target.folder / "samples"), str(processes), str(most)]
    with subprocess.Popen(
        [sys.executable, "-c", _CROWD, *words], stdout=subprocess.PIPE, start_new_session=True
    ) as crowd:
        try:
            assert crowd.stdout is not None
            crowd.stdout.readline()
            yield
        finally:
            os.killpg(crowd.pid, signal.SIGKILL)


@ROWS.add(
    "samples: a crowd of many processes",
    "the same with 40 processes of the servers' own user",
    40,
    4,
    quick=False,
)
@ROWS.add(
    "samples: a crowd of one process",
    "a process of the endpoint's group connects over and over: a server that restarts is heard",
    1,
    100,
)
def _crowded(processes: int, most: int) -> None:
    with Target() as target:
        hear(target, "pages")
        with _crowd(target, processes, most):
            target.until(
                lambda: "show no secret" in target.log_text(), "this row crowds nobody out", 10
            )
            target.servers["sessions"].restart()
            hear(target, "sessions", "a server that connects is not heard")
            hear(target, "pages", "a server that was connected is not heard")


@ROWS.add(
    "servers: one whose run id begins like another's",
    "its samples would be the hostile one's: the honest one is sampled and resized, also "
    "where it stands behind that in the file",
    True,
    16,
)
@ROWS.add(
    "servers: one that says it is another one's process",
    "a hostile server after the honest one in the file tells its run id: the sidecar starts, "
    "and the honest one is sampled and resized",
    False,
    40,
)
def _liar(first: bool, digits: int) -> None:
    """Let one of two servers say that it is the other one's process."""
    target = Target(["honest", "liar"])
    with ExitStack() as held:
        held.callback(target.__exit__)
        target.prepare()
        honest, liar = target.servers["honest"].client, target.servers["liar"].client
        stolen = str(honest.info("server")["run_id"])
        own = str(liar.info("server")["run_id"])
        plain = target.client("liar")
        plain.response_callbacks.clear()  # INFO as it is
        told = stolen[:digits] + own[digits:]

        def answer(words: list[str]) -> list[bytes] | None:
            if words[0].upper() != "INFO":
                return None
            text: bytes = plain.execute_command(*words)  # type: ignore[no-untyped-call]
            return [bulk(text.replace(own.encode(), told.encode()))]

        path = target.folder / "liar"
        held.enter_context(HostileServer(path, liar, answer))
        text = target.file.read_text()
        text = text.replace(target.servers["liar"].url, f"unix://{path}")
        if first:
            start, *servers = text.split("[[server]]")
            text = "[[server]]".join([start, *reversed(servers)])
        target.file.write_text(text)
        target.start()
        hear(target, "honest", "the honest one is not heard")
        honest.config_set("maxmemory", 40 * SERVER_BYTES)
        target.until(
            lambda: target.sizes()["honest"] <= 2 * SERVER_BYTES, "the honest one is not resized"
        )
        must(stolen not in str(target.status()), "the status tells a run id")

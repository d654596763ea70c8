"""Ports that somebody else has taken, and a machine that lets us open no more files."""

from __future__ import annotations

import resource
import socket
import time
from contextlib import ExitStack, suppress

from sidecar.control.order import Order
from workloads.experiment.attacks.rows.order_rows import status_of
from workloads.experiment.attacks.rows.slow_connections import HEALTH, besieged, slow_connections
from workloads.experiment.attacks.stage.attack import Rows, must
from workloads.experiment.attacks.stage.target import Target

ROWS = Rows()


@ROWS.add(
    "listeners: the port is somebody else's",
    "has the operators' port, listening or not, or [::1] of localhost, before the sidecar starts: "
    "it runs, says so, serves neither family alone, and takes the port up when it is free; check "
    "does not vouch for the stranger",
    quick=False,
)
def _port_is_taken() -> None:
    _taken("127.0.0.1", "127.0.0.1")
    _taken("localhost", "::1")
    _taken("127.0.0.1", "127.0.0.1", listens=False)


def _taken(listen: str, host: str, *, listens: bool = True) -> None:
    """Somebody has ``host`` before a sidecar that is to listen at ``listen``; bound alone, he could
    take connections by opening them from his side."""
    target = Target()
    lines = f'listen = "{listen}:{target.port}"\ntoken_file = "token"\n'
    target.sections["operators"] = lines
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with ExitStack() as stack:
        stack.callback(target.__exit__, None, None, None)
        with socket.socket(family) as stranger:
            stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            stranger.bind((host, target.port))
            if listens:
                stranger.listen()
            target.prepare()
            target.start(ready=False)
            runs = "it does not run without a port"
            target.until(lambda: target.status()["actuator_at_seconds"], runs)
            said = target.status()["problems"]
            must(any("cannot be bound" in one for one in said), f"no problem: {said}")
            told = target.command("status", str(target.file))
            must(told.returncode == 1, f"status says {told.returncode}")
            must("cannot be bound" in told.stdout, "status does not say it")
            tells = f"another process listens at {listen}" if listens else "Address already in use"
            must(tells in _checked(target), "check does not tell of the stranger")
            target.ask().order(Order("pause", "ann"))
            with suppress(ConnectionRefusedError):
                if listen == "localhost":
                    must(not target.raw(HEALTH), "127.0.0.1 is served, [::1] somebody else's")
        late = "a free port is not taken up"
        target.until(lambda: status_of(target.raw(HEALTH)) == b"200", late)
        if listen == "localhost":
            health = target.raw(HEALTH, host="::1")
            must(status_of(health) == b"200", "[::1] is left to whoever takes it")
        must(not target.status()["problems"], "the problem is still told")
        must("is served by the running sidecar" in _checked(target), "check does not tell of it")


@ROWS.add(
    "listeners: the samples' port is somebody else's",
    "listens at the TCP endpoint of samples before the sidecar starts: it runs, says so, tells "
    "no server a secret to send there, and takes the port up when it is free",
)
def _samples_port_is_taken() -> None:
    """Somebody listens at the samples' port before the sidecar does."""
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        endpoint = f"tcp://127.0.0.1:{stranger.getsockname()[1]}"
        lines = f'endpoint = "{endpoint}"\nopen_endpoint = true\nrate = 1.0\n'
        with Target(sections={"sampling": lines}) as target:
            said = target.status()["problems"]
            must(any("no server is sampled" in one for one in said), f"no problem: {said}")
            stranger.settimeout(2)
            with suppress(TimeoutError):
                stranger.accept()
                raise AssertionError("a server sends its secret to the stranger")
            stranger.close()
            late = "a free port is not taken up"
            target.until(lambda: not target.status()["problems"], late)


def _checked(target: Target) -> str:
    told = target.command("check", str(target.file), "--connect", "--verbose")
    return " ".join(f"{told.stdout} {told.stderr}".split())


@ROWS.add(
    "listeners: no descriptors left",
    "opens connections until the sidecar may open no more files: it neither ends nor spins",
    held=True,
)
def _no_descriptors_left() -> None:
    """The sidecar may open few files from its start on: strangers must not take the last ones."""
    with Target() as target:
        for _ in range(3):
            target.raw(HEALTH)
        hard = resource.prlimit(target.pid, resource.RLIMIT_NOFILE)
        must(hard[0] >= 512, f"it may open {hard[0]} files")
        limit = target.descriptors() + 40
        resource.prlimit(target.pid, resource.RLIMIT_NOFILE, (limit, hard[1]))
        began, used = time.monotonic(), target.usage().processor_seconds
        with slow_connections(target.port, b"GET / HTTP/1.1\r\n", b"", 300):
            time.sleep(1)
            must(target.is_alive(), f"it has ended: {target.log_text()[-2000:]}")
        used = (target.usage().processor_seconds - used) / (time.monotonic() - began)
        must(used < 0.9, f"it spins: {used:.1f} s of a core in a second")
        target.until(lambda: target.status()["pid"], "it is mute after that")
        must("Traceback" not in target.log_text(), "there is a traceback in the log")


@ROWS.add(
    "listeners: started with a low limit of files",
    "a limit of 256 files and 1,050 slow connections: the limit is raised, all is answered",
    held=True,
)
def _few_files_allowed() -> None:
    """Started with a limit of 256 open files, which may be raised: it is."""
    with Target() as target:
        target.end()
        target.start(open_files=256)
        besieged(target, target.port, b"GET / HTTP/1.1\r\n", b"", 2)

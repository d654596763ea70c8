"""Files in places that others may write, or read.

Ports that somebody else has taken, and a machine that lets us open no more files.
"""

from __future__ import annotations

import os
import resource
import socket
import stat
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from sidecar.control.order import Order
from workloads.experiment.attacks.stage.attack import Rows, must
from workloads.experiment.attacks.stage.connections import (
    HEALTH,
    besieged,
    slow_connections,
    status_of,
)
from workloads.experiment.attacks.stage.target import Target

ROWS = Rows()


@ROWS.add(
    "files: links at the locks",
    "a symbolic and a hard link to another file lie where the locks are made: it is refused by "
    "name, and the file keeps what it has",
)
def _links_at_locks() -> None:
    with Target() as target:
        target.end()
        for name in ("samples.lock", "state.json.lock"):
            precious = target.folder / "authorized_keys"
            precious.write_text("a key\n")
            lock = target.folder / name
            for put in (lock.symlink_to, lock.hardlink_to):
                lock.unlink(missing_ok=True)
                put(precious)
                told = target.command("run", str(target.file))
                must(told.returncode == 1, f"{name}: {told.returncode}: {told.stderr[-300:]}")
                must(name in told.stderr, f"it says only {told.stderr[-300:]}")
                must(precious.read_text() == "a key\n", f"{name} led to another file's end")
            lock.unlink()


@ROWS.add(
    "files: folders that everybody may write to",
    "endpoint, state or socket in such a folder: run refuses it by name, check says so, and "
    "nothing is made there",
    quick=False,
)
def _shared_folders() -> None:
    """Endpoint, state and socket in a folder that everybody may write to, with and without sticky
    bit."""
    with tempfile.TemporaryDirectory(prefix="spreds-shared-") as name, Target() as target:
        target.end()
        shared = Path(name)
        places = {
            "sampling.endpoint": (f"ipc://{target.folder}/samples", f"ipc://{shared}/samples"),
            "state_file": ('"state.json"', f'"{shared}/state.json"'),
            "operators.socket": ("[operators]\n", f'[operators]\nsocket = "{shared}/socket"\n'),
        }
        text = target.file.read_text()
        for key, (old, new) in places.items():
            must(old in text, f"{old} is not in the file")
            target.file.write_text(text.replace(old, new))
            for mode in (0o777, 0o1777, 0o757):
                shared.chmod(mode)
                told = target.command("run", str(target.file))
                must(told.returncode == 1, f"{key}, {mode:o}: {told.returncode} {told.stderr}")
                must(key in told.stderr and name in told.stderr, f"it says only {told.stderr}")
                must(not list(shared.iterdir()), f"{key}: something was made in {mode:o}")
                checked = target.command("check", str(target.file), "--connect")
                must(checked.returncode == 1 and key in checked.stdout, f"check: {checked.stdout}")


@ROWS.add(
    "files: secrets that others may read",
    "token files of mode 0644, 0666, 0604, 0620, and tokens that can be guessed: refused by "
    "check and run, and never told",
    quick=False,
)
def _open_secrets() -> None:
    with Target() as target:
        target.end()
        secret = target.folder / "token"
        for mode in (0o644, 0o666, 0o604, 0o620):
            secret.chmod(mode)
            for verb in ("run", "check"):
                told = target.command(verb, str(target.file))
                must(told.returncode == 2, f"{verb} takes a token of mode {mode:o}")
                must("token_file" in told.stderr, f"it says only {told.stderr}")
                must(str(target.token) not in told.stderr, "it tells the token")
        secret.chmod(0o600)
        for weak in (16 * "a", "sixteen letters!", "0123456789abcde\x07", "short"):
            secret.write_text(weak)
            told = target.command("check", str(target.file))
            must(told.returncode == 2, f"the token {weak!r} is taken")


def _with_umask(mask: int, do: Callable[[], None]) -> None:
    before = os.umask(mask)
    try:
        do()
    finally:
        os.umask(before)


@ROWS.add(
    "files: a umask of 000",
    "the sidecar is started with it: state, history, documents and sockets are still its own "
    "user's alone",
)
def _modes() -> None:
    with Target() as target:
        target.end()
        history = target.folder / "state.json.history"  # as an older version may have left it
        history.touch()
        history.chmod(0o644)
        _with_umask(0, target.start)
        target.fill("pages")
        target.until(
            lambda: list((target.folder / "documents").rglob("*.json")), "no document was written"
        )
        for path in target.folder.rglob("*"):
            try:
                mode = stat.S_IMODE(path.lstat().st_mode)
            except FileNotFoundError:
                continue  # it was written, and has another name now
            if path.name in ("node.toml", "log") or path.is_symlink():
                continue  # the row's own
            must(not mode & 0o077, f"{path.name} has mode {mode:04o}")


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
    with Target() as target:
        target.end()
        target.start(open_files=256)
        besieged(target, target.port, b"GET / HTTP/1.1\r\n", b"", 2)

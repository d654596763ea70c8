"""Locks, names and ports that somebody else takes first."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import redis

from workloads.experiment.attacks.stage.attack import CannotPlayError, Rows, must
from workloads.experiment.attacks.stage.target import MIB, SERVER_BYTES, Target

ROWS = Rows()

# Before each program of theirs: a Python of root's own could not be started by them.
_DROP_RIGHTS = """
import os, pwd, socket, struct, sys
user = pwd.getpwnam("nobody")
os.setgroups([])
os.setgid(user.pw_gid)
os.setuid(user.pw_uid)
"""
# Binds abstract sockets, says so, and stays until its input ends.
_BIND = """
held = []
for name in sys.argv[1:]:
    one = socket.socket(socket.AF_UNIX)
    one.bind("\\0" + name)
    one.listen(1)
    held.append(one)
print("bound", flush=True)
sys.stdin.read()
"""


# Leaves at each abstract name a descriptor whose last ``close`` waits in the kernel, says so, and
# keeps its other end until its input ends.
_LEAVE = """
held = []
for name in sys.argv[1:]:
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sender = socket.socket()
    sender.connect(listening.getsockname())
    held.append(listening.accept()[0])
    sender.setblocking(False)
    try:
        while True:
            sender.send(b"x" * 65536)
    except BlockingIOError:
        pass
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 100_000))
    visitor = socket.socket(socket.AF_UNIX)
    visitor.connect("\\0" + name)
    try:
        socket.send_fds(visitor, [b"x"], [sender.fileno()])
        sender.close()
    except PermissionError:
        held.append(sender)
    held.append(visitor)
print("left", flush=True)
sys.stdin.read()
"""


@contextmanager
def stranger(program: str, *words: str) -> Iterator[None]:
    """A program of another user runs meanwhile, once it has printed a line.

    Raises:
        CannotPlayError: only root can be another user.
    """
    if os.geteuid() != 0:
        raise CannotPlayError("only root can start a process of another user")
    with subprocess.Popen(
        [sys.executable, "-c", _DROP_RIGHTS + program, *words],
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            if not process.stdout.readline():
                assert process.stderr is not None
                raise CannotPlayError(f"nobody cannot: {process.stderr.read()[-200:]!r}")
            yield
        finally:
            process.kill()


def _lock_names(run_id: str) -> list[str]:
    """Return names under which a server's lock is, or was in former versions."""
    digest = hashlib.sha256(f"spreds-server-{run_id}".encode()).hexdigest()
    return [f"spreds-server-{run_id}", f"spreds-server-{digest[:32]}"]


@ROWS.add(
    "names: abstract sockets",
    "another user binds the names of the servers' locks before the sidecar starts: it manages "
    "them all the same, and /proc/net/unix tells no run id",
)
def _abstract_names() -> None:
    with Target() as target:
        target.end()
        run_ids = [server.client.info("server")["run_id"] for server in target.servers.values()]
        names = [name for run_id in run_ids for name in _lock_names(run_id)]
        with stranger(_BIND, *names):
            target.start()
            _is_managed(target, ["pages", "sessions"])
        shown = open("/proc/net/unix").read()  # noqa: SIM115
        must(not any(run_id in shown for run_id in run_ids), "/proc/net/unix tells a run id")


@ROWS.add(
    "names: descriptors that make us wait",
    "another user leaves a descriptor at the lock of each server, whose close waits as long as he "
    "likes: the sidecar goes on, and manages them",
)
def _descriptors() -> None:
    with Target() as target:
        run_ids = [server.client.info("server")["run_id"] for server in target.servers.values()]
        with stranger(_LEAVE, *(_lock_names(run_id)[1] for run_id in run_ids)):
            _is_managed(target, ["pages", "sessions"])


def ask(client: redis.Redis, *words: str) -> object:
    """A command in its own words."""
    return client.execute_command(*words)  # type: ignore[no-untyped-call]


def _is_managed(target: Target, names: list[str]) -> None:
    """The sidecar puts back a size that exceeds the budget."""
    for name in names:
        target.servers[name].client.config_set("maxmemory", 900 * MIB)
        target.until(
            partial(_is_below, target, name),
            f"{name} keeps 900 MiB in a budget of {2 * SERVER_BYTES // MIB} MiB",
        )


def _is_below(target: Target, name: str) -> bool:
    return target.sizes()[name] < 64 * MIB


@ROWS.add(
    "names: clients of other Redis users",
    "a user without rights to administer calls itself a sidecar, and the sidecar's own "
    "connections are cut: it manages all servers before and after",
)
def _client_names() -> None:
    with Target() as target:
        target.end()
        others = []
        for server in target.servers.values():
            rules = ("on", "nopass", "~*", "+@all", "-@admin", "-@dangerous")
            ask(server.client, "ACL", "SETUSER", "application", *rules)
            other = redis.Redis(
                unix_socket_path=str(server.socket), username="application", password=""
            )
            ask(other, "CLIENT", "SETNAME", "spreds:evil-host:1:deadbeef")
            others.append(other)
        target.start()
        _is_managed(target, ["pages", "sessions"])
        # The sidecar's own connections break while it runs.
        for server in target.servers.values():
            ask(server.client, "CLIENT", "KILL", "USER", "default", "SKIPME", "yes")
        _is_managed(target, ["pages", "sessions"])
        for other in others:
            other.ping()


@ROWS.add(
    "names: one server disputed",
    "a client with the sidecar's own Redis user has the name of a sidecar on one server: that "
    "one is left alone and told, the other is managed, and taken up when it is let go",
)
def _one_disputed() -> None:
    """Check that a server is left alone if a sidecar with our own Redis user came first."""
    with Target() as target:
        target.end()
        other = target.client("pages", client_name="spreds:far-away:7:0123cafe")
        other.ping()
        target.start()
        target.servers["pages"].client.config_set("maxmemory", 10 * MIB)
        _is_managed(target, ["sessions"])
        must(target.sizes()["pages"] == 10 * MIB, "a server of another sidecar was resized")
        told = " ".join(target.status()["problems"])
        must("pages is left alone" in told and "far-away" in told, f"status says only: {told}")
        other.close()
        target.until(
            lambda: "far-away" not in " ".join(target.status()["problems"]),
            "a server that was let go is not taken up",
        )

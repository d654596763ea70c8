"""Binds the endpoint where samples arrive: a socket's file, an abstract name, or an address of
TCP."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sidecar.base.kernel_waits import unix_stream
from sidecar.base.metrics import Metrics
from sidecar.base.private_files import make_own_folder
from sidecar.samples.receiver import MOST_STRANGERS, SampleReceiver
from solver_lambda.http.listening import listen_alone

# The kernel cuts it to net.core.somaxconn.
_BACKLOG = 4096


def socket_path(endpoint: str) -> Path | None:
    """Return the path of an ``ipc://`` endpoint; ``None`` for TCP and for a name that is not a
    file."""
    scheme, _, address = endpoint.partition("://")
    return Path(address) if scheme == "ipc" and not address.startswith("@") else None


def is_open(endpoint: str) -> bool:
    """Whether everybody on the machine may connect, or on the network: no file has rights."""
    return socket_path(endpoint) is None


@contextmanager
def bind_endpoint(
    endpoint: str,
    metrics: Metrics,
    group: int | None = None,
    servers: int = 0,
    processes: Callable[[], Collection[int]] = tuple,
) -> Iterator[SampleReceiver]:
    """Bind the receiver, with the socket's folder made if it is missing; the socket's file is
    removed at the end.

    Only this user may connect, and with a ``group`` its members; also the folder is theirs to
    enter, if it is this user's own; if that is root, to whom folders such as /run belong, only one
    that nobody else may enter. ``servers``: so many may connect at once. ``processes``: their ids.

    Raises:
        OSError: it cannot be bound, or something else uses the path; one sentence.
    """
    path = socket_path(endpoint)
    try:
        if path is not None:
            _make_folder(path.parent, group)
            _remove_dead(path)
        listening = _bound(endpoint, path)
    except OSError as error:
        raise OSError(
            f"sampling.endpoint {endpoint}: cannot be bound: {error.strerror or error}"
        ) from error
    with listening:
        made = path.lstat() if path is not None else None
        try:
            if path is not None:
                _give(path, group, 0o600 if group is None else 0o660)
            listening.listen(_BACKLOG)
            most = MOST_STRANGERS + servers
            with SampleReceiver(listening, metrics, most, processes) as receiver:
                yield receiver
        finally:
            if path is not None and made is not None:
                with suppress(FileNotFoundError):
                    if os.path.samestat(path.lstat(), made):
                        path.unlink()


def _bound(endpoint: str, path: Path | None) -> socket.socket:
    if endpoint.startswith("tcp://"):
        return listen_alone(*tcp_address(endpoint))
    name = endpoint.removeprefix("ipc://")
    bound = unix_stream()
    try:
        # The path gets these rights as it appears: there is no moment with more.
        os.fchmod(bound.fileno(), 0o600)
        bound.bind(str(path) if path is not None else name.replace("@", "\0", 1))
    except OSError:
        bound.close()
        raise
    return bound


def tcp_address(endpoint: str) -> tuple[str, int]:
    """Return the address to bind, and that servers connect to. A name's is the first of version 4,
    as ZeroMQ has it. Raises OSError."""
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    found = socket.getaddrinfo(host.strip("[]"), int(port), family, socket.SOCK_STREAM)
    return str(found[0][4][0]), int(found[0][4][1])


def _make_folder(folder: Path, group: int | None) -> None:
    make_own_folder(folder)
    found, user = folder.stat(), os.geteuid()
    # Folders such as /run belong to root, but none of them is closed to all others.
    is_ours = found.st_uid == user and (user != 0 or not found.st_mode & 0o077)
    if group is not None and is_ours:
        _give(folder, group, 0o750)


def _give(path: Path, group: int | None, mode: int) -> None:
    """Give a file to a group, if there is one, and set its mode. Raises OSError, one sentence."""
    # This opens what is there by then, and follows no link.
    held = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(held).st_uid != os.geteuid():
            raise OSError(f"{path} belongs to uid {os.fstat(held).st_uid}")
        itself = f"/proc/self/fd/{held}"
        if group is not None:
            os.chown(itself, -1, group)
        os.chmod(itself, mode)
    except PermissionError as error:
        raise OSError(
            f"sampling.group: {path} cannot be given to the group {group}: "
            f"is the user {os.geteuid()} a member of it? If not: usermod -aG, and start the "
            "sidecar anew"
        ) from error
    finally:
        os.close(held)


def _remove_dead(path: Path) -> None:
    """Remove what a process of ours left behind that is gone. Raises OSError: something else is
    there."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise OSError(f"{path} exists and is not a socket")
    with unix_stream() as probe:
        # A process that listens there but accepts nobody listens all the same.
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:
            pass
        except ConnectionRefusedError:
            if found.st_uid != os.geteuid():
                words = f"{path} was left behind by uid {found.st_uid}: remove it"
                raise OSError(words) from None
            path.unlink()
            return
    raise OSError(f"another program listens at {path}")

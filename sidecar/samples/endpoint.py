"""The socket file where samples arrive.

ZeroMQ removes whatever is at the path that it binds, even a socket that another program uses, or a
file that is not a socket at all. So the path is checked first.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import zmq

from sidecar.base.metrics import Metrics
from sidecar.samples.receiver import SampleReceiver


def socket_path(endpoint: str) -> Path | None:
    """Of an ``ipc://`` endpoint; ``None`` for TCP and for a name that is not a file."""
    scheme, _, address = endpoint.partition("://")
    return Path(address) if scheme == "ipc" and not address.startswith("@") else None


@contextmanager
def bind_endpoint(
    endpoint: str, metrics: Metrics, group: int | None = None
) -> Iterator[SampleReceiver]:
    """The receiver, bound, with the socket's folder made if it is missing; the socket's file is
    removed at the end.

    With a ``group``, its members may connect and nobody else but this user; also the folder is
    theirs to enter, if it is made here, or is this user's own and that is not root, to whom folders
    such as /run belong.

    Raises:
        OSError: it cannot be bound, or something else uses the path; one sentence.
    """
    path = socket_path(endpoint)
    try:
        if path is not None:
            _make_folder(path.parent, group)
            _check_unused(path)
        receiver = SampleReceiver(endpoint, metrics)
    except zmq.ZMQError as error:
        raise OSError(f"sampling.endpoint {endpoint}: cannot be bound: {error.strerror}") from error
    except OSError as error:
        raise OSError(
            f"sampling.endpoint {endpoint}: cannot be bound: {error.strerror or error}"
        ) from error
    with receiver:
        if path is None:
            yield receiver
            return
        made = path.stat()
        try:
            if group is not None:
                _give(path, group, 0o660)
            yield receiver
        finally:
            # While it listens: nobody else binds the path until it is closed.
            if path.exists() and os.path.samestat(path.stat(), made):
                path.unlink()


def _make_folder(folder: Path, group: int | None) -> None:
    if folder.exists():
        user = os.geteuid()
        is_ours = user != 0 and folder.stat().st_uid == user
    else:
        folder.mkdir(parents=True)
        is_ours = True
    if group is not None and is_ours:
        _give(folder, group, 0o750)


def _give(path: Path, group: int, mode: int) -> None:
    """Raises OSError, one sentence."""
    try:
        os.chown(path, -1, group)
        path.chmod(mode)
    except PermissionError as error:
        raise OSError(
            f"sampling.group: {path} cannot be given to the group {group}: "
            f"is the user {os.geteuid()} a member of it?"
        ) from error


def _check_unused(path: Path) -> None:
    if not path.exists():
        return
    if not path.is_socket():
        raise OSError(f"{path} exists and is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return  # left behind by a process that is gone
    raise OSError(f"another program listens at {path}")

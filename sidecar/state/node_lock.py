"""Lets only one sidecar have a state file and an endpoint; ``servers.server_lock`` has servers."""

from __future__ import annotations

import fcntl
import logging
import os
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sidecar.base.private_files import (
    OWN_FOLDER,
    make_own_folder,
    open_lock,
    who_else_may_write,
)
from sidecar.base.regular_file import open_regular
from sidecar.config.node import SidecarConfig
from sidecar.samples.endpoint import socket_path

log = logging.getLogger(__name__)

# fcntl(2): type, whence, start, length, process.
_LOCK = "hhqqi4x"
_MOST_PROCESS_BYTES = 20


class NodeLockedError(OSError):
    """Another sidecar runs; the message names what it holds and its process."""


def lock_paths(config: SidecarConfig) -> dict[str, Path]:
    """Return the paths of locks by the key of the configuration. They lie beside the state file and
    beside the samples' socket, as far as there are such files.

    A TCP port or an abstract socket can be bound only once anyway.
    """
    beside = {
        "state_file": config.state_file,
        "sampling.endpoint": socket_path(config.sampling.endpoint),
    }
    return {key: path.with_name(f"{path.name}.lock") for key, path in beside.items() if path}


@contextmanager
def node_lock(config: SidecarConfig) -> Iterator[None]:
    """Hold the locks of a configuration; the kernel releases them with the process, however that
    ends.

    Raises:
        NodeLockedError: another process holds one.
        OSError: a file cannot be made or written, the state file is a directory, or others may
            write to a folder (``check_own_folders``).
    """
    if config.state_file is not None and config.state_file.is_dir():
        raise OSError(f"state_file {config.state_file}: is a directory")
    check_own_folders(config)
    with ExitStack() as held:
        for key, path in lock_paths(config).items():
            held.enter_context(_file_lock(key, path))
        yield


def is_locked(config: SidecarConfig) -> bool:
    """Whether a sidecar runs with this configuration; takes no lock, not even for a moment.

    Its state file tells: two files that name one endpoint are of two sidecars. Without a state file
    the endpoint does.
    """
    path = next(iter(lock_paths(config).values()), None)
    if path is None:
        return False
    try:
        with open_regular(path) as file:
            answer = fcntl.fcntl(file, fcntl.F_OFD_GETLK, _whole_file(fcntl.F_WRLCK))
    except OSError:  # there is none, or it is another user's
        return False
    return bool(struct.unpack(_LOCK, answer)[0] != fcntl.F_UNLCK)


def _whole_file(kind: int) -> bytes:
    """Make a ``struct flock`` from the beginning to the end, of no process."""
    return struct.pack(_LOCK, kind, os.SEEK_SET, 0, 0, 0)


def locked_by(path: Path) -> str:
    """Return the process that a lock's file names, as far as it is one. Raises OSError."""
    with open_regular(path) as file:
        text = file.read(_MOST_PROCESS_BYTES).decode("ascii", errors="replace").strip()
    return text if text.isdigit() else ""


def own_folders(config: SidecarConfig) -> dict[str, Path]:
    """Return the folders of what only the sidecar may write, by the key of the configuration. The
    history lies beside the state, and teams have folders of their own below that of the
    documents."""
    files = {
        "state_file": config.state_file,
        "sampling.endpoint": socket_path(config.sampling.endpoint),
        "operators.socket": config.operators.socket,
    }
    folders = {key: path.parent for key, path in files.items() if path}
    documents = config.controller.folder
    return folders if documents is None else {**folders, "controller.folder": documents}


def check_own_folders(config: SidecarConfig) -> None:
    """Check that nobody else may write there.

    Raises:
        OSError: somebody may; the message names key, folder and who.
    """
    for key, folder in own_folders(config).items():
        if why := who_else_may_write(folder):
            raise OSError(f"{key}: {why}, so others could take its place: {OWN_FOLDER}")


@contextmanager
def _file_lock(key: str, path: Path) -> Iterator[None]:
    try:
        make_own_folder(path.parent)
    except OSError as error:
        raise OSError(f"{path}: cannot be locked: {error.strerror or error}") from error
    # The file stays: who removes one while another opens it lets both in.
    with open_lock(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # This one can be asked for, and not taken, by ``is_locked``.
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, _whole_file(fcntl.F_WRLCK))
        except BlockingIOError as error:
            file.seek(0)
            holder = file.read().decode(errors="replace").strip() or "unknown"
            raise NodeLockedError(
                f"{key}: {path} is locked by the sidecar with process id {holder}: "
                f"each sidecar needs a {key} of its own, and each server one sidecar only"
            ) from error
        try:
            file.write(f"{os.getpid()}\n".encode())
            file.truncate()
        except OSError as error:  # the lock holds all the same: a full disk keeps nobody from it
            log.warning("%s: the process id cannot be written: %s", path, error.strerror)
        yield

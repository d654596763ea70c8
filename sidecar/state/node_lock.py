"""One sidecar for one state file and one endpoint; ``servers.server_lock`` has the servers."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sidecar.base.own_folder import make_own_folder
from sidecar.config.node import SidecarConfig
from sidecar.samples.endpoint import socket_path


class NodeLockedError(OSError):
    """Another sidecar runs; the message names what it holds and its process."""


def lock_paths(config: SidecarConfig) -> dict[str, Path]:
    """Beside the state file and beside the samples' socket, as far as there are such files; by the
    key of the configuration.

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
        OSError: a file cannot be made or written, or the state file is a directory.
    """
    if config.state_file is not None and config.state_file.is_dir():
        raise OSError(f"state_file {config.state_file}: is a directory")
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
    if path is None or not path.exists():
        return False
    held = {line.split()[5] for line in Path("/proc/locks").read_text().splitlines()}
    # Device and inode are all that the kernel tells of a file there; devices it numbers otherwise.
    inodes = {place.rpartition(":")[2] for place in held}
    return str(path.stat().st_ino) in inodes


@contextmanager
def _file_lock(key: str, path: Path) -> Iterator[None]:
    try:
        make_own_folder(path.parent)
        # Unbuffered: what a full disk does not take must not come up again when it is closed.
        file = path.open("a+b", buffering=0)
    except OSError as error:
        raise OSError(f"{path}: cannot be locked: {error.strerror}") from error
    # The file stays: who removes one while another opens it lets both in.
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            holder = file.read().decode(errors="replace").strip() or "unknown"
            raise NodeLockedError(
                f"{key}: {path} is locked by the sidecar with process id {holder}: "
                f"each sidecar needs a {key} of its own, and each server one sidecar only"
            ) from error
        try:
            file.truncate(0)
            file.write(f"{os.getpid()}\n".encode())
        except OSError as error:
            raise OSError(f"{path}: cannot be written: {error.strerror}") from error
        yield

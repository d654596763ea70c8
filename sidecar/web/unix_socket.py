"""Gives a Unix socket to listen at: who may connect, and paths of any length."""

from __future__ import annotations

import errno
import grp
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sidecar.base.kernel_waits import unix_stream
from sidecar.base.private_files import make_own_folder
from solver_lambda.http.listening import BACKLOG

_LOOK_SECONDS = 1.0


class UnixSocket:
    """Listens at a path until ``close``, which removes the path again.

    Only the sidecar's own user may connect, and the members of ``group`` if there is one. What a
    dead sidecar left at the path is replaced; anything else that is there is left alone.

    Raises:
        OSError: with the path: it cannot be bound, or somebody answers there.
    """

    def __init__(self, path: Path, group: str | None = None) -> None:
        self._path = path
        self.listening = unix_stream()
        try:
            make_own_folder(path.parent)
            with _short(path) as short:
                _remove_dead(short)
                # The path gets these rights as it appears: there is no moment with more.
                os.fchmod(self.listening.fileno(), 0o600)
                self.listening.bind(short)
                if group is not None:
                    os.chown(short, -1, grp.getgrnam(group).gr_gid)
                    os.chmod(short, 0o660)
                self._inode = os.stat(short).st_ino
            self.listening.listen(BACKLOG)
        except (OSError, KeyError) as error:
            self.listening.close()
            why = getattr(error, "strerror", None) or str(error)
            if isinstance(error, PermissionError) and group is not None:
                why += f" (is the sidecar's user a member of operators.group {group!r}?)"
            number = getattr(error, "errno", None) or errno.EINVAL
            raise OSError(number, f"{path} cannot be bound: {why}") from error

    @property
    def is_gone(self) -> bool:
        """Whether somebody removed the path, so that nobody finds us any more."""
        return not os.path.lexists(self._path)

    def close(self) -> None:
        """Listen no more. What another sidecar put at the path meanwhile stays."""
        self.listening.close()
        with suppress(OSError):
            if os.stat(self._path).st_ino == self._inode:
                os.unlink(self._path)


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """Give the same place in a few bytes: an address has room for 107."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def _remove_dead(path: str) -> None:
    """Remove a socket where nobody answers. Raises OSError: there is no socket, or somebody
    answers."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise FileExistsError(errno.EEXIST, "a file is there that is not a socket")
        with unix_stream() as probe:
            probe.settimeout(_LOOK_SECONDS)
            try:
                probe.connect(path)
            except ConnectionRefusedError:
                os.unlink(path)
            else:
                raise OSError(errno.EADDRINUSE, "another process answers there")

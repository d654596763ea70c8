"""Files are read whoever has their folder: a pipe makes one wait, and a device never ends."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO


def open_regular(path: Path) -> BinaryIO:
    """Open a file to read its bytes. Raises OSError, also where it is no regular file."""
    file = open(path, "rb", opener=_open_at_once)  # noqa: SIM115 whoever asks closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return file


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)

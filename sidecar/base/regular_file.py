"""Files are read whoever has their folder: a pipe makes one wait, and a device never ends."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO


def open_regular(path: Path, *, more_flags: int = 0) -> BinaryIO:
    """Open a file to read its bytes. Raises OSError, also where it is no regular file.

    ``more_flags``: of ``os.open``, for example ``O_NOFOLLOW``.
    """
    at_once = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    descriptor = os.open(path, at_once | more_flags)
    # Before there is a file object: none is made of a folder, and nobody would close this.
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    return os.fdopen(descriptor, "rb")

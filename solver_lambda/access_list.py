"""Reads access control lists of files, as the kernel keeps them (acl(5),
linux/posix_acl_xattr.h)."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

READ_RIGHT, WRITE_RIGHT = 4, 2
USER_TAG, GROUP_TAG = 0x02, 0x08
_MASK_TAG = 0x10
_HEADER_BYTES = 4
_ALL_RIGHTS = 7


def named_in_list(
    file: Path | int, right: int, *, inherited: bool = False
) -> Iterator[tuple[int, int]]:
    """Yield tag and number of the users and groups that a list names with a right; ``file`` may be
    a descriptor. ``inherited``: of what is made in a folder, whatever mask its mode makes of
    that."""
    kind = "default" if inherited else "access"
    try:
        text = os.getxattr(file, f"system.posix_acl_{kind}")
    except OSError:  # it has none, or the file system knows none
        return
    entries = list(struct.iter_unpack("<HHI", text[_HEADER_BYTES:]))
    masks = [] if inherited else [rights for tag, rights, _ in entries if tag == _MASK_TAG]
    for tag, rights, number in entries:
        if tag in (USER_TAG, GROUP_TAG) and rights & right & (*masks, _ALL_RIGHTS)[0]:
            yield tag, number

"""Opens files that only the sidecar's own user may change: locks and folders."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from solver_lambda.access_list import GROUP_TAG, USER_TAG, WRITE_RIGHT, named_in_list

OWN_FOLDER = "take a folder that only the sidecar's user may write to"
_MOST_LINKS = 40  # as the kernel has it


def open_lock(path: Path) -> BinaryIO:
    """Open a file to lock, and make it with mode 0600 if it is missing; nothing is truncated.

    The checks are of what was opened, so nobody can exchange it after them.

    Raises:
        OSError: it cannot be opened, or is a link, no regular file, or another user's; the message
            is one sentence with the path.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        why = "it is a symbolic link" if path.is_symlink() else error.strerror
        raise OSError(f"{path}: cannot be locked: {why}") from error
    found = os.fstat(descriptor)
    why_not = None
    if not stat.S_ISREG(found.st_mode):
        why_not = "it is not a regular file"
    elif found.st_uid != os.geteuid():
        why_not = f"it belongs to another user (uid {found.st_uid})"
    elif found.st_nlink != 1:
        why_not = "it has another name as well (a hard link)"
    if why_not is not None:
        os.close(descriptor)
        raise OSError(f"{path}: cannot be locked: {why_not}")
    os.fchmod(descriptor, 0o600)
    # Unbuffered: what a full disk does not take must not come up again when it is closed.
    return os.fdopen(descriptor, "r+b", buffering=0)


def make_own_folder(folder: Path) -> None:
    """Make a folder for its owner alone if it is missing, whatever the umask is. What is missing
    above it is made so that others may pass.

    Each is judged before the next one is made in it: somebody else may have made it meanwhile.

    Raises:
        OSError: it cannot be made, or others may write to it or exchange it.
    """
    for one, mode in [*((parent, 0o755) for parent in reversed(folder.parents)), (folder, 0o700)]:
        if not one.exists():
            _check_own_folder(one)
            _make(one, mode)
    _check_own_folder(folder)


def _check_own_folder(folder: Path) -> None:
    if why := who_else_may_write(folder):
        raise OSError(f"{why}, so others could take its place: {OWN_FOLDER}")


def who_else_may_write(folder: Path, user: int | None = None) -> str | None:
    """Say who, beside a user and root, may put files into a folder, or exchange it; the user is
    that of this process, or the one of this number.

    Each folder on the way to it counts as well, as it does for sshd; there the sticky bit is
    enough. So does each link on the way: who owns it can turn it later. A folder that does not
    exist yet is judged by those that do. ``None``: nobody else.
    """
    at, links = Path("/"), 0
    parts = list(reversed(folder.absolute().parts))
    while parts:
        at = at.parent if (part := parts.pop()) == ".." else at / part
        try:
            found = at.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        if found.st_uid not in (0, os.geteuid() if user is None else user):
            return f"{at} belongs to the user {found.st_uid}"
        if stat.S_ISLNK(found.st_mode):
            if (links := links + 1) > _MOST_LINKS:
                return f"{at} is one of too many links"
            parts += reversed(at.readlink().parts)
            at = at.parent  # an absolute one begins anew at the root
        elif not found.st_mode & stat.S_ISVTX and (why := _who_else(at, user)):
            return why
    if name := _named_in_list(at, os.geteuid() if user is None else user, inherited=True):
        return f"a default access control list lets {name} write to what is made in {at}"
    return _who_else(at, user)


def whose_alone(folder: Path) -> int | None:
    """Return the user who alone, beside root, can have made a folder, and may write to it.
    ``None``: there may be others, as below a folder in which everybody may make some."""
    try:
        user = folder.stat().st_uid
        shared = any(_who_else(one, user) for one in folder.resolve().parents)
    except OSError:
        return None
    return None if shared or who_else_may_write(folder, user) else user


def _who_else(folder: Path, user: int | None) -> str | None:
    """Say who else may write there, by the folder's mode, and by its access control list if it has
    one."""
    found = folder.lstat()
    if name := _named_in_list(folder, os.geteuid() if user is None else user):
        return f"an access control list lets {name} write to {folder}"
    if found.st_mode & stat.S_IWOTH:
        return f"everybody may write to {folder}"
    if found.st_mode & stat.S_IWGRP and _has_others(found.st_gid, user):
        return f"the members of group {_group_name(found.st_gid)} may write to {folder}"
    return None


def _named_in_list(folder: Path, user: int, *, inherited: bool = False) -> str | None:
    """Say whom a list lets write to the folder, or to what is made in it, beside the user and
    root."""
    for tag, number in named_in_list(folder, WRITE_RIGHT, inherited=inherited):
        if tag == USER_TAG and number not in (0, user):
            return f"the user {number}"
        if tag == GROUP_TAG and _has_others(number, user):
            return f"the members of group {_group_name(number)}"
    return None


def _make(folder: Path, mode: int) -> None:
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)  # never more, not for a moment
        folder.chmod(mode)


def _has_others(group: int, user: int | None) -> bool:
    """Whether a group may have members beside the user: it is not his own, or not his alone."""
    if group == 0:
        return False  # root's
    own_name, own_group = "", os.getegid()
    # In a container numbers may have no names.
    with suppress(KeyError):
        account = pwd.getpwuid(os.geteuid() if user is None else user)
        own_name, own_group = account.pw_name, own_group if user is None else account.pw_gid
    if group != own_group:
        return True
    # Several users of the system may have the same group, such as nogroup.
    members = {one.pw_name for one in pwd.getpwall() if one.pw_gid == group}
    with suppress(KeyError):
        members |= set(grp.getgrgid(group).gr_mem)
    return bool(members - {own_name})


def _group_name(group: int) -> str:
    try:
        return grp.getgrgid(group).gr_name
    except KeyError:
        return str(group)

"""Says what a secret must be, whoever holds it: the file that nobody else may read, and the
word."""

from __future__ import annotations

import io
import os
import re
import select
import stat
import time
from pathlib import Path

from solver_lambda.access_list import READ_RIGHT, USER_TAG, WRITE_RIGHT, named_in_list

MOST_BYTES = 64 * 1024
WAIT_SECONDS = 5.0
LEAST_TOKEN_CHARACTERS = 16
# One letter sixteen times is guessed at once; random bits in any alphabet have far more.
LEAST_DIFFERENT = 8


class SecretError(ValueError):
    """A file cannot serve as a secret; the words say why, and have neither path nor secret."""


def read_secret(path: Path) -> str:
    """Return the text of a file that only its owner, root and its group may read.

    A pipe of the user's own, as of a shell's ``<(...)``, has a few seconds to bring it.

    Raises:
        SecretError: it cannot be read, others may read or change it, or it is no text.
    """
    try:
        with open(path, "rb", buffering=0, opener=_open_at_once) as file:
            if why := why_not_secret(file.fileno()):
                raise SecretError(f"is no secret: {why}")
            text = _read_in_time(file)
        if len(text) > MOST_BYTES:
            raise SecretError(f"has more than {MOST_BYTES} bytes")
        return text.decode().strip()
    except OSError as error:
        raise SecretError(f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SecretError("cannot be read: it is not UTF-8") from error


def _open_at_once(path: str, flags: int) -> int:
    """Open it at once: a named pipe where nobody writes would keep us waiting."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def _read_in_time(file: io.RawIOBase) -> bytes:
    """Read all of it, and one byte more than a secret may have at most. Raises SecretError."""
    readable = select.poll()
    readable.register(file, select.POLLIN)
    end = time.monotonic() + WAIT_SECONDS
    text = b""
    while len(text) <= MOST_BYTES:
        if not readable.poll(max(0.0, end - time.monotonic()) * 1000):
            raise SecretError(f"cannot be read: it did not end within {WAIT_SECONDS:g} seconds")
        part = file.read(MOST_BYTES + 1 - len(text))
        if part == b"":
            break
        text += part or b""  # None: there was nothing to read after all
    return text


def why_not_secret(descriptor: int) -> str | None:
    """Say why an open file, or a pipe, keeps no secret; ``None`` if it does.

    Its group may read it, as a credential of systemd or a secret of Kubernetes has it.
    """
    found = os.fstat(descriptor)
    # Root may use what is another user's: commands for the sidecar of that user.
    if found.st_uid not in (0, os.geteuid()) and os.geteuid() != 0:
        return f"it belongs to another user (uid {found.st_uid})"
    if found.st_mode & (stat.S_IRWXO | stat.S_IWGRP):
        who = "others" if found.st_mode & stat.S_IRWXO else "its group"
        what = "read" if found.st_mode & stat.S_IROTH else "change"
        return f"{who} may {what} it (mode {stat.S_IMODE(found.st_mode):04o}): chmod o-rwx,g-w"
    for tag, number in named_in_list(descriptor, READ_RIGHT | WRITE_RIGHT):
        # A credential of systemd has a list for the unit's user.
        if (tag, number) not in ((USER_TAG, 0), (USER_TAG, os.geteuid())):
            whom = f"the {'user' if tag == USER_TAG else 'group'} {number}"
            return f"an access control list gives it to {whom}: setfacl -b"
    return None


def why_no_token(text: str, least_characters: int = LEAST_TOKEN_CHARACTERS) -> str | None:
    """Say why a text cannot be a token or a key; ``None`` if it can. The words do not have it."""
    if not re.fullmatch(rf"[!-~]{{{least_characters},}}", text):
        return (
            f"must hold one word of at least {least_characters} printable ASCII characters, on one "
            "line"
        )
    if len(set(text)) < LEAST_DIFFERENT:
        return f"must hold at least {LEAST_DIFFERENT} different characters: 'openssl rand -hex 32'"
    return None

"""What a secret must be, whoever holds it: the file that nobody else may read, and the word."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

MOST_BYTES = 64 * 1024
LEAST_TOKEN_CHARACTERS = 16
# One letter sixteen times is guessed at once; random bits in any alphabet have far more.
LEAST_DIFFERENT = 8


class SecretError(ValueError):
    """A file cannot serve as a secret; the words say why, and have neither path nor secret."""


def read_secret(path: Path) -> str:
    """The text of a file that only its owner, root and its group may read.

    Raises:
        SecretError: it cannot be read, others may read or change it, or it is no text.
    """
    try:
        with path.open("rb") as file:
            if why := why_not_secret(file.fileno()):
                raise SecretError(f"is no secret: {why}")
            text = file.read(MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            raise SecretError(f"has more than {MOST_BYTES} bytes")
        return text.decode().strip()
    except OSError as error:
        raise SecretError(f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SecretError("cannot be read: it is not UTF-8") from error


def why_not_secret(descriptor: int) -> str | None:
    """Say why an open file keeps no secret; ``None`` if it does.

    Its group may read it, as a credential of systemd or a secret of Kubernetes has it.
    """
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        return None  # a pipe, as of a shell's <(...), has no name that others could open
    # Root may use what is another user's: commands for the sidecar of that user.
    if found.st_uid not in (0, os.geteuid()) and os.geteuid() != 0:
        return f"it belongs to another user (uid {found.st_uid})"
    if found.st_mode & (stat.S_IRWXO | stat.S_IWGRP):
        who = "others" if found.st_mode & stat.S_IRWXO else "its group"
        what = "read" if found.st_mode & stat.S_IROTH else "change"
        return f"{who} may {what} it (mode {stat.S_IMODE(found.st_mode):04o}): chmod o-rwx,g-w"
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

"""Reads fields that only an operator's file has: sizes and durations with units, and secrets."""

from __future__ import annotations

import math
import os
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from solver_lambda.documents.reader import Fields
from solver_lambda.documents.server_settings import ServerSetting
from solver_lambda.documents.units import (
    format_duration,
    format_size,
    parse_duration,
    parse_size,
)
from solver_lambda.secret import SecretError, read_secret

# A smaller number without a unit is meant as megabytes, or gigabytes.
LEAST_BARE_BYTES = 1 << 16


def size(fields: Fields, key: str, default: object = ..., *, low: int = 0) -> int:
    """Read a size such as ``512mb`` in bytes. Raises DocumentError."""
    value = fields.value(key, default)
    try:
        size_bytes = parse_size(value)
    except ValueError as error:
        raise fields.refuse(key, str(error)) from error
    is_bare = not isinstance(value, str) or value.isdigit()
    if fields.has(key) and is_bare and 0 < size_bytes < LEAST_BARE_BYTES:
        raise fields.refuse(
            key,
            f"{value!r} has no unit, and is only {value} bytes: write '{value}mb', '{value}gb', or "
            f"'{value}b' if it is so small",
        )
    if size_bytes < low:
        raise fields.refuse(key, f"must be at least {format_size(low)}, not {value!r}")
    return size_bytes


def duration(
    fields: Fields,
    key: str,
    *,
    default: float | None = None,
    above: float = -math.inf,
    high: float = math.inf,
) -> float:
    """Read a duration such as ``200ms`` in seconds, never negative. Raises DocumentError."""
    if default is not None and not fields.has(key):
        return default
    value = fields.value(key)
    try:
        seconds = parse_duration(value)
    except ValueError as error:
        raise fields.refuse(key, str(error)) from error
    if seconds <= above:
        raise fields.refuse(key, f"must be more than {format_duration(above)}, not {value!r}")
    if seconds > high:
        raise fields.refuse(key, f"must be at most {format_duration(high)}, not {value!r}")
    return seconds


def as_written(fields: Fields, setting: ServerSetting) -> Any:
    """Return a server's setting as people write it; ``None`` if it is not there. Raises
    DocumentError."""
    if not fields.has(setting.option):
        return None
    above = 0.0 if setting.is_bound else -math.inf
    if setting.written == "size":
        return size(fields, setting.option)
    if setting.written == "duration":
        return duration(fields, setting.option, above=above)
    if setting.is_bound:
        return fields.number(setting.option, above=above)
    return fields.number(setting.option, low=0)


# Commands that only speak to the sidecar need no secret, and not everybody who gives orders may
# read them: then this stands for each of them.
reads_secrets: ContextVar[bool] = ContextVar("reads_secrets", default=True)
_UNREAD = "(this-secret-was-not-read-by-the-command)"


def secret(fields: Fields, key: str, folder: Path) -> str | None:
    """Return what ``<key>_file`` or ``<key>_env`` points to, or ``None``; never in a message.

    Raises:
        DocumentError: both are given, there is nothing where they point, or others may read the
            file.
    """
    if fields.has(f"{key}_file") and fields.has(f"{key}_env"):
        raise fields.refuse(f"{key}_file", f"and {key}_env are both given: give one of them")
    if path := secret_path(fields, key, folder):
        if not reads_secrets.get():
            return _UNREAD
        try:
            return read_secret(path)
        except SecretError as error:
            raise fields.refuse(f"{key}_file", f"{str(path)!r} {error}") from error
    if fields.has(f"{key}_env"):
        name = fields.text(f"{key}_env")
        if not reads_secrets.get():
            return _UNREAD
        if name not in os.environ:
            raise fields.refuse(f"{key}_env", f"names {name!r}, which is not in the environment")
        return os.environ[name]
    return None


def secret_path(fields: Fields, key: str, folder: Path) -> Path | None:
    """Return the file that ``secret`` reads, if any."""
    return folder / fields.text(f"{key}_file") if fields.has(f"{key}_file") else None


def lasting_secret_path(fields: Fields, key: str, folder: Path) -> Path | None:
    """Return the same, if it can be read again: a pipe cannot."""
    path = secret_path(fields, key, folder)
    return path if path is not None and path.is_file() else None


def secret_key(fields: Fields, key: str) -> str | None:
    """Say where ``secret`` has it from, for messages; ``None`` if there is none."""
    for name in (f"{key}_file", f"{key}_env"):
        if fields.has(name):
            return f"{name} {fields.text(name)!r}"
    return None

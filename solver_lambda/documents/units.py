"""Writes and reads sizes and durations as people do: ``512mb``, ``200ms``."""

from __future__ import annotations

import re

# As in redis.conf: 1k is 1,000 bytes and 1kb is 1,024.
_SIZE_UNITS = {
    "": 1,
    "b": 1,
    "k": 1000,
    "kb": 1 << 10,
    "m": 1000**2,
    "mb": 1 << 20,
    "g": 1000**3,
    "gb": 1 << 30,
    "t": 1000**4,
    "tb": 1 << 40,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
}
# How many make a second, or how many seconds make one: so that 200us is 0.0002 to the last digit.
_PER_SECOND = {"us": 1e6, "ms": 1e3, "s": 1.0}
_IN_SECONDS = {"m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.ASCII | re.IGNORECASE)


def parse_size(value: object) -> int:
    """Return the bytes of ``"512mb"`` or of a whole number.

    Raises:
        ValueError: not a size, or more than documents may have.
    """
    # Not imported at the top: `spreds mrc` only formats, and would take longer to start.
    from solver_lambda.documents.reader import MOST_BYTES, shown

    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        size_bytes: float = value
    else:
        match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
        if not match or match[2].lower() not in _SIZE_UNITS:
            raise ValueError(
                f"must be a size such as '512MiB' (b, KiB, MiB, GiB, TiB), not {shown(value)}"
            )
        size_bytes = float(match[1]) * _SIZE_UNITS[match[2].lower()]
    if size_bytes > MOST_BYTES:
        raise ValueError(f"must be at most {MOST_BYTES} bytes, not {shown(value)}")
    return round(size_bytes)


def parse_duration(value: object) -> float:
    """Return the seconds of ``"200ms"``; a bare number has no unit and is refused, except 0.

    Raises:
        ValueError: not a duration, or more than documents may have.
    """
    from solver_lambda.documents.reader import MOST_NUMBER, shown

    if value == 0 and not isinstance(value, bool):
        return 0.0
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    unit = match[2].lower() if match else ""
    if match and unit in _PER_SECOND:
        seconds = float(match[1]) / _PER_SECOND[unit]
    elif match and unit in _IN_SECONDS:
        seconds = float(match[1]) * _IN_SECONDS[unit]
    else:
        raise ValueError(
            f"must be a duration such as '200ms' (us, ms, s, m, h, d), not {shown(value)}"
        )
    if seconds > MOST_NUMBER:
        raise ValueError(f"must be at most {MOST_NUMBER:g} s, not {shown(value)}")
    return seconds


def format_size(size_bytes: float) -> str:
    """Write a size for people, in the unit that keeps it short: ``"12.5 MiB"``."""
    if size_bytes >= 1 << 61:  # the reader's MOST_BYTES: what is greater was read as that
        return "2 EiB or more"
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20)):
        if abs(size_bytes) >= scale:
            return f"{_short(size_bytes / scale)} {unit}"
    if abs(size_bytes) >= 1024:
        return f"{size_bytes / 1024:.4g} KiB"
    return f"{size_bytes:.0f} B"


def format_duration(seconds: float) -> str:
    """Write a duration for people, as ``parse_duration`` reads it: ``"200ms"``, ``"5min"``."""
    for unit, scale in (("d", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if abs(seconds) >= scale:
            return _short(seconds / scale) + unit
    return f"{_short(seconds * 1e6)}us" if seconds else "0s"


def _short(number: float) -> str:
    return f"{number:.3f}".rstrip("0").rstrip(".")

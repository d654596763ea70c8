"""Tells points in time, for people."""

from __future__ import annotations

from datetime import datetime


def time_of_day(at_seconds: float) -> str:
    """Say a Unix time, local and with its zone; a calendar has no more than 9999 years."""
    try:
        return datetime.fromtimestamp(at_seconds).astimezone().strftime("%Y-%m-%d %H:%M:%S %z")
    except (ValueError, OverflowError, OSError):
        return f"Unix time {at_seconds:g}"

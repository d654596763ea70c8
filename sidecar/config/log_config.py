"""Reads ``[log]``: how the sidecar logs."""

from __future__ import annotations

from dataclasses import dataclass

from solver_lambda.documents.reader import Fields

FORMATS = ("text", "json")


@dataclass(frozen=True)
class LogConfig:
    """Has a ``format``: ``text`` for people, ``json`` for programs: one object a line."""

    format: str = "text"


def read_log(fields: Fields) -> LogConfig:
    """Read ``[log]``. Raises DocumentError."""
    config = LogConfig(fields.text("format", LogConfig.format, FORMATS))
    fields.done()
    return config

"""Lists what an operator sets for a server and its team may set in its place: one table for all
readers.

The node's file, the team's document, ``spreds weights`` and the observation are read by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from solver_lambda.documents.reader import MOST_BYTES, MOST_NUMBER, Fields
from solver_lambda.documents.units import format_duration, format_size

# Characters of what names the settings that count.
MAX_VERSION = 128


@dataclass(frozen=True)
class ServerSetting:
    """Describes one such setting.

    Attributes:
        name: in documents, where it is a number in the unit that the name tells.
        option: in the node's file, and with hyphens on the command line.
        written: how people write it there.
        example: of that.
        is_bound: it is at most what a server's size may lead to, see ``planning/bounds.py``.
        least, most: the operator's limits on what a team sets, by their names in ``[limits]``'
            type.
    """

    name: str
    option: str
    written: Literal["number", "duration", "size"]
    example: str
    is_bound: bool = False
    least: str | None = None
    most: str | None = None

    def in_words(self, value: float) -> str:
        """Write a value as people do."""
        if self.written == "duration":
            return format_duration(value)
        return format_size(value) if self.written == "size" else f"{value:g}"

    def read(
        self, fields: Fields, low: float = 0.0, high: float | None = None
    ) -> float | int | None:
        """Read the setting from a document; ``None`` if it is not there. Raises DocumentError."""
        if not fields.has(self.name):
            return None
        if self.written == "size":
            most = MOST_BYTES if high is None else int(high)
            wanted = fields.value(self.name)
            # A number without end has no size in words, and no float holds it.
            if isinstance(wanted, int) and most < wanted <= MOST_BYTES and high is not None:
                raise fields.refuse(
                    self.name,
                    f"must be at most {format_size(most)} ({most}), not {format_size(wanted)}",
                )
            return fields.integer(self.name, low=int(low), high=most)
        if self.is_bound:
            return fields.number(self.name, above=0)
        return fields.number(self.name, low=low, high=MOST_NUMBER if high is None else high)


SERVER_SETTINGS = (
    ServerSetting(
        "weight", "weight", "number", "2.5", least="minimum_weight", most="maximum_weight"
    ),
    ServerSetting(
        "backend_latency_seconds",
        "backend_latency",
        "duration",
        "200ms",
        most="maximum_backend_latency_seconds",
    ),
    ServerSetting("minimum_bytes", "minimum", "size", "64mb", most="maximum_minimum_bytes"),
    ServerSetting("latency_bound_seconds", "latency_bound", "duration", "20ms", is_bound=True),
    ServerSetting("miss_bound_per_second", "miss_bound", "number", "50", is_bound=True),
)
BOUNDS = {setting.name: setting for setting in SERVER_SETTINGS if setting.is_bound}


def read_bounds(fields: Fields) -> dict[str, float]:
    """Read those that are there, by name. Raises DocumentError."""
    found = {name: setting.read(fields) for name, setting in BOUNDS.items()}
    return {name: value for name, value in found.items() if value is not None}

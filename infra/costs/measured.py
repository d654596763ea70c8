"""What was measured of our function and our documents, and how: one file, the defaults.

``python -m workloads bench function`` writes it.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MEASURED_FILE = Path(__file__).with_name("measured.json")


class MeasuredError(ValueError):
    """A file of measurements breaks its rules; the message names the file and the key."""


@dataclass(frozen=True)
class DocumentBytes:
    """Size of a document: a part for the node, and one for each of its servers."""

    node: float
    server: float

    def of(self, servers: int) -> float:
        """Return the bytes of a document with ``servers`` servers."""
        return self.node + self.server * servers


@dataclass(frozen=True)
class Measured:
    """Holds what the file says.

    Attributes:
        date: of the measurement; how: what was run, and where.
        init_cpu_seconds: a first run's processor time beyond a warm run's.
        run_points: number of servers and processor seconds of a warm run, by rising number.
        peak_memory_bytes: of the process.
        observation_bytes, plan_bytes, log_bytes: sizes.
    """

    date: str
    how: str
    init_cpu_seconds: float
    run_points: tuple[tuple[int, float], ...]
    peak_memory_bytes: int
    observation_bytes: DocumentBytes
    plan_bytes: DocumentBytes
    log_bytes: DocumentBytes

    def run_cpu_seconds(self, servers: int) -> float:
        """Interpolate a warm run's processor seconds, also beyond the last point; never falling."""
        points = []
        highest = 0.0
        for at, seconds in self.run_points:
            highest = max(highest, seconds)
            points.append((at, highest))
        if len(points) == 1 or servers <= points[0][0]:
            return points[0][1]
        after = next((i for i, (at, _) in enumerate(points[1:], 1) if servers <= at), -1)
        (x0, y0), (x1, y1) = points[after - 1], points[after]
        return y0 + (y1 - y0) * (servers - x0) / (x1 - x0)


def read_measured(path: Path = MEASURED_FILE) -> Measured:
    """Read and check the file.

    Raises:
        MeasuredError: with the key at fault.
        OSError: it cannot be read.
    """
    try:
        table = json.loads(path.read_text())
        if not isinstance(table, dict):
            raise TypeError("it is not an object")
    except (ValueError, TypeError) as error:
        raise MeasuredError(f"{path}: not a file of measurements: {error}") from error

    def number(values: dict[str, Any], key: str, name: str) -> float:
        value = values.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf:
            return float(value)
        raise MeasuredError(f"{path}: {name} must be a number of at least 0, not {value!r}")

    def nested(key: str) -> dict[str, Any]:
        value = table.get(key)
        if not isinstance(value, dict) or not value:
            raise MeasuredError(f"{path}: {key} must be an object, not {value!r}")
        return value

    def document(key: str) -> DocumentBytes:
        values = nested(key)
        return DocumentBytes(
            number(values, "node", f"{key}.node"), number(values, "server", f"{key}.server")
        )

    runs = nested("run_cpu_seconds")
    if not all(key.isdecimal() and int(key) > 0 for key in runs):
        raise MeasuredError(f"{path}: run_cpu_seconds must have numbers of servers as keys")
    return Measured(
        date=str(table.get("date", "undated")),
        how=str(table.get("how", "not said")),
        init_cpu_seconds=number(table, "init_cpu_seconds", "init_cpu_seconds"),
        run_points=tuple(
            (int(key), number(runs, key, f"run_cpu_seconds.{key}")) for key in sorted(runs, key=int)
        ),
        peak_memory_bytes=round(number(table, "peak_memory_bytes", "peak_memory_bytes")),
        observation_bytes=document("observation_bytes"),
        plan_bytes=document("plan_bytes"),
        log_bytes=document("log_bytes"),
    )

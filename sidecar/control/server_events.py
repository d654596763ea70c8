"""Restarts, outages and changes of role of servers, for the history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sidecar.servers.server_reading import ServerReading
from solver_lambda.documents.units import format_duration

# A shorter outage is not told.
OUTAGE_SECONDS = 10.0
# Of one server no more than one event is told in that time; the next one tells what is left of it.
AT_MOST_EACH_SECONDS = 60.0


@dataclass(frozen=True)
class _Told:
    """Of one server, what was told last.

    Attributes:
        run_id: of its process; empty: it has not been seen yet.
        gone_since_seconds: Unix time; ``None``: it answered.
        at_seconds: when something was told of it.
    """

    run_id: str = ""
    role: str | None = None
    gone_since_seconds: float | None = None
    at_seconds: float = 0.0


class ServerEvents:
    """Of one sidecar. ``run_ids``: of the processes that the last one saw."""

    def __init__(self, run_ids: Mapping[str, str]) -> None:
        self._told = {name: _Told(run_id) for name, run_id in run_ids.items()}
        self._gone_since: dict[str, float] = {}

    def look(
        self, now_seconds: float, readings: Mapping[str, ServerReading], errors: Mapping[str, str]
    ) -> Iterator[tuple[str, str]]:
        """Yield the server and what happened to it, for people. ``errors``: why servers do not
        answer; times are Unix time."""
        for name in readings.keys() | errors.keys():
            told, reading = self._told.get(name, _Told()), readings.get(name)
            if reading is None:
                since = self._gone_since.setdefault(name, now_seconds)
                now, words = _gone(told, since, now_seconds, errors[name])
            else:
                self._gone_since.pop(name, None)
                now, words = _here(told, reading, now_seconds)
            if not words:
                self._told[name] = now
            elif now_seconds - told.at_seconds >= AT_MOST_EACH_SECONDS:
                self._told[name] = replace(now, at_seconds=now_seconds)
                yield name, f"{name} {words}"


def _gone(
    told: _Told, since_seconds: float, now_seconds: float, error: str
) -> tuple[_Told, str | None]:
    if told.gone_since_seconds is not None or now_seconds - since_seconds < OUTAGE_SECONDS:
        return told, None
    return replace(told, gone_since_seconds=since_seconds), f"does not answer: {error}"


def _here(told: _Told, reading: ServerReading, now_seconds: float) -> tuple[_Told, str]:
    parts = []
    if told.gone_since_seconds is not None:
        away = format_duration(round(max(0.0, now_seconds - told.gone_since_seconds)))
        parts.append(f"answers again, after {away}")
    if told.run_id not in ("", reading.run_id):
        parts.append("was restarted")
    if told.role not in (None, reading.role):
        role = "a replica" if reading.role == "slave" else "a primary"
        parts.append(f"is {role} from now on")
    now = replace(told, run_id=reading.run_id, role=reading.role, gone_since_seconds=None)
    return now, ", and ".join(parts)

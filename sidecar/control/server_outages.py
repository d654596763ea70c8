"""Notices restarts, outages and changes of role of servers, for the history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sidecar.base.time_of_day import time_of_day
from sidecar.servers.connection.outage_words import outage_words
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.state.sidecar_state import SidecarState
from solver_lambda.documents.units import format_duration, format_size

# A shorter outage is not told.
OUTAGE_SECONDS = 10.0
# So many events of one server are told at once, and then one per so many seconds. The next one
# tells the rest of those in between.
MOST_AT_ONCE, SECONDS_EACH = 4, 60.0
_RESTARTED = "was restarted"


@dataclass(frozen=True)
class _Known:
    """Keeps what was told of one server, or is; times are Unix time.

    Attributes:
        run_id: of its process; empty: it has not been seen yet.
        gone_at_seconds: when it was first seen not to answer; ``None``: it answers.
        away: of an outage that was told: from when to when, and how long, for people.
    """

    run_id: str = ""
    role: str | None = None
    gone_at_seconds: float | None = None
    away: str = ""


class ServerOutages:
    """Notices when servers of one sidecar restart, go away, come back or change their
    role. ``run_ids``: of the processes that the last one saw."""

    def __init__(self, run_ids: Mapping[str, str]) -> None:
        self._told = {name: _Known(run_id) for name, run_id in run_ids.items()}
        self._gone_at: dict[str, float] = {}
        # By server: how many may be told, at the last look.
        self._may: dict[str, tuple[float, float]] = {}

    def take_readings(
        self, now_seconds: float, readings: Mapping[str, ServerReading], errors: Mapping[str, str]
    ) -> Iterator[tuple[str, str]]:
        """Yield the server and what happened to it, for people. ``errors``: why servers do not
        answer."""
        for name in readings.keys() | errors.keys():
            told, reading = self._told.get(name, _Known()), readings.get(name)
            if reading is None:
                gone_at = self._gone_at.setdefault(name, now_seconds)
                now, words = _gone(told, gone_at, now_seconds, errors[name])
            else:
                self._gone_at.pop(name, None)
                now, words = _here(told, reading, now_seconds)
            if words and not self._may_tell(name, now_seconds):
                # Only now is it known how long it was away, not when that is told.
                now, words = replace(told, away=now.away), ""
            self._told[name] = now if not words else replace(now, away="")
            if words:
                yield name, f"{name} {words}"

    def _may_tell(self, name: str, now_seconds: float) -> bool:
        left, at_seconds = self._may.get(name, (float(MOST_AT_ONCE), now_seconds))
        left = min(MOST_AT_ONCE, left + max(0.0, now_seconds - at_seconds) / SECONDS_EACH)
        self._may[name] = (left - 1 if left >= 1 else left, now_seconds)
        return left >= 1


def _gone(
    told: _Known, gone_at_seconds: float, now_seconds: float, error: str
) -> tuple[_Known, str]:
    if told.gone_at_seconds is not None or now_seconds - gone_at_seconds < OUTAGE_SECONDS:
        return told, ""
    since = time_of_day(gone_at_seconds)
    why = outage_words(error).partition(": ")[2]
    return replace(told, gone_at_seconds=gone_at_seconds), f"does not answer since {since}: {why}"


def _here(told: _Known, reading: ServerReading, now_seconds: float) -> tuple[_Known, str]:
    parts, away = [], told.away
    if told.gone_at_seconds is not None and not away:
        length = format_duration(round(max(0.0, now_seconds - told.gone_at_seconds)))
        away = f"from {time_of_day(told.gone_at_seconds)} to {time_of_day(now_seconds)} ({length})"
    if away:
        parts.append(f"answers again, and did not {away}")
    if told.run_id not in ("", reading.run_id):
        parts.append(_RESTARTED)
    if told.role not in (None, reading.role):
        role = "a replica" if reading.role == "slave" else "a primary"
        parts.append(f"is {role} from now on")
    return _Known(reading.run_id, reading.role, None, away), "; ".join(parts)


def set_again(name: str, words: str, state: SidecarState, has_bytes: int = 0) -> str:
    """Say which size a restarted server gets, whatever its own file says: what is planned. A size
    that was set by hand stays only if it ``has_bytes`` of it still."""
    held, size_bytes = state.control.held.get(name), state.targets_bytes.get(name)
    if _RESTARTED not in words or not size_bytes or not state.control.sets_sizes:
        return ""
    if held and held.bytes == has_bytes:
        return f"; it keeps {format_size(has_bytes)}, which was set by hand"
    return f"; it goes back to {format_size(size_bytes)}"

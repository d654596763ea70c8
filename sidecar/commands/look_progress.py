"""What a look says before it has an answer: whom it cannot look at, and how far it is."""

from __future__ import annotations

from collections.abc import Sequence

from sidecar.config.addresses import shown_url
from sidecar.look.looking import Refused
from sidecar.look.server_look import ServerLook


def refused_words(one: Refused) -> str:
    """Who it is, and why it was not looked at, without a full stop."""
    at = f" ({shown_url(one.url)})" if one.url and one.name not in one.url else ""
    return f"{one.name}{at} {one.why.rstrip('.')}"


def nothing_words(refused: Sequence[Refused]) -> str:
    """Where no server could be looked at."""
    lines = [f"spreds: {refused_words(one)}" for one in refused]
    return "\n".join([*lines, "spreds: no server could be looked at"])


def progress_words(seconds: float, look_seconds: float, looks: Sequence[ServerLook]) -> str:
    """How far a look is, in a line."""
    parts = []
    for look in looks:
        known = look.so_far
        sure = "no curve yet"
        if known is not None and known.keep_reason is None:
            sure = f"hits may be off by {100 * known.curve_error_ratio:.1f} points"
        parts.append(f"{look.config.name} {look.followed:,} keys, {sure}")
    return f"{_minutes(seconds)} of {_minutes(look_seconds)}: {'; '.join(parts)}"


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"

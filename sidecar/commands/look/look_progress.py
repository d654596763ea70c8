"""Tells what a look says before it has an answer: whom it cannot look at, and how far it is."""

from __future__ import annotations

from collections.abc import Sequence

from sidecar.config.addresses import shown_url
from sidecar.look.looking import Refused
from sidecar.look.server_look import ServerLook

# A curve that may be off by more tells nothing.
NOTHING_KNOWN = 0.5


def refused_words(one: Refused) -> str:
    """Say which server was not looked at, and why, without a full stop."""
    at = f" ({shown_url(one.url)})" if one.url and one.name not in one.url else ""
    return f"{one.name}{at} {one.why.rstrip('.')}"


def nothing_words(refused: Sequence[Refused]) -> str:
    """Say why no server could be looked at."""
    lines = [f"spreds: {refused_words(one)}" for one in refused]
    return "\n".join([*lines, "spreds: no server could be looked at"])


def progress_words(seconds: float, look_seconds: float, looks: Sequence[ServerLook]) -> str:
    """Say how far a look is, in a line that is short however many servers there are."""
    known = [look.so_far for look in looks]
    errors = [one.curve_error_ratio for one in known if one and one.keep_reason is None]
    errors = [error for error in errors if error < NOTHING_KNOWN]
    of_how_many = "" if len(errors) == len(looks) else f" of {len(errors)} of them"
    sure = "no curve yet"
    if errors:
        sure = f"hits{of_how_many} as of today's size off by up to {100 * max(errors):.1f} points"
    keys = sum(look.followed for look in looks)
    servers = f"{len(looks)} server{'s' if len(looks) > 1 else ''}"
    return f"{_minutes(seconds)} of {_minutes(look_seconds)}: {servers}, {keys:,} keys, {sure}"


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"

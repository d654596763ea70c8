"""Tells how much is known of the curves that a plan is made by, where that is little."""

from __future__ import annotations

import numpy as np

from solver_lambda.documents.observation import Observation, ServerObservation
from solver_lambda.documents.units import format_size
from solver_lambda.planning.size_ranges import is_little_known

# A curve that may be off by so much says hardly anything.
GUESS_ERROR_RATIO = 0.5
_MOST_NAMED = 4


def known_words(asked: Observation, *, is_early: bool = False) -> str | None:
    """Return a clause for people, of all curves while it ``is_early``; ``None`` where of each
    server enough is known to shrink it."""
    little = [
        server
        for server in asked.servers
        if is_little_known(server, asked) or (is_early and server.keep_reason is None)
    ]
    if not little:
        return None
    words = [f"{server.name} {_known_of(server)}" for server in little[:_MOST_NAMED]]
    more = len(little) - _MOST_NAMED
    known = f"how far curves are known: {', '.join(words)}"
    return known + (f", and {more} more hardly" * (more > 0))


def _known_of(server: ServerObservation) -> str:
    if not server.sampled_objects:
        return "not at all"
    keys = f"{server.sampled_objects:,} sampled key{'s' if server.sampled_objects > 1 else ''}"
    if server.keep_reason is not None or server.curve_error_ratio >= GUESS_ERROR_RATIO:
        return f"hardly ({keys})"
    # Deeper than that no read has reached: the curve is flat.
    sizes, ratios = server.curve.from_zero
    reached_bytes = sizes[np.argmax(ratios <= ratios[-1])]
    return f"up to {format_size(int(reached_bytes))} ({keys})"

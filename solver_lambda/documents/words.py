"""Holds phrases that plans and the sidecar's commands share."""

from __future__ import annotations

import re

from solver_lambda.documents.units import format_size

_LEAST_MILLISECONDS = 1e-3
_LITTLE_RATIO = 0.01
# A reason begins with words for programs: ``stays: no_eviction: ...``.
_CODES = re.compile(r"(?:[a-z_]+: )+")


def time_words(seconds: float) -> str:
    """Return a time for people, in milliseconds and never in powers of ten; no curve knows more
    digits."""
    milliseconds = seconds * 1e3
    if 0 < milliseconds < _LEAST_MILLISECONDS:
        return f"less than {_LEAST_MILLISECONDS} ms"
    return f"{milliseconds:.3g} ms" if milliseconds < 999.5 else f"{milliseconds:.0f} ms"


def size_words(size_bytes: float) -> str:
    """Return a size for people, with three digits."""
    scale = 1 << 10 if size_bytes < 1 << 20 else 1 << 20 if size_bytes < 1 << 30 else 1 << 30
    number = size_bytes / scale
    digits = 0 if number >= 100 else 1 if number >= 10 else 2
    return format_size(round(number, digits) * scale)


def share_words(ratio: float) -> str:
    """Return a share for people, in percent: a hundredth counts only where little is left on a
    side."""
    digits = 2 if 0 < min(abs(ratio), abs(1 - abs(ratio))) < _LITTLE_RATIO else 1
    return f"{100 * ratio:.{digits}f}"


def gain_words(before_seconds: float, after_seconds: float) -> str:
    """Say what a plan gains: its headline, wherever it is told. ``after_seconds`` is the mean
    access time with the cost of moving."""
    ratio = 1 - after_seconds / before_seconds if before_seconds > 0 else 0.0
    change = f"{share_words(abs(ratio))}% {'more' if ratio < 0 else 'less'}"
    return (
        f"mean access time from {time_words(before_seconds)} to {time_words(after_seconds)}, "
        f"{change} after the cost of moving"
    )


def reason_words(reason: str) -> str:
    """Return a reason for people, without its codes."""
    codes = _CODES.match(reason)
    if codes is None:
        return reason
    words = reason[codes.end() :]
    match codes[0].removesuffix(": ").rpartition(": ")[2]:
        case "no_eviction" if not words.startswith("it "):
            return f"it does not evict: {words}"
        case "no_model":
            return f"no curve can be measured {words}"
        case "no_backend_latency":
            return f"its backend latency is {words}"
        case "few_samples":
            return f"only {words}"
        case "refuses":
            return f"it refuses: {words}"
    return words


# A plan says it last of a server.
BACKEND_NOTE = "; its backend takes "


def without_backend(reason: str) -> str:
    """Return a plan's reason where its backend is told beside it, or is not asked for."""
    return reason.partition(BACKEND_NOTE)[0]


def backend_latency_words(
    used_seconds: float, source: str, measured_seconds: float | None, fill_ratio: float | None
) -> str:
    """Return the latency that counts, what was measured, and what is known to be wrong with
    that."""
    words = {"team": "as its team says", "configured": "as configured"}
    told = f"{time_words(used_seconds)} {words[source]}" if source in words else ""
    never = ""
    if fill_ratio is not None and fill_ratio < 0.995:
        never = f"; {1 - fill_ratio:.0%} of the misses were never filled"
    if measured_seconds is not None:
        left_out = ", and left out" if never else ""
        measured = time_words(measured_seconds)
        if told:
            return f"{told} ({measured} measured, which does not count{never})"
        return f"{measured} as measured{never}{left_out}"
    few = "" if fill_ratio is None else ": too few fills yet"
    return f"{told} (not measured{few}{never})" if told else f"not measured{few}{never}"

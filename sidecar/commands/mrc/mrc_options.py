"""Defines the options of ``spreds mrc``: what each takes, and the quick way to read them.

argparse takes as long to import as a million requests take to read. So these are read without it
where they are written out plainly; anything else, and whatever is wrong, is left to argparse, which
has its options from the same table.
"""

from __future__ import annotations

import os

from sidecar.traces.file import STDIN
from sidecar.traces.registry import FORMATS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


# Of the first one exactly; the others are simulated, as Redis evicts with its usual settings.
POLICIES = ("allkeys-lru", "allkeys-lfu")
TICKS_PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
# More than a picture has pixels for, and still printed at once.
MOST_POINTS = 100_000
# Where each size is counted by itself, one for a hit ratio is found among so many.
HIT_RATIO_STEPS = 100
# Each is a cache with memory of its own.
MOST_SIMULATED_POINTS = 1_000


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) < 1 << 31:
        raise ValueError(f"must be a whole number of at least 1, not {text!r}")
    return int(text)


def _points(text: str) -> int:
    points = _whole(text)
    if points > MOST_POINTS:
        raise ValueError(f"must be at most {MOST_POINTS}, not {text!r}")
    return points


def _salt(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) >= 1 << 64:
        raise ValueError(f"must be a whole number below 2^64, not {text!r}")
    return int(text)


def _ratio(text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise ValueError(f"must be a number between 0 and 1, not {text!r}")
    return ratio


def _rate(text: str) -> float:
    rate = _ratio(text)
    if rate < 1e-9:
        raise ValueError(f"must be more than 0, not {text!r}")
    return rate


def _duration(text: str) -> float:
    from solver_lambda.documents.units import parse_duration

    seconds = parse_duration(text)
    if seconds <= 0:
        raise ValueError(f"must be more than 0, not {text!r}")
    return seconds


def _format(text: str) -> str:
    if text not in FORMATS:
        raise ValueError(f"must be one of {', '.join(FORMATS)}, not {text!r}")
    return text


def _time_unit(text: str) -> float:
    if text not in TICKS_PER_SECOND:
        raise ValueError(f"must be one of {', '.join(TICKS_PER_SECOND)}, not {text!r}")
    return TICKS_PER_SECOND[text]


def _policy(text: str) -> str:
    if text not in POLICIES:
        raise ValueError(f"must be one of {', '.join(POLICIES)}, not {text!r}")
    return text


class Option:
    """Describes one option.

    Attributes:
        read: its value from its text, or raises ValueError with the reason; ``None``: it has none.
        default: without it; of one that can be repeated, the list of values begins empty.
        metavar, help: as of argparse.
        repeats: it can be repeated.
        group: of those with the same one, only one may be given.
    """

    def __init__(
        self,
        help: str,  # noqa: A002
        read: Callable[[str], Any] | None = None,
        metavar: str = "",
        default: Any = None,
        *,
        repeats: bool = False,
        group: str = "",
    ) -> None:
        self.help, self.read, self.metavar, self.default = help, read, metavar, default
        self.repeats, self.group = repeats, group


OPTIONS = {
    "format": Option(
        "the format, if name and contents do not tell it", _format, "{" + ",".join(FORMATS) + "}"
    ),
    "policy": Option(
        f"how the cache evicts (default: {POLICIES[0]})",
        _policy,
        "{" + ",".join(POLICIES) + "}",
        POLICIES[0],
    ),
    "ttl": Option(
        "how long an object lives from its fill on, such as 300s or 6h (default: for ever)",
        _duration,
        "DURATION",
    ),
    "time-unit": Option(
        "the unit of the trace's times, if its format does not say it (default: s)",
        _time_unit,
        "{" + ",".join(TICKS_PER_SECOND) + "}",
    ),
    "reads": Option(
        "count requests with this operation as well, such as 28; can be repeated",
        os.fsencode,
        "OPERATION",
        repeats=True,
    ),
    "bytes": Option("count sizes in bytes of key and value, not in objects"),
    "rate": Option(
        "sample this share of the keys (default: 1, all of them: the curve is exact)",
        _rate,
        "R",
        1.0,
        group="sample",
    ),
    "objects": Option("sample so that at most N keys are kept", _whole, "N", group="sample"),
    "salt": Option("a number that chooses the sample (default: 0)", _salt, "N", 0),
    "points": Option("how many points to print (default: 20)", _points, "N", 20),
    "hit-ratio": Option(
        "print how large a cache has this hit ratio (with allkeys-lfu or --ttl, in steps of a "
        "hundredth of the largest); can be repeated",
        _ratio,
        "H",
        repeats=True,
    ),
    "plot": Option(
        "draw the curves into this file (.svg, .png, .pdf), with twice the standard error of "
        "sampled ones",
        str,
        "FILE",
    ),
    "errors": Option("say how far off a sampled curve may be, for about half as much time again"),
    "json": Option("print JSON"),
}


class MrcOptions:
    """Holds what is asked for: the options by the names of ``OPTIONS``, as argparse would have
    them."""

    command = "mrc"
    logs = False
    execute: Callable[[Any], int]
    traces: list[str]
    format: str | None
    policy: str
    ttl: float | None
    time_unit: float | None
    reads: list[bytes]
    bytes: bool
    rate: float
    objects: int | None
    salt: int
    points: int
    hit_ratio: list[float]
    plot: str | None
    errors: bool
    json: bool

    def __init__(self) -> None:
        self.traces = []
        for name, option in OPTIONS.items():
            empty: Any = [] if option.repeats else option.default
            self.set(name, empty if option.read else False)

    def set(self, name: str, value: Any) -> None:
        """Set the option of this name."""
        setattr(self, name.replace("-", "_"), value)

    def get(self, name: str) -> Any:
        """Return the value of the option of this name."""
        return getattr(self, name.replace("-", "_"))


def read_plainly(words: Sequence[str]) -> MrcOptions | None:
    """Return the options, or ``None`` if they are not right or not written in full, as ``--rate R``
    or ``--rate=R``."""
    options = MrcOptions()
    left = iter(words)
    groups: set[str] = set()
    before = ""
    for word in left:
        is_trace = word == STDIN or not word.startswith("-")
        if is_trace and options.traces and before != options.traces[-1]:
            return None  # traces on both sides of an option
        before = word
        if is_trace:
            options.traces.append(word)
            continue
        name, equals, text = word[2:].partition("=")
        option = OPTIONS.get(name) if word.startswith("--") else None
        if option is None or (option.group and option.group in groups):
            return None
        groups.add(option.group)
        if option.read is None:
            if equals:
                return None
            options.set(name, True)
            continue
        if not equals:
            text = next(left, "-")
            if text.startswith("-"):
                return None
        try:
            value = option.read(text)
        except ValueError:
            return None
        options.set(name, [*options.get(name), value] if option.repeats else value)
    return options if options.traces else None

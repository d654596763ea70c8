"""Writes the sidecar's log: one line a change on stderr, as text or JSON, and nothing twice in a
row."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Any

from sidecar.base.plain_text import plain

# A trouble that lasts is told again after this time, so that it is not forgotten; what each cycle
# has, once a day.
REPEAT_SECONDS = 3600.0
ROUTINE_SECONDS = 86_400.0
# A line that is no trouble and comes again after this time tells of something new.
NEWS_SECONDS = 60.0
# Strangers bring lines about, by asking or by setting sizes. These must not fill a disk.
MOST_A_MINUTE = 10
# A line has at most so many. The longest we mean is the hourly one on very many servers' counts.
MOST_CHARACTERS = 16_000
# Cycles, ages and pauses change each time, and a trouble stays the same. A new size makes a new
# one. Nothing is tried twice: a stranger's digits would keep the whole process busy.
_NUMBER = r"\d[\d.]*+(?P<unit> [KMGT]?i?B\b)?"
# Their lines at INFO, such as where credentials were found, are of no use here.
_TALKATIVE = ("boto3", "botocore", "urllib3", "s3transfer")


def set_up_log(form: str = "text", *, verbose: bool = False, servers: Collection[str] = ()) -> None:
    """Log to stderr; ``form`` is ``text`` or ``json``, ``servers`` has the names of all that are
    told of. May be called again."""
    handler = _StderrHandler()
    text = PlainFormatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(JsonFormatter() if form == "json" else text)
    if not verbose:
        handler.addFilter(RepeatFilter(servers=servers))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    if verbose:
        logging.getLogger("sidecar").setLevel(logging.DEBUG)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)


class _StderrHandler(logging.StreamHandler[Any]):
    """Writes to whatever is stderr when it writes."""

    @property
    def stream(self) -> Any:
        return sys.stderr

    @stream.setter
    def stream(self, _: Any) -> None:
        """It has none of its own."""


class PlainFormatter(logging.Formatter):
    """Writes one line of printable text, and its traceback if there is one."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 the library's name
        return plain(_cut(super().formatMessage(record)))

    def formatException(self, exc_info: Any) -> str:  # noqa: N802 the library's name
        return plain(super().formatException(exc_info), keep="\n")


class JsonFormatter(logging.Formatter):
    """Writes one object a line."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "at": at,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _cut(record.getMessage()),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def _cut(text: str) -> str:
    left_out = len(text) - MOST_CHARACTERS
    return text if left_out <= 0 else f"{text[:MOST_CHARACTERS]}... ({left_out} more characters)"


# In a file, or of somebody there.
_Place = tuple[str, int] | tuple[str, int, str]


def _names_and_numbers(names: Collection[str]) -> re.Pattern[str]:
    """Match each name that stands by itself, as the group ``name``, or a number outside of one."""
    either = "|".join(map(re.escape, names)) or "(?!)"
    return re.compile(rf"(?<![\w.-])(?P<name>{either})(?![\w-]|\.\w)|{_NUMBER}")


def _without_number(found: re.Match[str]) -> str:
    return found[0] if found["name"] or found["unit"] else "#"


class RepeatFilter(logging.Filter):
    """Drops a line that says what the last one from the same place said.

    Of warnings and errors, and of what is marked as ``routine`` (``extra=ROUTINE``), the numbers
    do not count, but for sizes: a trouble is the same one in the next cycle, unless a line between
    them from the same module says that something has changed. Each of the ``servers`` has troubles
    of its own, by its name in the line, whose digits count. What was dropped is counted, and
    told with the next line from there. What is marked as an ``event`` (``extra=EVENT``, or
    ``event_of`` somebody) happened again, and is told again, as is a traceback. Both are told at
    most ``MOST_A_MINUTE`` times a minute; so is a trouble, whose words may be a hostile server's,
    and what is ``BOUNDED``, unless it was said last. What is to be told ``ALWAYS`` is.
    """

    def __init__(
        self, now: Callable[[], float] = time.monotonic, servers: Collection[str] = ()
    ) -> None:
        super().__init__()
        self._now = now
        self._words = _names_and_numbers(servers)
        # What each said last, when, and whether it was a trouble.
        self._last: dict[_Place, tuple[str, float, bool]] = {}
        self._dropped: dict[_Place, int] = {}
        self._minutes: dict[_Place, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        place: _Place = (record.pathname, record.lineno)
        if getattr(record, "always", False):
            return self._told(place, record)
        event = getattr(record, "event", None)
        if event is not None or record.exc_info:
            return self._told_in_bounds((record.pathname, record.lineno, str(event)), record)
        text = record.getMessage()[:MOST_CHARACTERS]
        routine = getattr(record, "routine", False)
        is_trouble = record.levelno >= logging.WARNING
        if routine or is_trouble:
            names = [found["name"] for found in self._words.finditer(text) if found["name"]]
            text = self._words.sub(_without_number, text)
            if names and is_trouble:
                place = (record.pathname, record.lineno, names[0])
        now = self._now()
        usual_seconds = REPEAT_SECONDS if is_trouble else NEWS_SECONDS
        again_seconds = ROUTINE_SECONDS if routine else usual_seconds
        last, at, _ = self._last.get(place, ("", -again_seconds, False))
        if text == last and now - at < again_seconds:
            return self._drop(place)
        if not routine:
            self._forget(record)
        self._last[place] = (text, now, is_trouble)
        if is_trouble or getattr(record, "bounded", False):
            return self._told_in_bounds(place, record)
        return self._told(place, record)

    def _told_in_bounds(self, place: _Place, record: logging.LogRecord) -> bool:
        now = self._now()
        since, count = self._minutes.get(place, (now, 0))
        if now - since >= 60:
            since, count = now, 0
        self._minutes[place] = (since, count + 1)
        return self._drop(place) if count >= MOST_A_MINUTE else self._told(place, record)

    def _told(self, place: _Place, record: logging.LogRecord) -> bool:
        dropped = self._dropped.pop(place, 0)
        if dropped:
            times = "once" if dropped == 1 else f"{dropped} times"
            record.msg = f"{record.getMessage()} (and {times} before, not logged)"
            record.args = ()
        return True

    def _drop(self, place: _Place) -> bool:
        self._dropped[place] = self._dropped.get(place, 0) + 1
        return False

    def _forget(self, news: logging.LogRecord) -> None:
        """What other places of this module tell next is news after this: all of it after a line
        that is no trouble, and what is none after a trouble."""
        after_trouble = news.levelno >= logging.WARNING
        for place, (_, _, is_trouble) in list(self._last.items()):
            is_other = place[0] == news.pathname and place[1] != news.lineno
            if is_other and not (after_trouble and is_trouble):
                self._last.pop(place, None)  # filters run in any thread, without a lock


# For lines that somebody else can bring about with another text each time.
BOUNDED = {"bounded": True}
# These lines tell of somebody's changes. They are bounded where he makes them.
ALWAYS = {"always": True}
# For lines that each cycle has.
ROUTINE = {"routine": True}
# For lines on something that happens and passes.
EVENT = {"event": ""}


def event_of(name: str) -> dict[str, str]:
    """Return the same, for lines on servers of which each has a bound of its own."""
    return {"event": name}

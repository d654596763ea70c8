"""The sidecar's log: one line a change on stderr, as text or JSON, and nothing twice in a row."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime

# A trouble that lasts is told again after this time, so that it is not forgotten; what each cycle
# has, once a day.
REPEAT_SECONDS = 3600.0
ROUTINE_SECONDS = 86_400.0
# Cycles, ages and pauses are others each time; that makes a trouble no other. A size does.
_NUMBER = re.compile(r"\d+(\.\d+)?(?![\d.]* [KMGT]?i?B\b)")
# What these tell at INFO, such as where credentials were found, is of no use here.
_TALKATIVE = ("boto3", "botocore", "urllib3", "s3transfer")


def set_up_log(form: str = "text", *, verbose: bool = False) -> None:
    """Log to stderr; ``form`` is ``text`` or ``json``. May be called again."""
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(JsonFormatter() if form == "json" else text)
    if not verbose:
        handler.addFilter(NotAgain())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    if verbose:
        logging.getLogger("sidecar").setLevel(logging.DEBUG)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)


class JsonFormatter(logging.Formatter):
    """One object a line."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "at": at,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


class NotAgain(logging.Filter):
    """Drops a line that says what the last one from the same place said.

    Of warnings and errors, and of what is marked as ``routine`` (``extra=ROUTINE``), the numbers
    do not count, but for sizes: a trouble is the same one in the next cycle, unless a line between
    them from the same module says that something has changed. What was dropped is counted, and
    told with the next line from there. What is marked as an ``event`` (``extra=EVENT``) happened
    again, and is never dropped.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self._last: dict[tuple[str, int], tuple[str, float]] = {}
        self._dropped: dict[tuple[str, int], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if getattr(record, "event", False):
            return True
        place = (record.pathname, record.lineno)
        text = record.getMessage()
        routine = getattr(record, "routine", False)
        if routine or record.levelno >= logging.WARNING:
            text = _NUMBER.sub("#", text)
        now = self._now()
        again_seconds = ROUTINE_SECONDS if routine else REPEAT_SECONDS
        last, at = self._last.get(place, ("", -again_seconds))
        if not routine and record.levelno < logging.WARNING:
            self._forget_troubles(record.pathname)
        if text == last and now - at < again_seconds and not record.exc_info:
            self._dropped[place] = self._dropped.get(place, 0) + 1
            return False
        self._last[place] = (text, now)
        dropped = self._dropped.pop(place, 0)
        if dropped:
            times = "once" if dropped == 1 else f"{dropped} times"
            record.msg = f"{record.getMessage()} (and {times} before, not logged)"
            record.args = ()
        return True

    def _forget_troubles(self, pathname: str) -> None:
        """Whatever follows in this module is news."""
        for place in [place for place in self._last if place[0] == pathname]:
            self._last[place] = ("", -ROUTINE_SECONDS)


# For lines that each cycle has.
ROUTINE = {"routine": True}
# For lines on something that happens and passes.
EVENT = {"event": True}

"""Looks at servers many times a second, over connections of its own, and notes what it sees.

``python -m workloads.experiment.faults.stage.observer FILE RATE SOCKET...``: until SIGTERM. A
process of its own, so that nothing that is tried holds it up. It waits for no server: of one that
does not answer, the last known value counts; one that has ended has nothing.

The file has a line of JSON for each change of a ``maxmemory``. It has one more each
``TELL_SECONDS``, with the rounds since and the most that was used and resident. Servers are not
read in the same instant, so what is noted is the least that can have been: a rise from the answer
that tells it, a fall from the answer before. What lasts no longer than from one answer to the next
may be missed.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from workloads.experiment.faults.stage.orders import end_with_parent

QUESTION = b"*2\r\n$4\r\nINFO\r\n$6\r\nmemory\r\n"
TELL_SECONDS = 0.25
# Of a server without a limit: more than any budget.
NO_LIMIT_BYTES = 1 << 60
# A server that was silent for so long kept what it had until it spoke again.
SILENT_SECONDS = 1.0
_NICE = -10


class Eye:
    """Watches one server.

    Attributes:
        maxmemory_bytes, used_bytes, rss_bytes: as last seen; 0 of a server that is not there.
        asked: an answer is on its way.
        changes: times from which there was another ``maxmemory``, and it; to be taken.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._answered_at = 0.0
        self.changes: list[tuple[float, int]] = []
        self._received = bytearray()
        self.socket: socket.socket | None = None
        self.maxmemory_bytes = self.used_bytes = self.rss_bytes = 0
        self.asked = False

    def ask(self) -> None:
        """Ask, unless it has not answered yet."""
        if self.asked:
            return
        try:
            if self.socket is None:
                self.socket = socket.socket(socket.AF_UNIX)
                self.socket.setblocking(False)
                self.socket.connect(self._path)
            self.socket.send(QUESTION)
            self.asked = True
        except BlockingIOError:
            self._forget()  # it hangs, with connections that nobody accepts
        except OSError:
            self._lose()

    def hear(self) -> None:
        """There is something to read."""
        assert self.socket is not None
        try:
            data = self.socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose()
            return
        self._received += data
        if self._received.startswith(b"-") and self._received.endswith(b"\r\n"):
            self._lose()  # no more clients: as good as not seen
        elif self._is_whole():
            self._note(self._number(b"\nmaxmemory:") or NO_LIMIT_BYTES)
            self.used_bytes = self._number(b"\nused_memory:")
            self.rss_bytes = self._number(b"\nused_memory_rss:")
            self._received.clear()
            self.asked = False

    def _note(self, size_bytes: int) -> None:
        now = time.monotonic()
        if size_bytes != self.maxmemory_bytes:
            falls = size_bytes < self.maxmemory_bytes
            was_silent = now - self._answered_at > SILENT_SECONDS
            self.changes.append(
                (self._answered_at if falls and not was_silent else now, size_bytes)
            )
        self.maxmemory_bytes, self._answered_at = size_bytes, now

    def _is_whole(self) -> bool:
        end = self._received.find(b"\r\n")
        return end > 0 and len(self._received) >= end + 4 + int(self._received[1:end])

    def _number(self, name: bytes) -> int:
        start = self._received.index(name) + len(name)
        return int(self._received[start : self._received.index(b"\r", start)])

    def _forget(self) -> None:
        if self.socket is not None:
            self.socket.close()
        self.socket, self.asked = None, False
        self._received.clear()

    def _lose(self) -> None:
        self._forget()
        self._note(0)
        self.used_bytes = self.rss_bytes = 0


class Notes:
    """What is written down; times are monotonic, in seconds."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._since = self._last_at = time.monotonic()
        self._rounds = self._used_bytes = self._rss_bytes = 0
        self._longest_seconds = 0.0

    def take(self, eyes: list[Eye]) -> None:
        """End a round: write what the eyes saw."""
        now = time.monotonic()
        for number, eye in enumerate(eyes):
            for at, size_bytes in eye.changes:
                self._write({"at": at, "server": number, "size": size_bytes})
            eye.changes.clear()
        self._rounds += 1
        self._longest_seconds = max(self._longest_seconds, now - self._last_at)
        self._last_at = now
        self._used_bytes = max(self._used_bytes, sum(eye.used_bytes for eye in eyes))
        self._rss_bytes = max(self._rss_bytes, sum(eye.rss_bytes for eye in eyes))
        if now - self._since >= TELL_SECONDS:
            self.tell()

    def tell(self) -> None:
        """Tell what the rounds since the last time were like."""
        self._write(
            {
                "since": self._since,
                "at": self._last_at,
                "rounds": self._rounds,
                "longest": self._longest_seconds,
                "used": self._used_bytes,
                "rss": self._rss_bytes,
            }
        )
        self._since = self._last_at
        self._rounds = self._used_bytes = self._rss_bytes = 0
        self._longest_seconds = 0.0

    def _write(self, line: dict[str, object]) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


def observe(eyes: list[Eye], notes: Notes, period_seconds: float, ended: list[int]) -> None:
    """Round after round, until ``ended`` has something."""
    next_at = time.monotonic()
    while not ended:
        for eye in eyes:
            eye.ask()
        next_at = max(next_at + period_seconds, time.monotonic())
        waiting = {eye.socket.fileno(): eye for eye in eyes if eye.socket and eye.asked}
        poll = select.poll()
        for number in waiting:
            poll.register(number, select.POLLIN)
        while waiting and (left := next_at - time.monotonic()) > 0:
            for number, _ in poll.poll(left * 1000):
                waiting[number].hear()
                if not waiting[number].asked:
                    del waiting[number]
                    poll.unregister(number)
        notes.take(eyes)
        time.sleep(max(0.0, next_at - time.monotonic()))
    notes.tell()


def main() -> int:
    end_with_parent()
    file, rate, *paths = sys.argv[1:]
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: ended.append(number))
    with suppress(PermissionError):  # the rate that it reaches is told either way
        os.nice(_NICE)
    with Path(file).open("w") as notes:
        observe([Eye(path) for path in paths], Notes(notes), 1 / float(rate), ended)
    return 0


if __name__ == "__main__":
    sys.exit(main())

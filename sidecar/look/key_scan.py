"""Finds a part of a server's keys by ``SCAN``, always the same one, without going through the rest.

``SCAN`` goes through the server's hash table in the order of its buckets' numbers, read from the
lowest bit on. So a table that grows or shrinks meanwhile keeps the order. The keys up to one place
of it are those whose hash, with its bits reversed, is below a threshold: a spatial sample, as
SHARDS wants it (``hash mod P < T``), by the server's own hash. To find it costs its own size, also
where the server holds millions.
"""

from __future__ import annotations

from collections.abc import Iterator

from sidecar.look.server_questions import CannotBeLookedAtError, LookedServer

# Keys of one call, which keeps the server from its clients for some 0.2 ms.
_MOST, _FEWEST = 200, 4
# A step is this part of the way left, so as not to overshoot: keys beyond the end are not sampled.
_STEP = 0.7
_CURSOR_BITS = 64
# At most so many may have keys; Redis has 16 unless told otherwise.
_MOST_DATABASES = 64
# In one pass; a server that gives cursors for ever is none.
MOST_CALLS = 20_000


def progress_of(cursor: int) -> float:
    """Return the share of the table that lies before a cursor; that of 0 is the whole."""
    if not cursor:
        return 1.0
    return int(f"{cursor:0{_CURSOR_BITS}b}"[::-1], 2) / (1 << _CURSOR_BITS)


class KeyScan:
    """Scans the keys of one server, or a share of them.

    Attributes:
        share: of the keys that are sampled; 1 until the first pass is over.
        is_settled: whether the share is known.
    """

    def __init__(self, server: LookedServer, keys_wanted: int, *, whole: bool = False) -> None:
        """Find ``keys_wanted`` keys in the first pass, and then always those of the same part.
        ``whole``: all keys, whatever it costs."""
        self._server, self._keys_wanted = server, keys_wanted
        self.share = 1.0
        self.is_settled = whole

    def passed(self, databases: list[int]) -> Iterator[tuple[int, list[bytes]]]:
        """Go through the sampled part once: numbers of databases with keys, some twice. The first
        database, which should be the largest, settles the share. Raises as LookedServer, and
        CannotBeLookedAtError."""
        if len(databases) > _MOST_DATABASES:
            raise CannotBeLookedAtError(f"has keys in more than {_MOST_DATABASES} databases")
        calls = 0
        for database in databases:
            self._server.select(database)
            found = cursor = 0
            while True:
                cursor, keys = self._server.scan(cursor, self._count(cursor, found))
                found, calls = found + len(keys), calls + 1
                yield database, keys
                if calls >= MOST_CALLS:
                    raise CannotBeLookedAtError("has cursors of SCAN without an end")
                if not self.is_settled and found >= self._keys_wanted and cursor:
                    self.share = progress_of(cursor)
                    break
                if not cursor or progress_of(cursor) >= self.share:
                    break
            self.is_settled = True

    def _count(self, cursor: int, found: int) -> int:
        """Return how many keys to ask for: fewer near the end."""
        if not cursor or self.share == 1:
            return _MOST
        before = progress_of(cursor)
        left = (self.share - before) / before * found
        return int(min(_MOST, max(_FEWEST, _STEP * left)))

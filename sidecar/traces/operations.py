"""Tells what the requests of a trace do: which of them count, and how many of each spelling do
not."""

from __future__ import annotations

from ctypes import Structure, c_char, c_uint8, c_uint64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# Operations that count, in capitals or not; some logs tell with a read what became of it.
READS = (b"get", b"gets", b"get_lease", b"read", b"r", b"get_hit", b"get_miss", b"hit", b"miss")
_TABLE_ROOM = 32
_MOST_SPELLINGS = 1000
_OTHER_SPELLINGS = b"(others)"


class _Operation(Structure):
    """Has the layout of its struct in ``lines.c``."""

    _fields_ = (
        ("seen", c_uint64),
        ("length", c_uint8),
        ("counts", c_uint8),
        ("text", c_char * 22),
    )


class Operations:
    """Holds the operations of a trace, by how they are spelt.

    Args:
        reads: spellings that count too, in capitals or not.

    Attributes:
        table: of those that the compiled reader knows; the last one has no length.
    """

    def __init__(self, reads: Iterable[bytes] = ()) -> None:
        self._reads = {*READS, *(read.lower() for read in reads)}
        self._dropped: dict[bytes, int] = {}
        self._in_table: dict[bytes, None] = {}
        self.table = (_Operation * (_TABLE_ROOM + 1))()

    def is_read(self, operation: bytes, also: Iterable[bytes] = (), requests: int = 1) -> bool:
        """Whether so many requests count; what does not is counted by its spelling. ``also``: reads
        of this format."""
        counts = operation.lower() in self._reads or operation.lower() in also
        if not counts:
            if len(self._dropped) >= _MOST_SPELLINGS and operation not in self._dropped:
                operation = _OTHER_SPELLINGS
            self._dropped[operation] = self._dropped.get(operation, 0) + requests
        fits = 0 < len(operation) <= 22 and b"\0" not in operation
        if fits and len(self._in_table) < _TABLE_ROOM and operation not in self._in_table:
            entry = self.table[len(self._in_table)]
            entry.length, entry.counts, entry.text = len(operation), counts, operation
            self._in_table[operation] = None
        return counts

    def dropped(self) -> dict[str, int]:
        """Return how many requests did not count, by what they did; the most frequent first."""
        found = dict(self._dropped)
        for entry in self.table[: len(self._in_table)]:
            if not entry.counts:
                found[entry.text] += entry.seen
        return {
            name.decode("utf-8", "backslashreplace"): count
            for name, count in sorted(found.items(), key=lambda item: (-item[1], item[0]))
        }

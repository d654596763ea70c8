"""Which nodes a line of ``[nodes]`` names, and which cell each of them is in.

A function of the line alone: a node that comes or goes moves no other one. A pattern's nodes are
cut by their number (``number // nodes_per_cell``), so another ``nodes_per_cell`` moves nearly all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAIN = "main"
CELL_PATTERN = re.compile(r"[a-z0-9]([a-z0-9-]{0,16}[a-z0-9])?")
_NUMBERS = re.compile(r"\{(\d{1,9})\.\.(\d{1,9})\}")


class PatternError(ValueError):
    """A key of ``[nodes]`` is no pattern; the message says why, without the key."""


@dataclass(frozen=True)
class Named:
    """A node's name, and the cell that it is in."""

    node: str
    cell: str


def named_by(key: str, cell: str, nodes_per_cell: int, most_nodes: int) -> Iterator[Named]:
    """The nodes that a line names.

    Args:
        key: a node's name, or a pattern such as ``cache-{001..250}``; numbers have as many digits
            as the first one where that begins with 0.
        cell: of a single node, or what the names of a pattern's cells begin with; or ``""``: a
            single node is in ``main``, and a pattern's cells are named by what surrounds its
            numbers.
        most_nodes: that the pattern may name.

    Raises:
        PatternError: at the first name.
    """
    found = _NUMBERS.search(key)
    if found is None:
        if "{" in key or "}" in key:
            raise PatternError("is no pattern: one has two numbers, like cache-{001..250}")
        yield Named(key, cell or MAIN)
        return
    before, after = key[: found.start()], key[found.end() :]
    if _NUMBERS.search(after):
        raise PatternError("has more than one {..}")
    first, last = map(int, found.groups())
    if first > last:
        raise PatternError(f"goes from {first} down to {last}: write the smaller number first")
    if last - first >= most_nodes:
        raise PatternError(f"names {last - first + 1} nodes, and {most_nodes} may be in a stack")
    width = _width(*found.groups())
    stem = cell or re.sub("-+", "-", f"{before}-{after}").strip("-")
    for number in range(first, last + 1):
        part = str(number // nodes_per_cell)
        yield Named(f"{before}{number:0{width}d}{after}", f"{stem}-{part}" if stem else f"n-{part}")


def _width(first: str, last: str) -> int:
    """Digits of each number; 0: no more than it needs."""
    if not first.startswith("0") or len(first) == 1:
        return 0
    if len(first) != len(last):
        raise PatternError(f"has {first} and {last}: give them the same number of digits")
    return len(first)

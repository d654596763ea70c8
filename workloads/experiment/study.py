"""One experiment of the evaluation, as data and functions of data.

Measuring gives plain JSON; tables, picture and conclusion come from that alone, so that a report
can be made of what was measured elsewhere, and says the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Figure
else:
    Figure = Any  # matplotlib is only for who draws

Of = TypeVar("Of")
# What ``json`` reads back as it was written.
Data = dict[str, Any]


class StudyError(Exception):
    """An experiment cannot be made here; one sentence that says why."""


@dataclass(frozen=True)
class Scope:
    """How much is to be measured.

    Attributes:
        seeds: each gives a repetition of its own.
        is_quick: as little as shows that the experiment works, in some ten seconds.
        traces: the folder of recorded traces; it may not be there.
        progress: to be called with what is being done now, and the share that is done, 0 to 1.
    """

    seeds: tuple[int, ...]
    is_quick: bool
    traces: Path
    progress: Callable[[str, float], None]


@dataclass(frozen=True)
class Table:
    """Rows of text; the first column names them."""

    title: str
    header: list[str]
    rows: list[list[str]]

    @classmethod
    def of(cls, title: str, of: Iterable[Of], columns: Mapping[str, Callable[[Of], str]]) -> Table:
        """A row for each of ``of``, as each column tells it."""
        rows = [[told(one) for told in columns.values()] for one in of]
        return cls(title, list(columns), rows)


@dataclass(frozen=True)
class Headline:
    """A row of measured.md's first table: what was measured, here and in the thesis."""

    what: str
    here: str
    thesis: str = ""


@dataclass(frozen=True)
class Study:
    """An experiment and how it is told.

    Attributes:
        name: the verb's, ``figure-8-3``.
        title: of its section.
        question: one sentence.
        beside: what the thesis, or the paper that the experiment comes from, found; its source.
        method: how it is measured here, and on what.
        measure: raises ``StudyError`` where that cannot be done here.
        conclude: one or two sentences, from the figures.
        tables, draw: from the figures; ``draw`` fills an empty figure.
        headlines: rows of measured.md's first table.
        differences: why ours differ from what it stands beside, where they do.
        missed: sentences on what was wanted and is not so, from the figures.
        traces: files below ``Scope.traces`` that it uses where they are.
        size_inches: of the picture.
    """

    name: str
    title: str
    question: str
    beside: str
    method: str
    measure: Callable[[Scope], Data]
    conclude: Callable[[Data], str]
    tables: Callable[[Data], list[Table]]
    draw: Callable[[Figure, Data], None]
    headlines: Callable[[Data], list[Headline]] = lambda _: []
    differences: tuple[str, ...] = ()
    missed: Callable[[Data], list[str]] = lambda _: []
    traces: tuple[str, ...] = ()
    size_inches: tuple[float, float] = (7.0, 4.0)

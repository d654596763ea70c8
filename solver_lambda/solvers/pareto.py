"""Runs the dynamic programme of the certificate: which choices of several servers are worth
having."""

from __future__ import annotations

import heapq
import math
import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from solver_lambda.documents.curve import FloatArray
from solver_lambda.solvers.partition_problem import IntArray

# Fewer pairs than this are made at once, more of them choice by choice.
_PAIRS_AT_ONCE = 1 << 9
_SPARSE = 4
# Sums of so many choices and so many totals are made at once: they stay in the processor's cache.
_ROWS = 64
_COLUMNS = 512
# Elements that numpy may buffer: with its usual 8,192 it copies tiles before it adds them, which
# takes four times as long.
_BUFFER = 256
# Each so many-th choice is tried first: what it reaches, most sums of the others do not beat.
_EACH = 32


class OutOfTimeError(Exception):
    """The time limit has passed."""


class Choices(NamedTuple):
    """Holds what one server, or several together, may take: one choice for each total.

    Attributes:
        totals: shape (c,), increasing, in blocks of units.
        losses: shape (c,), the least loss of a choice with that total.
        parts: the two groups that it was merged from, the server's row, or nothing.
    """

    totals: IntArray
    losses: FloatArray
    parts: tuple[Choices, Choices] | int | None

    def __lt__(self, other: object) -> bool:
        return len(self.totals) < len(other.totals) if isinstance(other, Choices) else False


_NOTHING = Choices(np.zeros(1, np.int64), np.zeros(1), None)


@dataclass(frozen=True)
class LossProgramme:
    """Finds the choice with the least loss, among those whose loss is ``most_loss`` at most.

    The loss of a split is how much its value stays below the Lagrangian bound: the reduced costs
    of its parts and ``price`` (the multiplier λ) for each unit that is left over.

    Attributes:
        price: λ > 0, utility per block.
        capacity: the most that totals may sum to, in blocks.
        free_below: totals from here on leave nothing over; the capacity, unless blocks hide
            how many units exactly a choice takes.
        most_loss: in utility.
        deadline_seconds: on the clock of ``time.perf_counter``.
    """

    price: float
    capacity: int
    free_below: float
    most_loss: float
    deadline_seconds: float

    def solve(self, groups: list[Choices]) -> tuple[float, dict[int, int]] | None:
        """Return the least loss, and the total of each row; None if every loss exceeds
        ``most_loss``.

        Raises:
            OutOfTimeError: the deadline has passed.
        """
        least = sum(int(group.totals[0]) for group in groups)
        most = sum(int(group.totals[-1]) for group in groups)
        # The smallest two first: the last merge, between the largest, is never carried out.
        waiting = list(groups)
        heapq.heapify(waiting)
        while len(waiting) > 2:
            first, second = heapq.heappop(waiting), heapq.heappop(waiting)
            least -= int(first.totals[0] + second.totals[0])
            most -= int(first.totals[-1] + second.totals[-1])
            merged = self._merge(first, second, least, most)
            if merged is None:
                return None
            least += int(merged.totals[0])
            most += int(merged.totals[-1])
            heapq.heappush(waiting, merged)
        while len(waiting) < 2:
            waiting.append(_NOTHING)
        return self._join(waiting[0], waiting[1])

    def _left_over(self, totals: IntArray) -> FloatArray:
        """Return what the units cost that are left over beside ``totals``."""
        return np.asarray(self.price * np.maximum(self.free_below - totals, 0.0))

    def _merge(
        self, first: Choices, second: Choices, rest_least: int, rest_most: int
    ) -> Choices | None:
        """Return all sums that can still lead to a loss of ``most_loss``, given what the rest can
        take."""
        self._watch_the_clock()
        totals, losses = self._sums(first, second, self.capacity - rest_least)
        kept = losses + self._left_over(totals + rest_most) <= self.most_loss
        totals, losses = totals[kept], losses[kept]
        if not len(totals):
            return None
        # A choice is of use only if it is worth more than all that take less.
        worth = self.price * totals - losses
        kept = np.ones(len(totals), dtype=bool)
        kept[1:] = worth[1:] > np.maximum.accumulate(worth)[:-1]
        return Choices(totals[kept], losses[kept], (first, second))

    def _sums(self, first: Choices, second: Choices, most: int) -> tuple[IntArray, FloatArray]:
        """Return sums of totals up to ``most``, each with its least loss."""
        start = int(first.totals[0] + second.totals[0])
        span = min(int(first.totals[-1] + second.totals[-1]), most) - start + 1
        if span <= 0:
            return np.zeros(0, np.int64), np.zeros(0)
        if len(first.totals) * len(second.totals) <= _PAIRS_AT_ONCE:
            totals = np.add.outer(first.totals, second.totals).ravel()
            losses = np.add.outer(first.losses, second.losses).ravel()
            order = np.lexsort((losses, totals))
            totals, losses = totals[order], losses[order]
            kept = totals <= most
            kept[1:] &= totals[1:] != totals[:-1]
            return totals[kept], losses[kept]
        if len(first.totals) > len(second.totals):
            first, second = second, first
        best = np.full(span, np.inf)
        losses = _dense(second)
        if first.totals[-1] - first.totals[0] < _SPARSE * len(first.totals):
            self._add_one_by_one(first, losses, best, _EACH)
            buffer = np.setbufsize(_BUFFER)
            try:
                self._add_diagonally(_dense(first), losses, best)
            finally:
                np.setbufsize(buffer)
        else:
            self._add_one_by_one(first, losses, best)
        found = np.flatnonzero(best <= self.most_loss)
        return found + start, best[found]

    def _watch_the_clock(self) -> None:
        if time.perf_counter() > self.deadline_seconds:
            raise OutOfTimeError

    def _add_one_by_one(
        self, first: Choices, second: FloatArray, best: FloatArray, each: int = 1
    ) -> None:
        """Lower ``best`` to the sums of ``each``-th choice of ``first`` and a dense ``second``."""
        sums = np.empty_like(second)
        offsets = (first.totals[::each] - first.totals[0]).tolist()
        for offset, loss in zip(offsets, first.losses[::each].tolist(), strict=True):
            length = min(len(second), len(best) - offset)
            if length <= 0:
                break
            self._watch_the_clock()
            part = best[offset : offset + length]
            np.minimum(part, np.add(second[:length], loss, out=sums[:length]), out=part)

    def _add_diagonally(self, first: FloatArray, second: FloatArray, best: FloatArray) -> None:
        """Lower ``best`` to the sums of two dense lists.

        A row of the table first[i] + second[j] is moved i places to the right, so that sums of
        one total stand below each other. The table is made in tiles, and not where even the least
        of a tile's rows is too much: above what ``best`` has already, or above ``most_loss``.
        """
        tiles = -(-len(second) // _COLUMNS)
        columns = np.full((tiles, _COLUMNS), np.inf)
        columns.ravel()[: len(second)] = second
        width = _COLUMNS + _ROWS - 1
        table = np.full((_ROWS, width), np.inf)
        shifted = np.lib.stride_tricks.as_strided(table, (_ROWS, _COLUMNS), ((width + 1) * 8, 8))
        useful = np.full(len(first) + columns.size + _ROWS, -np.inf)
        useful[: len(best)] = np.minimum(best, self.most_loss)
        useful = _greatest_of_next(useful, _ROWS)
        for offset in range(0, len(first), _ROWS):
            rows = first[offset : offset + _ROWS, None]
            if np.isinf(rows.min()):
                continue
            self._watch_the_clock()
            reach = useful[offset : offset + columns.size].reshape(columns.shape)
            for tile in np.flatnonzero((columns + rows.min() <= reach).any(axis=1)).tolist():
                np.add(rows, columns[tile], out=shifted[: len(rows)])
                part = best[offset + tile * _COLUMNS :][:width]
                np.minimum(part, table[: len(rows), : len(part)].min(axis=0), out=part)

    def _join(self, first: Choices, second: Choices) -> tuple[float, dict[int, int]] | None:
        """Return the best pair of choices, and what it means for each row; not all sums are
        made."""
        worth = self.price * second.totals - second.losses
        best_until = np.maximum.accumulate(worth)
        room = np.searchsorted(second.totals, np.floor(self.free_below) - first.totals, "right") - 1
        losses = np.where(
            room >= 0,
            first.losses + self.price * (self.free_below - first.totals) - best_until[room],
            np.inf,
        )
        winner = int(losses.argmin())
        loss = float(losses[winner])
        pair = (winner, int(worth[: room[winner] + 1].argmax()) if room[winner] >= 0 else 0)
        for total in range(math.floor(self.free_below) + 1, self.capacity + 1):
            sums, partners = _pairs(first, second, total)
            winner = int(sums.argmin())
            if sums[winner] < loss:
                loss, pair = float(sums[winner]), (winner, int(partners[winner]))
        if loss > self.most_loss:
            return None
        taken: dict[int, int] = {}
        waiting = [(first, pair[0]), (second, pair[1])]
        while waiting:
            group, place = waiting.pop()
            if isinstance(group.parts, int):
                taken[group.parts] = int(group.totals[place])
            elif group.parts:
                sums, partners = _pairs(*group.parts, int(group.totals[place]))
                winner = int(sums.argmin())
                waiting.append((group.parts[0], winner))
                waiting.append((group.parts[1], int(partners[winner])))
        return loss, taken


def _pairs(first: Choices, second: Choices, total: int) -> tuple[FloatArray, IntArray]:
    """Find for each choice of ``first`` its partner in ``second`` that makes up ``total``.

    Returns:
        The pair's loss, infinite where there is no partner, and the partner's place.
    """
    wanted = total - first.totals
    places = np.minimum(np.searchsorted(second.totals, wanted), len(second.totals) - 1)
    matched = second.totals[places] == wanted
    return np.where(matched, first.losses + second.losses[places], np.inf), places


def _greatest_of_next(values: FloatArray, count: int) -> FloatArray:
    """Return the greatest of each value and those after it, ``count`` in all, a power of two."""
    reach = 1
    while reach < count:
        values = np.maximum(values, np.append(values[reach:], np.full(reach, -np.inf)))
        reach *= 2
    return values


def _dense(choices: Choices) -> FloatArray:
    """Return losses of all totals from the first to the last; infinite where there is no choice."""
    start = int(choices.totals[0])
    losses = np.full(int(choices.totals[-1]) - start + 1, np.inf)
    losses[choices.totals - start] = choices.losses
    return losses

"""Holds what was counted of one server's reads, by each half-life, and the misses that it stands
for."""

from __future__ import annotations

from collections import deque

import numpy as np

from sidecar.curves.decaying_counts import CYCLE, HALF_LIVES_CYCLES, HalfLife, Remembered
from sidecar.curves.miniature_simulation import MiniatureSimulation
from sidecar.curves.miss_ratio_histogram import (
    COARSE_EDGES_BYTES,
    EDGES_BYTES,
    FloatArray,
    MissRatioHistogram,
)
from sidecar.curves.object_groups import GROUPS
from sidecar.curves.sampled_eviction import GRID_BYTES, MOST_SAMPLES, SampledEviction
from solver_lambda.documents.curve import MissRatioCurve

# Standard errors of where a cliff is: it is known by so many sampled objects.
_MARGIN_ERRORS = 2.0
_FEWEST_OBJECTS = 16
# Steps over which growth is measured, and how many such times ahead it is expected to go on.
_STEPS = 4
_TIMES_AHEAD = 3.0
_GROWTH = 2.0
_MOST_GROWTH = 0.25
_KNOWN_BEFORE = 0.99


class GrowthMargin:
    """Tells how much deeper reads will reach than they did: a margin for chance, and growth.

    Of one server's stack.

    A cliff of the curve that stands a little too far left makes a plan that loses everything, one
    too far right costs the difference. And a working set that still grows looks flat beyond what
    it has now. Depth d becomes d (1 + 2 / √objects) (1 + 2 g min(1, d/W)²), where W is what the
    stack weighs. The share of it that is new, as it is expected to go on, is g: only sizes that
    hold nearly all that was ever read are to hold what comes, too.
    """

    def __init__(self) -> None:
        self._weights: deque[float] = deque(maxlen=_STEPS + 1)
        self._objects = 0
        self._was_known = False

    def step(self, weight_bytes: float, objects: int) -> None:
        """End a step: take the weight that the stack stands for, and the number of objects in
        it."""
        self._weights.append(weight_bytes)
        self._objects = objects
        self._was_known |= len(self._weights) > _STEPS and not self._is_unknown

    def forget(self) -> None:
        """The stack is another one."""
        self._weights.clear()
        self._was_known = False

    @property
    def growth_ratio(self) -> float:
        """Return g above; 0 until it is known."""
        if len(self._weights) <= _STEPS or self._weights[-1] <= 0:
            return 0.0
        return _TIMES_AHEAD * max(0.0, 1 - self._weights[0] / self._weights[-1])

    @property
    def error_ratio(self) -> float:
        """Return a curve's error while most keys had no time to come back, since so much is new. It
        is 1 where nothing was ever known, and hardly less where something was. Else it is 0."""
        if not self._is_unknown:
            return 0.0
        return _KNOWN_BEFORE if self._was_known else 1.0

    @property
    def _is_unknown(self) -> bool:
        return self.growth_ratio > _MOST_GROWTH

    def filled_shares(self, held_bytes: FloatArray, full_bytes: float) -> FloatArray:
        """Return for how much of the time lately servers that hold so much were full; shape as
        given.

        The server that there is has been so with ``full_bytes``. A larger one was when more had
        been read than it holds.
        """
        first = max(full_bytes, self._weights[0] if len(self._weights) > 1 else 0.0)
        last = max(first, self._weights[-1] if self._weights else 0.0)
        if last <= first:
            return np.asarray(held_bytes <= first, dtype=np.float64)
        return np.asarray(np.clip((last - held_bytes) / (last - first), 0.0, 1.0))

    def depths(self, depths_bytes: FloatArray) -> FloatArray:
        """Return what depths are to be taken for; shape as given."""
        margin = 1 + _MARGIN_ERRORS / np.sqrt(max(_FEWEST_OBJECTS, self._objects))
        grown = np.ones(len(depths_bytes))
        if growth := self.growth_ratio:
            held = np.minimum(depths_bytes, self._weights[-1]) / self._weights[-1]
            grown = 1 + _GROWTH * growth * held**2
        return np.asarray(depths_bytes * margin * grown)


# A window counts half after so many more windows.
_HALF_LIFE_WINDOWS = 2.0
# With fewer sampled reads a window tells nothing.
_FEWEST_SAMPLES = 100
# Taken for the error of a window before the first, of miss ratios.
_FIRST_ERROR = 0.05


class WindowError:
    """Tells how far off the last predictions were, in the windows that they were made for.

    Of one server: a mean square that fades.

    A curve is made of what was read, and used for what will be read. How much the two differ is
    seen when the next window is over: by how far its own curve lies from what had been predicted,
    over the sizes that a plan may go to. Only what its few samples do not explain counts.
    """

    def __init__(self) -> None:
        self._predicted: MissRatioCurve | None = None
        self._square, self._weight = _FIRST_ERROR**2, 1.0

    @property
    def ratio(self) -> float:
        """Return the root of the mean square, of miss ratios."""
        return float(np.sqrt(self._square / self._weight))

    @property
    def sums(self) -> tuple[float, float]:
        """Return what it knows of windows that are over; may be set."""
        return self._square, self._weight

    @sums.setter
    def sums(self, sums: tuple[float, float]) -> None:
        self._square, self._weight = sums

    def predict(self, curve: MissRatioCurve) -> None:
        """Take what is said of the window that begins."""
        self._predicted = curve

    def compare(self, sizes_bytes: FloatArray, miss_ratios: FloatArray, samples: float) -> None:
        """Take the curve of the window that is over, shapes (k,), by so many sampled reads."""
        if self._predicted is None or samples < _FEWEST_SAMPLES or not len(sizes_bytes):
            return
        errors = self._predicted.miss_ratio(sizes_bytes) - miss_ratios
        chance = miss_ratios * (1 - miss_ratios) / samples
        square = max(0.0, float(np.mean(errors**2 - chance)))
        fade = 0.5 ** (1 / _HALF_LIFE_WINDOWS)
        self._square, self._weight = self._square * fade + square, self._weight * fade + 1


class ReadCounts:
    """Counts the reads of one server.

    Attributes:
        histogram: by stack distance.
        simulation: of a policy that is not a stack's, ``None`` with LRU.
        eviction: what the server's eviction makes of exact LRU; ``None`` until it is known.
        pinned_bytes: of keys that are never evicted.
        seconds: in which it was counted.
        growth_margin: how much deeper reads will reach.
        window_error: how far off predictions were.
        empty_bytes: what the server takes without any key.
        object_bytes: what a key takes.
        rate: R, the share of keys that were sampled in the last step.
        expected: reads a second of the next hours by ``DAY`` and ``WEEK``, where they are known.
    """

    def __init__(self) -> None:
        self.histogram = MissRatioHistogram()
        self.simulation: MiniatureSimulation | None = None
        self.eviction: SampledEviction | None = None
        self.pinned_bytes = 0.0
        self._samples = MOST_SAMPLES + 1
        self._full_bytes = 0.0
        self.seconds = Remembered()
        self.growth_margin = GrowthMargin()
        self.window_error = WindowError()
        # The sum of its steps, which are as many as there are until somebody observes the server.
        self._window: FloatArray | None = None
        self._window_reads = 0.0
        self._is_mixed = False  # of policies whose steps cannot be summed
        self.empty_bytes = 0
        self.object_bytes = 0.0
        self.rate = 1.0
        self.expected: dict[int, float] = {}

    def step(self, seconds: float, cycles: float) -> None:
        """Close a step that took so long."""
        self.seconds.new += seconds
        self.seconds.step(cycles)
        self.histogram.step(cycles)
        if self.simulation is not None:
            self.simulation.misses.step(cycles)
        row = self._tails(None, by_group=False)[0][0]
        if self._window is None:
            self._window = row.copy()
        elif len(row) == len(self._window):
            self._window += row
        else:
            self._is_mixed = True
        self._window_reads += float(self.histogram.reads.last)

    def know_eviction(self, samples: int, full_bytes: float, pinned_bytes: float) -> None:
        """Know that the server looks at so many keys for each eviction (``maxmemory-samples``; 1
        stands for random ones). It is full with ``full_bytes`` of keys (0: is not) and never evicts
        ``pinned_bytes`` of them."""
        self._samples, self._full_bytes, self.pinned_bytes = samples, full_bytes, pinned_bytes
        self.follow_eviction()

    def follow_eviction(self) -> None:
        """Learn from what was counted what the server's eviction makes of it."""
        if self._samples > MOST_SAMPLES or self.simulation is not None:
            self.eviction = None
        else:
            self.eviction = self._eviction_by(self._samples)

    def _eviction_by(self, samples: int) -> SampledEviction | None:
        """Return what so many samples make of exact LRU; ``None`` if nothing was read."""
        if float(self.histogram.reads.by(CYCLE)) <= 0:
            return None
        exact = self.histogram.miss_ratios(CYCLE)
        held = GRID_BYTES + self.pinned_bytes
        ratios = np.interp(held, EDGES_BYTES, exact)
        filled = self.growth_margin.filled_shares(held, self._full_bytes)
        return SampledEviction(samples, ratios, filled)

    def bending(self, least_bytes: float, most_bytes: float) -> float:
        """Return by how much the server's eviction changes the miss ratio of exact LRU at most,
        where so many bytes of keys have room."""
        if self.eviction is None:
            return 0.0
        depths, bent = self.miss_ratios(CYCLE)
        exact = np.interp(depths, EDGES_BYTES, self.histogram.miss_ratios(CYCLE))
        within = (depths >= least_bytes) & (depths <= most_bytes)
        return float(np.abs(bent - exact)[within].max(initial=0.0))

    def lost(self, distances_bytes: FloatArray, held_bytes: float) -> float:
        """Return how many of the reads at these stack distances, shape (n,), miss where so many
        bytes of keys have room. The policy is a stack's."""
        if self.eviction is None:
            return float(np.count_nonzero(distances_bytes > held_bytes))
        pinned = self.pinned_bytes
        beside = np.maximum(distances_bytes - pinned, 0.0)
        return float(self.eviction.lost(beside, held_bytes - pinned).sum())

    def end_window(self, least_bytes: float, most_bytes: float, rate: float) -> None:
        """Compare what the steps since the last call say of sizes in this range with what had been
        predicted of them; ``rate`` is R."""
        window, reads, is_mixed = self._window, self._window_reads, self._is_mixed
        self._begin_window()
        depths = self._tails(None, by_group=False)[1]
        if reads <= 0 or window is None or is_mixed or len(window) != len(depths):
            return
        sizes = depths + self.empty_bytes
        within = (sizes >= least_bytes) & (sizes <= most_bytes)
        ratios = np.clip(window / reads, 0.0, 1.0)
        self.window_error.compare(sizes[within], ratios[within], reads * rate)

    def _begin_window(self) -> None:
        self._window, self._window_reads, self._is_mixed = None, 0.0, False

    def forget(self) -> None:
        """Forget all reads that were counted."""
        self.window_error = WindowError()
        self._begin_window()
        self.seconds.forget()
        self.histogram.forget()
        if self.simulation is not None:
            self.simulation.misses.forget()
        self.eviction = None

    def miss_ratios(self, length: int) -> tuple[FloatArray, FloatArray]:
        """Return depths in bytes, and the miss ratio of a server that holds so many bytes of
        keys."""
        if self.simulation is None:
            return self._stack_miss_ratios(length, self.eviction)
        reads = max(1.0, float(self.histogram.reads.by(length)))
        ratios = np.clip(self.simulation.misses.by(length).sum(axis=0) / reads, 0.0, 1.0)
        return self.simulation.depths_bytes, np.minimum.accumulate(ratios)

    def miss_ratios_by_samples(self, length: int, samples: int) -> tuple[FloatArray, FloatArray]:
        """Return the same of a server that would evict the least recently used of so many keys; of
        a random one with 1."""
        return self._stack_miss_ratios(length, self._eviction_by(samples))

    def _stack_miss_ratios(
        self, length: int, eviction: SampledEviction | None
    ) -> tuple[FloatArray, FloatArray]:
        exact = self.histogram.miss_ratios(length)
        if eviction is None:
            return EDGES_BYTES, exact
        rows, depths = self._bent(exact[None], EDGES_BYTES, eviction)
        return depths, np.minimum.accumulate(np.clip(rows[0], 0.0, 1.0))

    def _bent(
        self, rows: FloatArray, depths_bytes: FloatArray, eviction: SampledEviction
    ) -> tuple[FloatArray, FloatArray]:
        """Return the misses of the server's eviction from those of exact LRU, shape (n, k), and the
        depths that they are of."""
        held = GRID_BYTES + self.pinned_bytes
        found = np.stack([np.interp(held, depths_bytes, row) for row in rows])
        return eviction.bent(found), held

    def reads(self, half_life: HalfLife | None) -> float:
        """Return the reads a second: by a half-life, or in the last step (``None``)."""
        reads, seconds = self.histogram.reads, self.seconds
        if half_life is None:
            return float(reads.last) / max(1e-9, float(seconds.last))
        if self.expects(half_life):
            return self.expected[half_life.rate]
        place = min(half_life.rate, len(HALF_LIVES_CYCLES) - 1)
        return float(reads.faded[place]) / max(1e-9, float(seconds.faded[place]))

    def expects(self, half_life: HalfLife) -> bool:
        """Whether the half-life is of an hour that is known."""
        return half_life.rate in self.expected

    def misses(
        self, sizes_bytes: FloatArray, half_life: HalfLife | None, *, by_group: bool = False
    ) -> FloatArray:
        """Return the misses a second of servers of these sizes: by a half-life and looking ahead,
        or as they were in the last step (``None``). Shape as given.

        By group: what each group of objects says, as if it stood for all; shape (GROUPS, n).
        """
        reads = self.histogram.reads
        read = float(reads.last if half_life is None else reads.faded[half_life.shape])
        if read <= 0:
            return np.zeros((GROUPS, len(sizes_bytes)) if by_group else len(sizes_bytes))
        counted, depths = self._tails(half_life, by_group=by_group)
        if half_life is not None:
            depths = self.growth_margin.depths(depths)
        held = np.maximum(0.0, sizes_bytes - self.empty_bytes)
        found = np.stack([np.interp(held, depths, row) for row in counted])
        return np.asarray((found if by_group else found[0]) / read * self.reads(half_life))

    def filled_bytes(self, sizes_bytes: FloatArray) -> FloatArray:
        """Return what the last step's misses fill in servers of these sizes, in bytes; shape as
        given."""
        return self.misses(sizes_bytes, None) * float(self.seconds.last) * self.object_bytes

    def _tails(
        self, half_life: HalfLife | None, *, by_group: bool
    ) -> tuple[FloatArray, FloatArray]:
        """Return the misses that were counted, shape (1 or GROUPS, k), of servers with keys of k
        sizes."""
        if self.simulation is not None:
            misses, depths = self.simulation.misses, self.simulation.depths_bytes
            groups = misses.last if half_life is None else misses.faded[half_life.shape]
            return (groups * GROUPS if by_group else groups.sum(axis=0)[None]), depths
        histogram = self.histogram
        counts, depths = histogram.counts, EDGES_BYTES
        if by_group:
            counts, depths = histogram.groups, COARSE_EDGES_BYTES
        rows = np.atleast_2d(counts.last if half_life is None else counts.faded[half_life.shape])
        beyond = np.cumsum(rows[:, ::-1], axis=1)[:, ::-1] * len(rows)
        depths = np.concatenate(([0.0], depths))
        if self.eviction is not None:
            bent, depths_bent = self._bent(beyond, depths, self.eviction)
            beyond = np.concatenate((beyond[:, :1], bent), axis=1)
            depths = np.concatenate(([0.0], depths_bent))
        return beyond, depths

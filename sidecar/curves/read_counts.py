"""What was counted of one server's reads, by each memory, and the misses that it stands for."""

from __future__ import annotations

import numpy as np

from sidecar.curves.growth_margin import GrowthMargin
from sidecar.curves.miniature_simulation import MiniatureSimulation
from sidecar.curves.miss_ratio_histogram import (
    COARSE_EDGES_BYTES,
    EDGES_BYTES,
    FloatArray,
    MissRatioHistogram,
)
from sidecar.curves.object_groups import GROUPS
from sidecar.curves.remembered import CYCLE, HalfLife, Remembered
from sidecar.curves.sampled_eviction import GRID_BYTES, MOST_SAMPLES, SampledEviction
from sidecar.curves.window_error import WindowError


class ReadCounts:
    """Of one server.

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
        """The server looks at so many keys for each eviction (``maxmemory-samples``; 1 stands for
        random ones), is full with ``full_bytes`` of keys (0: is not) and never evicts
        ``pinned_bytes`` of them."""
        self._samples, self._full_bytes, self.pinned_bytes = samples, full_bytes, pinned_bytes
        self.follow_eviction()

    def follow_eviction(self) -> None:
        """Learn from what was counted what the server's eviction makes of it."""
        reads = float(self.histogram.reads.by(CYCLE))
        if self._samples > MOST_SAMPLES or self.simulation is not None or reads <= 0:
            self.eviction = None
            return
        exact = self.histogram.miss_ratios(CYCLE)
        held = GRID_BYTES + self.pinned_bytes
        ratios = np.interp(held, EDGES_BYTES, exact)
        filled = self.growth_margin.filled_shares(held, self._full_bytes)
        self.eviction = SampledEviction(self._samples, ratios, filled)

    def bending(self, least_bytes: float, most_bytes: float) -> float:
        """By how much the server's eviction changes the miss ratio of exact LRU at most, where
        there is room for so many bytes of keys."""
        if self.eviction is None:
            return 0.0
        depths, bent = self.miss_ratios(CYCLE)
        exact = np.interp(depths, EDGES_BYTES, self.histogram.miss_ratios(CYCLE))
        within = (depths >= least_bytes) & (depths <= most_bytes)
        return float(np.abs(bent - exact)[within].max(initial=0.0))

    def lost(self, distances_bytes: FloatArray, held_bytes: float) -> float:
        """How many of the reads at these stack distances, shape (n,), miss where there is room for
        so many bytes of keys; the policy is a stack's."""
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
        """As if no read had been counted."""
        self.window_error = WindowError()
        self._begin_window()
        self.seconds.forget()
        self.histogram.forget()
        if self.simulation is not None:
            self.simulation.misses.forget()
        self.eviction = None

    def miss_ratios(self, length: int) -> tuple[FloatArray, FloatArray]:
        """Depths in bytes, and the miss ratio of a server that holds so many bytes of keys."""
        if self.simulation is None:
            exact = self.histogram.miss_ratios(length)
            if self.eviction is None:
                return EDGES_BYTES, exact
            rows, depths = self._bent(exact[None], EDGES_BYTES, self.eviction)
            return depths, np.minimum.accumulate(np.clip(rows[0], 0.0, 1.0))
        reads = max(1.0, float(self.histogram.reads.by(length)))
        ratios = np.clip(self.simulation.misses.by(length).sum(axis=0) / reads, 0.0, 1.0)
        return self.simulation.depths_bytes, np.minimum.accumulate(ratios)

    def _bent(
        self, rows: FloatArray, depths_bytes: FloatArray, eviction: SampledEviction
    ) -> tuple[FloatArray, FloatArray]:
        """Misses of the server's eviction from those of exact LRU, shape (n, k), and the depths
        that they are of."""
        held = GRID_BYTES + self.pinned_bytes
        found = np.stack([np.interp(held, depths_bytes, row) for row in rows])
        return eviction.bent(found), held

    def reads(self, memory: HalfLife | None) -> float:
        """Reads a second: by a memory, or in the last step (``None``)."""
        reads, seconds = self.histogram.reads, self.seconds
        if memory is None:
            return float(reads.last) / max(1e-9, float(seconds.last))
        return float(reads.faded[memory.rate]) / max(1e-9, float(seconds.faded[memory.rate]))

    def misses(
        self, sizes_bytes: FloatArray, memory: HalfLife | None, *, by_group: bool = False
    ) -> FloatArray:
        """Misses a second of servers of these sizes: by a memory and looking ahead, or as they
        were in the last step (``None``). Shape as given.

        By group: what each group of objects says, as if it stood for all; shape (GROUPS, n).
        """
        reads = self.histogram.reads
        read = float(reads.last if memory is None else reads.faded[memory.shape])
        if read <= 0:
            return np.zeros((GROUPS, len(sizes_bytes)) if by_group else len(sizes_bytes))
        counted, depths = self._tails(memory, by_group=by_group)
        if memory is not None:
            depths = self.growth_margin.depths(depths)
        held = np.maximum(0.0, sizes_bytes - self.empty_bytes)
        found = np.stack([np.interp(held, depths, row) for row in counted])
        return np.asarray((found if by_group else found[0]) / read * self.reads(memory))

    def filled_bytes(self, sizes_bytes: FloatArray) -> FloatArray:
        """By the misses of the last step, of servers of these sizes; shape as given."""
        return self.misses(sizes_bytes, None) * float(self.seconds.last) * self.object_bytes

    def _tails(self, memory: HalfLife | None, *, by_group: bool) -> tuple[FloatArray, FloatArray]:
        """Misses that were counted, shape (1 or GROUPS, k), of servers with keys of k sizes."""
        if self.simulation is not None:
            misses, depths = self.simulation.misses, self.simulation.depths_bytes
            groups = misses.last if memory is None else misses.faded[memory.shape]
            return (groups * GROUPS if by_group else groups.sum(axis=0)[None]), depths
        histogram = self.histogram
        counts, depths = histogram.counts, EDGES_BYTES
        if by_group:
            counts, depths = histogram.groups, COARSE_EDGES_BYTES
        rows = np.atleast_2d(counts.last if memory is None else counts.faded[memory.shape])
        beyond = np.cumsum(rows[:, ::-1], axis=1)[:, ::-1] * len(rows)
        depths = np.concatenate(([0.0], depths))
        if self.eviction is not None:
            bent, depths_bent = self._bent(beyond, depths, self.eviction)
            beyond = np.concatenate((beyond[:, :1], bent), axis=1)
            depths = np.concatenate(([0.0], depths_bent))
        return beyond, depths

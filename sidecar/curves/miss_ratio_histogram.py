"""Holds the histogram of stack distances, and gives the miss ratios that it stands for."""

from __future__ import annotations

from ctypes import byref

import numpy as np
import numpy.typing as npt

from sidecar.curves.decaying_counts import CYCLE, Remembered
from sidecar.curves.object_groups import GROUP_SHIFT, GROUPS
from sidecar.kernel.library import library
from sidecar.kernel.structures import Histogram as HistogramStructure

FloatArray = npt.NDArray[np.float64]

_PER_OCTAVE = 64
_COARSE = 8
# From 128 bytes to 16 TiB; whole numbers, so that whole distances fall on the right side.
# Shape (k,): bucket i holds distances in (edge i-1, edge i]; 1.1 % from edge to edge.
EDGES_BYTES: FloatArray = np.rint(2.0 ** (7 + np.arange(37 * _PER_OCTAVE + 1) / _PER_OCTAVE))
_EDGES_ADDRESS = EDGES_BYTES.ctypes.data
# Of the groups' histograms.
COARSE_EDGES_BYTES: FloatArray = EDGES_BYTES[::_COARSE]


class MissRatioHistogram:
    """Holds fading counts of reads by stack distance, by each half-life.

    Counts are estimates of all reads (a sampled one weighs 1 / R), beside the true number of
    reads: the difference belongs to the first bucket (SHARDS_adj, section 3.2 of the SHARDS paper).
    For very frequent objects, which are rarely but heavily sampled, have short distances.

    Memory: 8 (k + 1) (1 + GROUPS / 8) bytes for each half-life and two more, about 340 KB.

    Attributes:
        counts: shape (k + 1,).
        groups: of each group of objects, shape (GROUPS, k / 8 + 1).
        reads: true number of reads.
    """

    def __init__(self) -> None:
        self.counts = Remembered(len(EDGES_BYTES) + 1)
        self.groups = Remembered(GROUPS, len(EDGES_BYTES) // _COARSE + 2)
        self.reads = Remembered()

    def add(self, distances_bytes: FloatArray, weight: float, ids: npt.NDArray[np.uint64]) -> None:
        """Count reads, each as ``weight``, of the objects ``ids``; shapes (n,)."""
        distances, ids = np.ascontiguousarray(distances_bytes), np.ascontiguousarray(ids)
        described = HistogramStructure()
        self.describe(described)
        library().spreds_histogram_add(
            byref(described), distances.ctypes.data, ids.ctypes.data, len(ids), weight
        )

    def describe(self, structure: HistogramStructure) -> None:
        """Fill in what the compiled library counts by; true until the next ``step``."""
        structure.edges, structure.edge_count = _EDGES_ADDRESS, len(EDGES_BYTES)
        structure.per_octave, structure.coarse = _PER_OCTAVE, _COARSE
        structure.group_count, structure.group_width = self.groups.new.shape
        structure.group_shift = GROUP_SHIFT
        structure.counts = self.counts.new.ctypes.data
        structure.groups = self.groups.new.ctypes.data

    def step(self, cycles: float) -> None:
        """Close a step, as ``Remembered`` does."""
        for part in self._parts():
            part.step(cycles)

    def forget(self) -> None:
        """Forget all that was counted."""
        for part in self._parts():
            part.forget()

    def _parts(self) -> tuple[Remembered, ...]:
        return self.counts, self.groups, self.reads

    def stretch(self, factor: float) -> None:
        """Multiply all distances by ``factor``: objects weigh more than was thought.

        A bucket is split between the two that it comes to lie between.
        """
        shift = np.log2(factor) * _PER_OCTAVE
        self.counts.change(lambda counts: _shifted(counts, shift))
        self.groups.change(
            lambda groups: np.stack([_shifted(group, shift / _COARSE) for group in groups])
        )

    def miss_ratios(self, length: int = CYCLE) -> FloatArray:
        """Return the miss ratio of a cache of each edge's size, shape (k,); 1 without any reads."""
        reads = float(self.reads.by(length))
        if reads <= 0:
            return np.ones(len(EDGES_BYTES))
        return _tails(self.counts.by(length), reads)

    def standard_errors(self, length: int = CYCLE) -> FloatArray:
        """Return standard errors of ``miss_ratios``, shape (k,): how far it matters which objects
        are sampled.

        The objects fall into ``GROUPS`` groups by their hash; each group is an independent, smaller
        sample, and the spread between them tells the error of their mean.
        """
        reads = float(self.reads.by(length))
        if reads <= 0:
            return np.ones(len(EDGES_BYTES))
        tails = np.stack([_tails(group * GROUPS, reads) for group in self.groups.by(length)])
        errors = tails.std(axis=0, ddof=1) / np.sqrt(GROUPS)
        return np.asarray(errors[(np.arange(len(EDGES_BYTES)) + _COARSE - 1) // _COARSE])


def _tails(counts: FloatArray, reads: float) -> FloatArray:
    beyond = np.cumsum(counts[::-1])[::-1][1:]
    # Expired copies make a larger cache miss what a smaller one hits; a curve does not rise.
    return np.asarray(np.minimum.accumulate(np.clip(beyond / reads, 0.0, 1.0)))


def _shifted(counts: FloatArray, shift: float) -> FloatArray:
    """Return counts moved by ``shift`` buckets; the last bucket (never a hit) stays, ends
    collect."""
    moved = np.zeros_like(counts)
    last = len(counts) - 1
    places = np.clip(np.arange(last) + shift, 0, last - 1)
    low = np.floor(places).astype(np.intp)
    part = places - low
    np.add.at(moved, low, counts[:last] * (1 - part))
    np.add.at(moved, np.minimum(low + 1, last - 1), counts[:last] * part)
    moved[last] += counts[last]
    return moved

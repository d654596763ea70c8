"""The miss-ratio curve (MRC) says how often a cache misses as a function of its memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from solver_lambda.documents.reader import Fields

FloatArray = npt.NDArray[np.float64]
MAX_POINTS = 65_536


@dataclass(frozen=True, eq=False)
class MissRatioCurve:
    """Holds the miss ratio over ``maxmemory``.

    Attributes:
        sizes_bytes: shape (k,), k >= 1, strictly increasing, >= 0. The unit is the server's
            ``maxmemory``: overheads for each key and the server's baseline are already in it.
        miss_ratios: shape (k,), within [0, 1], non-increasing.
    """

    sizes_bytes: FloatArray
    miss_ratios: FloatArray

    def __post_init__(self) -> None:
        sizes, ratios = self.sizes_bytes, self.miss_ratios
        if sizes.ndim != 1 or sizes.shape != ratios.shape or not len(sizes):
            raise ValueError("sizes_bytes and miss_ratios must be two lists of one length")
        if sizes[0] < 0 or np.any(np.diff(sizes) <= 0):
            raise ValueError("sizes_bytes must increase strictly from 0 or more")
        if np.any(ratios < 0) or np.any(ratios > 1) or np.any(np.diff(ratios) > 0):
            raise ValueError("miss_ratios must lie within [0, 1] and never increase")

    def miss_ratio(self, size_bytes: npt.ArrayLike) -> FloatArray:
        """Return the miss ratio at each size in bytes, linear between points.

        Below the first point the curve is a straight line from (0 bytes, 1); above the last it
        is flat.
        """
        sizes, ratios = self.from_zero
        return np.asarray(np.interp(np.asarray(size_bytes, dtype=np.float64), sizes, ratios))

    @cached_property
    def from_zero(self) -> tuple[FloatArray, FloatArray]:
        """Return sizes in bytes and miss ratios of the curve's points; the first is at 0 bytes."""
        if self.sizes_bytes[0] == 0:
            return self.sizes_bytes, self.miss_ratios
        return np.append(0.0, self.sizes_bytes), np.append(1.0, self.miss_ratios)

    def to_json(self) -> dict[str, Any]:
        """Return the curve as it stands in an observation: in whole bytes, the last point of
        each."""
        sizes = np.rint(self.sizes_bytes)
        kept = np.append(np.diff(sizes) > 0, True)
        return {
            "sizes_bytes": [int(x) for x in sizes[kept]],
            "miss_ratios": [round(float(x), 9) for x in self.miss_ratios[kept]],
        }

    @classmethod
    def from_json(cls, fields: Fields) -> MissRatioCurve:
        """Read and check a curve.

        Raises:
            DocumentError: the lists are not a curve.
        """
        sizes = fields.numbers("sizes_bytes", most=MAX_POINTS)
        ratios = fields.numbers("miss_ratios", most=MAX_POINTS)
        fields.done()
        try:
            return cls(np.array(sizes, dtype=np.float64), np.array(ratios, dtype=np.float64))
        except ValueError as error:
            raise fields.refuse(
                "sizes_bytes", f"and miss_ratios are not a curve: {error}"
            ) from error

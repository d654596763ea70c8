"""Makes the curve of an observation from miss ratios at many depths."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from solver_lambda.documents.curve import MissRatioCurve

FloatArray = npt.NDArray[np.float64]
TOLERANCE_RATIO = 2e-4


def simplified(
    sizes_bytes: FloatArray, miss_ratios: FloatArray, tolerance: float = TOLERANCE_RATIO
) -> MissRatioCurve:
    """Return the curve through as few of the points as keep every other within ``tolerance`` of the
    straight lines. This is Douglas and Peucker's algorithm, on vertical distance.

    Shapes (k,), k >= 1, as in ``MissRatioCurve``; the ends are kept.
    """
    keep = np.zeros(len(sizes_bytes), dtype=bool)
    keep[[0, -1]] = True
    spans = [(0, len(sizes_bytes) - 1)]
    while spans:
        first, last = spans.pop()
        if last - first < 2:
            continue
        x, y = sizes_bytes[first : last + 1], miss_ratios[first : last + 1]
        line = y[0] + (y[-1] - y[0]) / (x[-1] - x[0]) * (x - x[0])
        gap = np.abs(y - line)
        worst = int(np.argmax(gap))
        if gap[worst] > tolerance:
            keep[first + worst] = True
            spans += [(first, first + worst), (first + worst, last)]
    return MissRatioCurve(sizes_bytes[keep], miss_ratios[keep])


def curve_through(
    start_bytes: float, depths_bytes: FloatArray, miss_ratios: FloatArray, budget_bytes: int
) -> MissRatioCurve:
    """Return the curve over ``maxmemory``. It is 1 at ``start_bytes``, which holds no key, and then
    ``miss_ratios`` where there is room for ``depths_bytes`` more. It ends at ``budget_bytes``.

    Shapes (k,); depths increase and are positive, ratios are within [0, 1] and do not increase.
    """
    sizes = np.concatenate(([0.0], depths_bytes)) + start_bytes
    ratios = np.concatenate(([1.0], miss_ratios))
    within = sizes < budget_bytes
    end = np.interp(budget_bytes, sizes, ratios)
    sizes = np.append(sizes[within], float(budget_bytes))
    ratios = np.append(ratios[within], end)
    return simplified(sizes, ratios)

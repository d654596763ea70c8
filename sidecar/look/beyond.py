"""What a curve is taken for above the size to which a look could follow it.

A key that was gone before the look is a miss at every size, as far as anybody can tell. So beyond
what the server held, and what it evicted while it was looked at, the curve says the most that would
be missed. There it is taken to go on as a power of the size, as it did until then: where misses
hardly fell, they are not said to fall.
"""

from __future__ import annotations

import numpy as np

from solver_lambda.documents.curve import MissRatioCurve

# The part of the curve that tells how it goes on, and how far it is believed to.
_FROM, _TO = 0.6, 2.0
_MOST_POWER = 3.0
_POINTS = 32


def extended(curve: MissRatioCurve, empty_bytes: float, known_bytes: float) -> MissRatioCurve:
    """The curve, of which what lies above ``known_bytes`` is the most that would be missed; of a
    server that takes ``empty_bytes`` without any key."""
    end_bytes = float(curve.sizes_bytes[-1])
    room = known_bytes - empty_bytes
    if room <= 0 or known_bytes >= end_bytes:
        return curve
    here, before = curve.miss_ratio([known_bytes, empty_bytes + _FROM * room])
    if not 0 < here < before:
        return curve
    power = min(_MOST_POWER, float(np.log(before / here) / np.log(1 / _FROM)))
    beyond = np.geomspace(known_bytes, min(end_bytes, empty_bytes + _TO * room), _POINTS)[1:]
    sizes = np.union1d(curve.sizes_bytes, beyond)
    depths = np.clip((sizes - empty_bytes) / room, 1.0, _TO)
    ratios = np.minimum(curve.miss_ratio(sizes), np.where(depths > 1, here * depths**-power, 1.0))
    return MissRatioCurve(sizes, np.minimum.accumulate(ratios))

"""What allocators take for so many bytes: jemalloc, that of Redis and Valkey, or the C library."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_SMALL_BYTES, _SMALL_STEP_BYTES = 128, 16


def allocated_bytes(
    sizes_bytes: npt.NDArray[np.int64], is_libc: bool = False
) -> npt.NDArray[np.int64]:
    """Each size rounded up to jemalloc's class: multiples of 16 bytes up to 128, then four to each
    doubling (its manual, "Implementation notes"). Or, for a server that was built with the C
    library's (``is_libc``), to what glibc gives: 24 bytes, and 16 more each time, of which it keeps
    8 before them for itself. Shape as given.

    A record tells key and value as one size, and they are allocated apart: the value is mostly the
    larger part. Without the classes, what is learnt of large objects would be added to small ones.
    """
    if is_libc:
        return np.asarray(np.maximum(24, (sizes_bytes + 7) // 16 * 16 + 8))
    octave = np.frexp(np.maximum(sizes_bytes, _SMALL_BYTES + 1) - 1)[1] - 1
    step = np.where(sizes_bytes <= _SMALL_BYTES, _SMALL_STEP_BYTES, 2 ** (octave - 2))
    return np.asarray(-(-sizes_bytes // step) * step)

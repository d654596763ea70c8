"""Holds consecutive requests of a trace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class TraceChunk:
    """Holds consecutive requests of a trace.

    Attributes:
        times_seconds: shape (n,), float64; since the trace's own origin.
        keys: shape (n,), uint64 identities: a decimal key is its own identity, another text
            has a 64-bit hash of it.
        sizes_bytes: shape (n,), uint32; key and value.
        texts: the keys as they stand in the file (decimal for binary formats), if asked for.
    """

    times_seconds: npt.NDArray[np.float64]
    keys: npt.NDArray[np.uint64]
    sizes_bytes: npt.NDArray[np.uint32]
    texts: list[bytes] | None = None

    def __len__(self) -> int:
        return len(self.keys)

"""The compiled part of ``spreds mrc``: a small C library (``kernel.c``), called by ctypes.

It is optional. ``library()`` is ``None`` where it could not be compiled when the package was
installed; then Python does the same, slowly.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_POINTER = ctypes.c_void_p
_U64 = ctypes.c_uint64
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "spreds_mrc_new": (_POINTER, [ctypes.c_int, _U64, _U64, _U64]),
    "spreds_mrc_free": (None, [_POINTER]),
    "spreds_mrc_take": (
        ctypes.c_int,
        [_POINTER, _POINTER, ctypes.c_int64, _POINTER, ctypes.c_int64, _U64],
    ),
    "spreds_mrc_bins": (_U64, [_POINTER, _POINTER, _POINTER, _U64]),
    "spreds_mrc_cold": (ctypes.c_double, [_POINTER]),
    "spreds_mrc_requests": (_U64, [_POINTER]),
    "spreds_mrc_sampled": (_U64, [_POINTER]),
    "spreds_mrc_live": (_U64, [_POINTER]),
    "spreds_csv_parse": (
        _U64,
        [ctypes.c_char_p, _U64, *[ctypes.c_int] * 4, *[_POINTER] * 3, _U64, _POINTER],
    ),
}


@cache
def library() -> ctypes.CDLL | None:
    """The compiled library, or ``None`` if it is not there."""
    for suffix in EXTENSION_SUFFIXES:
        path = Path(__file__).with_name(f"_kernel{suffix}")
        if path.exists():
            found = ctypes.CDLL(str(path))
            for name, (result, arguments) in _SIGNATURES.items():
                function = getattr(found, name)
                function.restype, function.argtypes = result, arguments
            return found
    return None


@dataclass(frozen=True, eq=False)
class ParsedLines:
    """The first lines of a text.

    Attributes:
        times_seconds, keys, sizes_bytes: shape (n,), one for each line parsed.
        used: bytes of those lines.
    """

    times_seconds: npt.NDArray[np.float64]
    keys: npt.NDArray[np.uint64]
    sizes_bytes: npt.NDArray[np.uint32]
    used: int


def parse_csv(text: bytes, columns: int, time: int, key: int, size: int) -> ParsedLines:
    """Parse lines of ``columns`` columns whose time, key and size are whole decimal numbers.

    Stops before the first line that is anything else (at once without the library).
    """
    found = library()
    room = text.count(b"\n") if found else 0
    times, keys, sizes = np.empty(room), np.empty(room, np.uint64), np.empty(room, np.uint32)
    if not found:
        return ParsedLines(times, keys, sizes, 0)
    used = _U64()
    lines = found.spreds_csv_parse(
        text,
        len(text),
        *(columns, time, key, size),
        *(times.ctypes.data, keys.ctypes.data, sizes.ctypes.data),
        room,
        ctypes.byref(used),
    )
    return ParsedLines(times[:lines], keys[:lines], sizes[:lines], used.value)

"""Loads the compiled part of ``spreds mrc`` and of the monitors: the C files beside this one,
called by ctypes. It is built when the package is installed."""

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_POINTER = ctypes.c_void_p
_U64 = ctypes.c_uint64
_I64 = ctypes.c_int64
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "spreds_mrc_new": (_POINTER, [ctypes.c_int, _U64, _U64, _U64]),
    "spreds_mrc_free": (None, [_POINTER]),
    "spreds_mrc_take": (ctypes.c_int, [_POINTER, _POINTER, _I64, _POINTER, _I64, _U64]),
    "spreds_mrc_take_again": (ctypes.c_int, [_POINTER, _U64, ctypes.c_uint32, _U64]),
    "spreds_mrc_take_cache2k": (ctypes.c_int, [_POINTER, _POINTER, _U64]),
    "spreds_mrc_take_oracle_general": (ctypes.c_int, [_POINTER, _POINTER, _U64]),
    "spreds_mrc_bins": (_U64, [_POINTER, _POINTER, _POINTER, _U64]),
    "spreds_mrc_curve": (_U64, [_POINTER, _POINTER, _POINTER, _U64]),
    "spreds_mrc_cold": (ctypes.c_double, [_POINTER]),
    "spreds_mrc_requests": (_U64, [_POINTER]),
    "spreds_mrc_sampled": (_U64, [_POINTER]),
    "spreds_mrc_live": (_U64, [_POINTER]),
    "spreds_stack_new": (_POINTER, []),
    "spreds_stack_free": (None, [_POINTER]),
    "spreds_stack_access": (_I64, [*[_POINTER] * 4, _U64, _I64, *[_POINTER] * 2]),
    "spreds_stack_live": (_U64, [_POINTER]),
    "spreds_stack_has": (ctypes.c_int, [_POINTER, _U64]),
    "spreds_stack_total_weight": (_I64, [_POINTER]),
    "spreds_stack_held": (_I64, [_POINTER, _POINTER]),
    "spreds_stack_grown": (_I64, [_POINTER, _POINTER, _POINTER]),
    "spreds_stack_list": (None, [*[_POINTER] * 3]),
    "spreds_stack_remove": (ctypes.c_int, [_POINTER, _POINTER, _U64, ctypes.c_int]),
    "spreds_stack_add_weight": (None, [_POINTER, _I64]),
    "spreds_stack_clear": (None, [_POINTER]),
    "spreds_stack_below": (_U64, [_POINTER, _I64]),
    "spreds_lifetimes_new": (_POINTER, [_POINTER, _POINTER]),
    "spreds_lifetimes_free": (None, [_POINTER]),
    "spreds_lifetimes_take": (ctypes.c_int, [*[_POINTER] * 6, _U64, ctypes.c_double]),
    "spreds_lifetimes_moves": (_U64, [_POINTER, ctypes.c_int, _POINTER, _POINTER]),
    "spreds_lifetimes_due": (ctypes.c_int, [_POINTER, ctypes.c_double, _POINTER]),
    "spreds_lifetimes_keep_only": (None, [_POINTER, _POINTER, _U64]),
    "spreds_lifetimes_waiting": (_U64, [_POINTER]),
    "spreds_lifetimes_alive": (_U64, [_POINTER]),
    "spreds_lifetimes_shortest": (ctypes.c_double, [_POINTER, ctypes.c_int]),
    "spreds_histogram_add": (
        None,
        [
            *(_POINTER, _POINTER, _POINTER, _U64, ctypes.c_double),
        ],
    ),
    "spreds_eviction_weights": (
        ctypes.c_int,
        [*[_POINTER] * 2, *[_U64] * 2, ctypes.c_double, *[_POINTER] * 2, *[_U64] * 3, _POINTER],
    ),
    "spreds_records_check": (ctypes.c_int, [_POINTER, *[_U64] * 4]),
    "spreds_batch_new": (_POINTER, []),
    "spreds_batch_free": (None, [_POINTER]),
    "spreds_batch_take": (ctypes.c_int, [_POINTER, _POINTER]),
    "spreds_fills_new": (_POINTER, []),
    "spreds_fills_free": (None, [_POINTER]),
    "spreds_fills_take": (
        ctypes.c_int,
        [*[_POINTER] * 4, _U64, ctypes.c_double, ctypes.c_double, _U64],
    ),
    "spreds_fills_waits": (_POINTER, [_POINTER]),
    "spreds_fills_clear": (None, [_POINTER]),
    "spreds_caches_new": (_POINTER, [ctypes.c_int] * 4),
    "spreds_caches_free": (None, [_POINTER]),
    "spreds_caches_set_capacities": (None, [_POINTER, _POINTER]),
    "spreds_caches_access": (
        ctypes.c_int,
        [*[_POINTER] * 4, _U64, _I64, ctypes.c_uint32, _POINTER],
    ),
    "spreds_caches_remove": (None, [_POINTER, _POINTER, _U64]),
    "spreds_caches_live": (_U64, [_POINTER]),
    "spreds_caches_list": (None, [_POINTER, _POINTER]),
    "spreds_caches_add_weight": (None, [_POINTER, _I64]),
    "spreds_caches_weight": (_I64, [_POINTER, ctypes.c_int]),
    "spreds_lines_parse": (_U64, [_POINTER, _U64, _U64, *[_POINTER] * 4, _U64, *[_POINTER] * 3]),
}
_loaded: list[ctypes.CDLL] = []


class NotCompiledError(RuntimeError):
    """The compiled library is not there."""


def library() -> ctypes.CDLL:
    """Return the compiled library. Raises NotCompiledError."""
    if not _loaded:
        _loaded.append(_load())
    return _loaded[0]


def _load() -> ctypes.CDLL:
    folder = os.path.dirname(__file__)
    # It may be built for any Python: it uses nothing of it.
    names = [name for name in os.listdir(folder) if name.startswith("_kernel.")]
    if not names:
        raise NotCompiledError(
            "the compiled library is not installed: install a C compiler (gcc or clang), and then "
            "this package again; in a clone, run 'make setup'"
        )
    found = ctypes.CDLL(os.path.join(folder, min(names)))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(found, name)
        function.restype, function.argtypes = result, arguments
    return found

"""Declares structures that the compiled library shares with Python, field by field as in the C."""

from __future__ import annotations

from ctypes import Structure, c_double, c_int64, c_uint64, c_void_p


class Histogram(Structure):
    """Has the layout of ``kernel/histogram.h``."""

    _fields_ = (
        ("edges", c_void_p),
        ("edge_count", c_uint64),
        ("per_octave", c_uint64),
        ("group_count", c_uint64),
        ("group_width", c_uint64),
        ("group_shift", c_uint64),
        ("coarse", c_uint64),
        ("counts", c_void_p),
        ("groups", c_void_p),
    )


class Loss(Structure):
    """Has the layout of the one in ``kernel/batch.c``, as have the others."""

    _fields_ = (
        ("size_bytes", c_double),
        ("per_octave", c_double),
        ("first", c_double),
        ("values", c_void_p),
        ("count", c_uint64),
    )


class BatchCall(Structure):
    """Holds what a batch is counted by, and what is told of it."""

    _fields_ = (
        ("stack", c_void_p),
        ("lifetimes", c_void_p),
        ("fills", c_void_p),
        ("records", c_void_p),
        ("stride", c_uint64),
        ("count", c_uint64),
        ("firsts_us", c_void_p),
        ("ends", c_void_p),
        ("begin_seconds", c_double),
        ("end_us", c_double),
        ("modulus", c_uint64),
        ("threshold", c_uint64),
        ("rate", c_double),
        ("overhead_bytes", c_int64),
        ("is_libc", c_int64),
        ("default_bytes", c_int64),
        ("keys_bytes", c_double),
        ("resident_bytes", c_double),
        ("histogram", Histogram),
        ("loss", Loss),
        ("longest_us", c_double),
        ("most_pending", c_uint64),
        ("reads", c_uint64),
        ("unseen_hits", c_uint64),
        ("missed", c_double),
    )

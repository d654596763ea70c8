"""What may be asked of a simulated server: generated keys, or a trace's."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sidecar.commands.mrc.mrc_words import spellings
from sidecar.config.fields import size
from sidecar.traces.read_options import ReadOptions
from sidecar.traces.trace_reader import load_trace
from solver_lambda.documents.reader import DocumentError, Fields
from workloads.arguments import trace_file
from workloads.load import key_sizes, zipf_keys

log = logging.getLogger(__name__)

IntArray = npt.NDArray[np.int64]


class MissingTraceError(DocumentError):
    """A mix names a trace that is in none of the folders where it may be."""


class Load(ABC):
    """Keys are whole numbers; ``key_count`` is more than the greatest of them."""

    key_count: int

    @abstractmethod
    def keys(self, start: int, count: int, random: np.random.Generator) -> IntArray:
        """``count`` requests, after ``start`` that this load has had; shape (count,)."""

    @abstractmethod
    def sizes_bytes(self, random: np.random.Generator) -> npt.NDArray[np.uint32]:
        """Key and value of each key; shape (key_count,)."""


@dataclass(frozen=True)
class ZipfLoad(Load):
    """Independent draws of keys with Zipf popularity."""

    key_count: int
    skew: float
    mean_bytes: float

    def keys(self, start: int, count: int, random: np.random.Generator) -> IntArray:  # noqa: ARG002
        return zipf_keys(self.key_count, self.skew, count, random).astype(np.int64)

    def sizes_bytes(self, random: np.random.Generator) -> npt.NDArray[np.uint32]:
        return key_sizes(self.key_count, self.mean_bytes, random)


@dataclass(frozen=True)
class GrowingLoad(Load):
    """Keys come to those that there are at the start, until there are all; the earliest ones are
    the most popular, by about rank to the power of -``skew``."""

    key_count: int
    keys_at_start: int
    keys_per_request: float
    skew: float
    mean_bytes: float

    def keys(self, start: int, count: int, random: np.random.Generator) -> IntArray:
        grown = self.keys_at_start + self.keys_per_request * (start + np.arange(count))
        # Rank is u^(1 / (1 - skew)) of all: the inverse of the continuous Zipf distribution.
        ranks = random.random(count) ** (1 / (1 - self.skew)) * np.minimum(self.key_count, grown)
        keys: IntArray = ranks.astype(np.int64)
        return keys

    def sizes_bytes(self, random: np.random.Generator) -> npt.NDArray[np.uint32]:
        return key_sizes(self.key_count, self.mean_bytes, random)


@dataclass(frozen=True)
class LoopLoad(Load):
    """Reads all keys in turn, again and again."""

    key_count: int
    object_bytes: int

    def keys(self, start: int, count: int, random: np.random.Generator) -> IntArray:  # noqa: ARG002
        return (start + np.arange(count)) % self.key_count

    def sizes_bytes(self, random: np.random.Generator) -> npt.NDArray[np.uint32]:  # noqa: ARG002
        return np.full(self.key_count, self.object_bytes, np.uint32)


@dataclass(frozen=True)
class TraceLoad(Load):
    """A trace's requests, one after the other, and again from its start.

    ``source`` tells the file and the part of it: what is from one source is the same load.
    """

    source: tuple[object, ...]
    trace: IntArray = field(compare=False)
    key_count: int = field(compare=False)
    sizes: npt.NDArray[np.uint32] = field(compare=False)

    def keys(self, start: int, count: int, random: np.random.Generator) -> IntArray:  # noqa: ARG002
        return self.trace[(start + np.arange(count)) % len(self.trace)]

    def sizes_bytes(self, random: np.random.Generator) -> npt.NDArray[np.uint32]:  # noqa: ARG002
        return self.sizes


def read_load(fields: Fields, folders: Sequence[Path]) -> Load:
    """Read a load from the table of a mix's file; traces are looked for in ``folders``.

    Raises:
        DocumentError: something is wrong; ``MissingTraceError``: only the trace's file is missing.
        TraceError: the trace cannot be read.
    """
    kind = fields.text("kind", choices=("zipf", "growing", "loop", "trace"))
    if kind == "trace":
        return _read_trace(fields, folders)
    keys = fields.integer("keys", low=1)
    object_bytes = size(fields, "object", low=1)
    if kind == "loop":
        load: Load = LoopLoad(keys, object_bytes)
    elif kind == "growing":
        load = GrowingLoad(
            keys,
            fields.integer("keys_at_start", low=1, high=keys),
            fields.number("keys_per_request", low=0),
            fields.number("skew", low=0, high=0.99),
            object_bytes,
        )
    else:
        load = ZipfLoad(keys, fields.number("skew", low=0), object_bytes)
    fields.done()
    return load


def _read_trace(fields: Fields, folders: Sequence[Path]) -> TraceLoad:
    name = fields.text("file")
    object_bytes = size(fields, "object", low=1) if fields.has("object") else None
    first = fields.integer("first", 0, low=0)
    count = fields.integer("requests", low=1) if fields.has("requests") else None
    fields.done()
    files = (trace_file(folder, name) for folder in folders)
    path = next((file for file in files if file.exists()), None)
    if path is None:
        looked = " nor in ".join(map(str, folders))
        raise MissingTraceError(str(fields.refuse("file", f"{name!r} is not in {looked}")))
    options = ReadOptions(may_lack=["time"])  # requests are played evenly
    chunk = load_trace(path, limit=None if count is None else first + count, options=options)
    if dropped := spellings(options.operations.dropped()):
        log.warning("%s: not played, since they are no reads: %s", path, dropped)
    if first >= len(chunk):
        raise fields.refuse("first", f"must be less than the {len(chunk)} requests, not {first}")
    known, keys = np.unique(chunk.keys[first:], return_inverse=True)
    if object_bytes is None:
        sizes = _first_sizes(keys, len(known), chunk.sizes_bytes[first:])
        if sizes.max() <= 1:
            raise fields.refuse("object", f"is missing: {path} tells no sizes")
        if unsized := int(np.count_nonzero(sizes == 0)):
            middle = int(np.median(sizes[sizes > 0]))
            log.warning(
                "%s: %d keys have no size: %d bytes each, the median", path, unsized, middle
            )
            sizes[sizes == 0] = middle
    else:
        sizes = np.full(len(known), object_bytes, np.uint32)
    source = (path, first, count, object_bytes)
    return TraceLoad(source, keys.astype(np.int64), len(known), sizes)


def _first_sizes(
    keys: IntArray, key_count: int, sizes_bytes: npt.NDArray[np.uint32]
) -> npt.NDArray[np.uint32]:
    """Return each key's first size that is not 0, as misses have in some logs; else 0."""
    sizes = np.zeros(key_count, np.uint32)
    told = np.flatnonzero(sizes_bytes)[::-1]
    sizes[keys[told]] = sizes_bytes[told]  # the last of them is the first
    return sizes

"""Keeps what was learnt of servers, on file: a restart of the sidecar forgets no curve, and no
hour."""

from __future__ import annotations

import io
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from sidecar.base.regular_file import open_regular
from sidecar.curves.guarded_monitor import GuardedMonitor
from sidecar.curves.monitor_snapshot import Array, learnt_threshold
from sidecar.curves.read_counts import ReadCounts
from sidecar.half_lives.hourly_reads import HourlyReads
from sidecar.samples.sampler_key import SamplerKey
from sidecar.samples.wire_format import DEFAULT_MODULUS
from sidecar.storage.store import write_whole

log = logging.getLogger(__name__)

EVERY_SECONDS = 300.0
# Some 350 KB a server.
_MOST_BYTES = 256 << 20
_VERSION, _HOURS = "1", "hours"


class LearntFile:
    """Keeps one node's curves in a file beside its state (``None``: it has none). A server is
    sampled from the start at the rate that is known of it.

    Attributes:
        hours: how much each server was read at which hours.

    What cannot be read is logged, and forgotten: curves are learnt anew then. What cannot be
    written is tried again.
    """

    def __init__(
        self,
        state_file: Path | None,
        monitors: Mapping[str, GuardedMonitor],
        keys: Mapping[str, SamplerKey],
        modulus: int = DEFAULT_MODULUS,
    ) -> None:
        self.hours: dict[str, HourlyReads] = {}
        self._path = state_file.with_name(f"{state_file.name}.curves") if state_file else None
        self._monitors = monitors
        self._saved_at = time.monotonic()
        for name, learnt in self._load().items():
            if name in monitors:
                hours = learnt.pop(_HOURS, np.zeros(0))
                self.hours.setdefault(name, HourlyReads()).restore(hours)
                if learnt:
                    monitors[name].learnt = learnt
                    keys[name].threshold = learnt_threshold(learnt, modulus)

    def after(
        self, note: Callable[[Mapping[str, ReadCounts], float], None]
    ) -> Callable[[Mapping[str, ReadCounts], float], None]:
        """Return ``note``, after which what is known by then is on file, each ``EVERY_SECONDS``."""

        def noted(counts: Mapping[str, ReadCounts], seconds: float) -> None:
            note(counts, seconds)
            if time.monotonic() - self._saved_at >= EVERY_SECONDS:
                self.save()

        return noted

    def save(self) -> None:
        """Write what is known now."""
        if self._path is None:
            return
        self._saved_at = time.monotonic()
        arrays: dict[str, Any] = {}
        for name, monitor in self._monitors.items():
            for field, array in (monitor.kept() or {}).items():
                arrays[f"{_VERSION}/{name}/{field}"] = array
        for name, hours in self.hours.items():
            arrays[f"{_VERSION}/{name}/{_HOURS}"] = hours.sums
        packed = io.BytesIO()
        np.savez(packed, **arrays)
        text = packed.getvalue()
        try:
            write_whole(self._path, sha256(text).digest() + text)
        except OSError as error:
            why = error.strerror or error
            log.warning("what was learnt cannot be kept in %s: %s", self._path, why)

    def _load(self) -> dict[str, dict[str, Array]]:
        found: dict[str, dict[str, Array]] = defaultdict(dict)
        if self._path is None or not self._path.exists():
            return found
        try:
            with open_regular(self._path) as file:
                digest, text = file.read(sha256().digest_size), file.read(_MOST_BYTES)
            if digest != sha256(text).digest():
                raise ValueError("it is not as it was written")
            with np.load(io.BytesIO(text), allow_pickle=False) as arrays:
                for key in arrays.files:
                    version, _, place = key.partition("/")
                    name, _, field = place.rpartition("/")
                    if version == _VERSION:
                        found[name][field] = arrays[key]
        except (OSError, ValueError) as error:
            log.warning("curves are learnt anew: %s cannot be read: %s", self._path, error)
            return {}
        return found

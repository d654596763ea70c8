"""Counts what sizes save, by the curves of the reads that came. It compares those in force with
those that were found, and counts those of plans that nobody carries out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np

from sidecar.control.measured_access_time import counted_reads
from sidecar.curves.read_counts import ReadCounts
from sidecar.state.gain_since_installation import Counted, GainSinceInstallation, added
from solver_lambda.documents.observation import ServerObservation
from solver_lambda.planning.effective_access_time import AccessCost


def counted_misses(
    counts: Mapping[str, ReadCounts],
    in_force_bytes: Mapping[str, int],
    other_bytes: Mapping[str, int],
    seconds: float,
) -> Counted:
    """Return what a step of so many seconds counted by the curves, with sizes in force and with
    others.

    Caches are taken to be full at once. A server of unknown size is left out, and one whose other
    size is 0, no limit, keeps what it has.
    """
    found = {}
    for name, now in in_force_bytes.items():
        if name in other_bytes and name in counts:
            sizes = np.array([float(now), float(other_bytes[name] or now)])
            misses = counts[name].misses(sizes, None) * seconds
            found[name] = (counts[name].reads(None) * seconds, float(misses[0]), float(misses[1]))
    return found


def with_step(
    gain: GainSinceInstallation | None,
    servers: Sequence[ServerObservation],
    counts: Mapping[str, ReadCounts],
    in_force_bytes: Mapping[str, int],
    installed_bytes: Mapping[str, int],
    seconds: float,
) -> GainSinceInstallation:
    """Return the gain, or one that begins now, with the reads of a step of so many seconds."""
    pinned_bytes = {name: one.pinned_bytes for name, one in counts.items()}
    since = gain or GainSinceInstallation(time.time(), {}, counted_reads(servers), pinned_bytes)
    found_bytes = since.found_bytes(installed_bytes, in_force_bytes, pinned_bytes)
    return since.plus(counted_misses(counts, in_force_bytes, found_bytes, seconds))


def access_seconds(servers: Sequence[ServerObservation], counted: Counted) -> tuple[float, float]:
    """Return the weighted time that these reads take at the weights and latencies that ``servers``
    have, with the sizes in force and with the others."""
    now_seconds = other_seconds = 0.0
    for server in servers:
        reads, misses, other_misses = counted.get(server.name, (0.0, 0.0, 0.0))
        cost = AccessCost.of(server)
        now_seconds += server.weight * cost.total_seconds(reads, misses)
        other_seconds += server.weight * cost.total_seconds(reads, other_misses)
    return now_seconds, other_seconds


class RecommendedGain:
    """Counts what plans would save that nobody carries out, since ``since_seconds`` (Unix time),
    when the first of them was made."""

    def __init__(self, since_seconds: float) -> None:
        self.since_seconds = since_seconds
        self._counted: Counted = {}
        self._servers: Sequence[ServerObservation] = ()
        self._sizes_bytes: Mapping[str, int] = {}

    def recommend(
        self,
        servers: Sequence[ServerObservation],
        sizes_bytes: Mapping[str, int],
        now_seconds: float,
    ) -> None:
        """Count with these sizes from now on."""
        if not self._servers:
            self.since_seconds = now_seconds
        self._servers, self._sizes_bytes = servers, dict(sizes_bytes)

    def step(
        self, counts: Mapping[str, ReadCounts], in_force_bytes: Mapping[str, int], seconds: float
    ) -> None:
        """Count a step that is over and took so long."""
        step = counted_misses(counts, in_force_bytes, self._sizes_bytes, seconds)
        self._counted = added(self._counted, step)

    @property
    def ratio(self) -> float | None:
        """Return the share of the mean access time that is saved; ``None`` if nothing was read."""
        spent, would = access_seconds(self._servers, self._counted)
        return 1 - would / spent if spent else None

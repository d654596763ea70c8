"""The hand does not trust the head: which sizes may be set, kept beside ``CONFIG SET``."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from sidecar.base.metrics import Metrics
from sidecar.plans.plan_harm import check_ranges
from solver_lambda.documents.observation import Observation
from solver_lambda.documents.units import format_size

log = logging.getLogger(__name__)

Sizes = Mapping[str, int]
# What a plan answers, as we saw it; ``None``: it is this sidecar that wants the sizes, for the
# budget, a neighbour or an operator.
Asked = Observation | None


class ShrinkGuard:
    """Keeps the sizes that were judged last. While others are wanted, of which one is smaller and
    that nobody has judged, the servers have these: so neither a forged plan nor a mistake of our
    own empties a cache.

    Attributes:
        problem: what is held back, for people; ``None``: nothing.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._judged_bytes: dict[str, int] = {}
        self._expected_bytes: Sizes = {}
        self._refused_bytes: Sizes = {}
        self.problem: str | None = None

    def judge(self, sizes_bytes: Sizes, asked: Asked) -> None:
        """Judge sizes before they are wanted.

        Raises:
            PlanRefusedError: one is out of its range.
        """
        if asked is not None:
            check_ranges(sizes_bytes, asked)

    def expect(self, sizes_bytes: Sizes) -> None:
        """Note that they were judged, and may be wanted before they are taken."""
        self._expected_bytes = dict(sizes_bytes)

    def take(self, sizes_bytes: Sizes) -> None:
        """Note that they were judged, and are wanted from now on."""
        self._judged_bytes, self._expected_bytes = dict(sizes_bytes), {}
        self.problem = None

    def rest(self) -> None:
        """Forget what was judged: while nothing is set, any size may be wanted."""
        self._judged_bytes = {}
        self.problem = None

    def held(self, wanted_bytes: Sizes, *, sets_sizes: bool) -> dict[str, int]:
        """Return what is wanted, or what was judged last: then that is logged and counted, once.
        Where nobody ``sets_sizes``, anything may be wanted."""
        judged = self._judged_bytes if sets_sizes else {}
        lowered = [name for name, size in judged.items() if wanted_bytes.get(name, size) < size]
        if not lowered or wanted_bytes == self._expected_bytes:
            return dict(wanted_bytes)
        if wanted_bytes != self._refused_bytes:
            self._refused_bytes = wanted_bytes
            words = ", ".join(
                f"{name} {format_size(wanted_bytes[name])} instead of {format_size(judged[name])}"
                for name in lowered
            )
            self.problem = f"sizes are wanted that were never judged, and are not set: {words}"
            self._metrics.sizes_held_back.inc()
            log.warning("%s", self.problem)
        return dict(judged)

"""When the sum of ``maxmemory`` may be above the budget: the gaps that have a name."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from workloads.experiment.faults.stage.sightings import Span

# For a sidecar to see a size that is not its own, and to cut it: far less than a tenth of that, but
# on a machine with eight times as much to do as it has cores 2.5 s were seen.
GAP_SECONDS = 3.0
# A server that did not answer within its second is asked again half a second later, or more.
SILENT_SECONDS = 3.0


@dataclass
class _Trouble:
    """What keeps the sidecar from doing anything about a server.

    ``felt_seconds``: for so long after it; ``felt_again``: or for so many times as long as it was,
    of what is tried again after ever longer pauses.
    """

    name: str
    since: float
    felt_seconds: float
    felt_again: float
    until: float = math.inf

    @property
    def felt_until(self) -> float:
        """When the sidecar knows at the latest that it is over."""
        if self.until == math.inf:
            return math.inf
        return self.until + max(self.felt_seconds, self.felt_again * (self.until - self.since))


@dataclass
class NamedGaps:
    """Of one stage. Somebody has to bring a larger size (``offend``); what keeps the sidecar from
    dealing with that (``trouble``) makes the gap longer, and is none by itself."""

    _offences: list[tuple[str, float]] = field(default_factory=list)
    _troubles: list[_Trouble] = field(default_factory=list)

    def offend(self, name: str) -> None:
        """Somebody but the sidecar gives a server a size, now."""
        self._offences.append((name, time.monotonic()))

    @property
    def has_offences(self) -> bool:
        """Whether anybody but the sidecar has given a server a size."""
        return bool(self._offences)

    def trouble(self, name: str, felt_seconds: float = 0.0, felt_again: float = 0.0) -> None:
        """It begins, unless it has."""
        if not any(t.name == name and t.until == math.inf for t in self._troubles):
            trouble = _Trouble(name, time.monotonic(), felt_seconds, felt_again)
            self._troubles.append(trouble)

    def end(self, name: str) -> None:
        """It is over, if there was any."""
        for trouble in self._troubles:
            if trouble.name == name and trouble.until == math.inf:
                trouble.until = time.monotonic()

    def excuses(self) -> list[Span]:
        """An offence, until no trouble was there for ``GAP_SECONDS``."""
        return [(since, self._end_of(since)) for _, since in self._offences]

    def names(self) -> list[str]:
        """What there was, in order, each once."""
        found = [*(name for name, _ in self._offences), *(t.name for t in self._troubles)]
        return list(dict.fromkeys(found))

    def _end_of(self, since: float) -> float:
        end = since + GAP_SECONDS
        for trouble in sorted(self._troubles, key=lambda trouble: trouble.since):
            if trouble.since < end and trouble.felt_until > since:
                end = max(end, trouble.felt_until + GAP_SECONDS)
        return end

"""What must hold in a model of a node, looked at with each command that a server carries out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sidecar.servers.transitions import SLACK_BYTES, SLACK_RATIO
from sidecar.servers.unevictable import least_maxmemory_bytes
from workloads.experiment.faults.model.model_server import MIB, ModelServer


@dataclass
class _Known:
    """What the sidecar that runs can know of a server, and nothing else.

    Attributes:
        limit_bytes: the most that may be in force: as last read, or sent to it since; ``None``: it
            has not been read yet.
        used_bytes: as last read; of two readings in one step the lesser, for the sidecar goes by
            what it read when the step began.
        evicts: as last read.
        least_bytes: with less it would refuse writes; of two readings in one step the greater.
    """

    limit_bytes: float | None = None
    used_bytes: int = 0
    evicts: bool = True
    least_bytes: int = 0
    in_step: int = -1


class ModelRules:
    """Notes what was broken; never stops anybody. ``budget_bytes`` is M.

    Attributes:
        broken: in words, in order.
    """

    def __init__(self, servers: Sequence[ModelServer], budget_bytes: int) -> None:
        self.broken: list[str] = []
        self._servers = servers
        self._budget_bytes = budget_bytes
        self._known = {server.name: _Known() for server in servers}
        self._life = self._step = 0
        self._most_bytes = 0.0

    def total_bytes(self) -> float:
        """Of all limits, in truth."""
        return sum(server.limit_bytes for server in self._servers)

    def forget(self) -> None:
        """The sidecar is dead: the next one knows nothing."""
        self._known = {server.name: _Known() for server in self._servers}
        self._life += 1

    @property
    def life(self) -> int:
        """Number of the sidecar, from 0."""
        return self._life

    def seen(
        self,
        name: str,
        limit_bytes: float,
        used_bytes: int,
        unevictable_bytes: int,
        *,
        evicts: bool,
    ) -> None:
        """The sidecar has read this of a server."""
        known = self._known[name]
        least = least_maxmemory_bytes(0, unevictable_bytes)
        if known.in_step == self._step:
            used_bytes = min(used_bytes, known.used_bytes)
            least = max(least, known.least_bytes)
        self._known[name] = _Known(limit_bytes, used_bytes, evicts, least, in_step=self._step)
        if limit_bytes != known.limit_bytes:  # not by the sidecar: from there it may only fall
            self._most_bytes = sum(self._claim(server) for server in self._servers)

    def begin_step(self) -> None:
        """The sidecar begins to read them all."""
        self._step += 1

    def judge(self, server: ModelServer, size_bytes: float) -> None:
        """The sidecar sends it this limit. What may be in force is counted from now on, for the
        server may take it late, or without a word."""
        known = self._known[server.name]
        if known.limit_bytes is None:
            self._break(f"{server.name} was given {_words(size_bytes)}, and had not been read")
        elif size_bytes > known.limit_bytes:
            # Who would refuse writes does not wait for what others hold above their limits.
            claim = self._limit if size_bytes <= known.least_bytes else self._claim
            others = sum(claim(one) for one in self._servers if one is not server)
            if others + size_bytes > max(self._budget_bytes, self._most_bytes):
                self._break(
                    f"{server.name} was given {_words(size_bytes)} instead of "
                    f"{_words(known.limit_bytes)}, beside {_words(others)} of the others"
                )
        elif size_bytes < known.limit_bytes and not server.evicts:
            if server.answered_late and known.evicts:
                return  # it was so when it was looked at; who is slow is not asked once more
            self._break(f"{server.name} does not evict and was cut to {_words(size_bytes)}")

    def sent(self, server: ModelServer, size_bytes: float) -> None:
        """It may take it, at some time."""
        known = self._known[server.name]
        known.limit_bytes = max(size_bytes, known.limit_bytes or 0)

    def took(self, server: ModelServer, size_bytes: float, life: int) -> None:
        """It carries out what a sidecar has sent it, in that life."""
        if life == self._life:
            self._known[server.name].limit_bytes = size_bytes

    def _limit(self, server: ModelServer) -> float:
        return self._known[server.name].limit_bytes or 0

    def _claim(self, server: ModelServer) -> float:
        """What nobody else may be given, as far as the sidecar can know."""
        known = self._known[server.name]
        if known.limit_bytes is None:
            return 0
        limit, held = known.limit_bytes, min(known.used_bytes, server.used_bytes)
        return held if held > limit * (1 + SLACK_RATIO) + SLACK_BYTES else limit

    def _break(self, words: str) -> None:
        self.broken.append(words)


def _words(size_bytes: float) -> str:
    return f"{size_bytes / MIB:.3f} MiB"

"""What a stage without servers asks of a sidecar, from its start to its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from workloads.experiment.faults.model.model_line import ModelLine


class Sidecar(Protocol):
    """One life of it, one step at a time.

    Attributes:
        is_settled: it only keeps what there is.
    """

    @property
    def is_settled(self) -> bool: ...

    def begin(self) -> None:
        """Look at the servers, and keep their sizes from now on, if that can be had."""

    def plan(self, sizes_bytes: Mapping[str, int]) -> None:
        """Bring the servers there, if that can be had."""

    def step(self) -> None:
        """What it does in one round."""

    def try_again(self) -> None:
        """To keep sizes, where that could not be had."""

    def terminate(self) -> None:
        """As after SIGTERM."""


# Called for each life of the sidecar; what is on file, the function remembers.
MakeSidecar = Callable[[Sequence[ModelLine]], Sidecar]

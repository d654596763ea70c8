"""Says what a controller is: it answers observations with plans."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

from sidecar.controllers.planner_outage import PlannerOutage
from solver_lambda.documents.observation import Observation

log = logging.getLogger(__name__)

# Told of an observation that gets no plan, and why, for people.
Failed = Callable[[Observation, str], None]


class Controller(Protocol):
    """Answers observations with plans, sooner or later. No method blocks for long.

    Attributes:
        delivery: of plans from elsewhere, if there is one.
        silence: that lasts where they should come from; ``None``: none, or nobody was asked yet.
        problem: with the plans that come from there, for people; ``None``: none.
    """

    @property
    def delivery(self) -> Delivery | None: ...

    @property
    def silence(self) -> PlannerOutage | None: ...

    @property
    def problem(self) -> str | None: ...

    def start(self) -> None:
        """Begin to take plans."""

    def ask(self, observation: Observation) -> None:
        """Ask for a plan; it comes through the ``take_plan`` that the controller was made with."""

    def overdue(self, observation: Observation) -> None:
        """The plan for it has not come in time."""

    def close(self) -> None:
        """Take no more plans."""


class Delivery(Protocol):
    """Brings notifications to the inbox."""

    def start(self) -> None: ...

    def expect(self, key: str) -> None:
        """An observation is on its way; its plan will come under ``key``."""

    def problem(self) -> str | None:
        """Say what may keep plans out now, for people."""

    def close(self) -> None: ...


def log_failure(future: Future[None]) -> None:
    """Log what went wrong in a controller's worker; called when its job has ended."""
    error = future.exception() if not future.cancelled() else None
    if error is not None:
        log.error("an observation was lost: %r", error, exc_info=error)

"""The sizes when the budget has fallen, and when resident memory gives back what it took of it."""

from __future__ import annotations

from collections.abc import Sequence

from sidecar.base.metrics import Metrics
from sidecar.config.node import ServerConfig
from sidecar.servers.budget_fit import fitted_sizes, fitted_to_budget, is_about
from sidecar.servers.memory_budget import MemoryBudget
from sidecar.servers.shrink_guard import Sizes
from sidecar.state.sidecar_state import SidecarState

# The one reason that does not pass: what came of a plan cannot be told from what comes of it.
BUDGET_FELL = "the budget fell"
BUDGET_IS_BACK = "resident memory leaves room again"


class FallenBudget:
    """Of one node, over time.

    What an operator, or the machine, takes and gives is for the next plan to divide. What resident
    memory took, as clients' buffers do in a moment, goes back to those who had it.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        # Planned before resident memory lowered the budget; and the budget then, or last.
        self._before: Sizes = {}
        self._budget_bytes = 0

    def forget(self) -> None:
        """Other sizes are planned, by a plan or an order."""
        self._before = {}

    def sizes(
        self,
        servers: Sequence[ServerConfig],
        state: SidecarState,
        sizes_bytes: Sizes,
        fixed_bytes: Sizes,
        budget: MemoryBudget,
        least_bytes: Sizes,
    ) -> tuple[Sizes, Sizes, str] | None:
        """The sizes to plan, those to have at once, and why; ``None``: they stay."""
        planned = state.targets_bytes
        wanted, own = (planned, sizes_bytes), state.without_needs
        fitted = fitted_to_budget(
            servers, wanted, own, fixed_bytes, budget.bytes, least_bytes, self._metrics
        )
        if fitted is not None:
            self._budget_bytes = budget.bytes
            is_by_memory = budget.source == "rss"
            self._before = (self._before or own or planned) if is_by_memory else {}
            return *fitted, BUDGET_FELL
        if not self._before or budget.bytes <= self._budget_bytes:
            return None
        self._budget_bytes = budget.bytes
        again = fitted_sizes(servers, self._before, fixed_bytes, budget.bytes, least_bytes)
        if is_about(again, self._before):
            self._before = {}
        return None if is_about(again, planned) else (again, sizes_bytes, BUDGET_IS_BACK)

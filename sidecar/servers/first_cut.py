"""Before any size is set: a budget that is a share of the wrong memory must not empty caches.

A sidecar in a cgroup of its own reads that cgroup's limit, wherever the servers are.
"""

from __future__ import annotations

from collections.abc import Mapping

from sidecar.base.machine_memory import own_cgroups
from sidecar.servers.memory_budget import MemoryBudget
from sidecar.servers.server_reading import ServerReading
from solver_lambda.documents.reader import DocumentError
from solver_lambda.documents.units import format_size

MOST_CUT_RATIO = 0.1


def check_first_cut(budget: MemoryBudget, readings: Mapping[str, ServerReading]) -> None:
    """Before the servers are taken over.

    Raises:
        DocumentError: a budget that is a share, of a memory that nobody named, would take more than
            a tenth of what they use.
    """
    used_bytes = sum(reading.counted_bytes for reading in readings.values())
    if not budget.is_guessed or budget.ceiling_bytes >= (1 - MOST_CUT_RATIO) * used_bytes:
        return
    where = "the machine's memory"
    if budget.source == "cgroup":
        where = f"what the sidecar's own cgroup has ({', '.join(map(str, own_cgroups()))})"
    size = format_size(budget.ceiling_bytes)
    raise DocumentError(
        f"memory.budget {budget.configured} is {size}, of {where}, and the servers use "
        f"{format_size(used_bytes)}: more than a tenth of that would be evicted at once; if that "
        f'is meant, write budget = "{size.replace(" ", "")}", and if the servers are elsewhere, '
        "name their memory.cgroup"
    )

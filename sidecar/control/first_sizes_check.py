"""Checks before sizes are set for the first time: what is not known yet empties no cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sidecar.base.machine_memory import own_cgroups
from sidecar.config.node import ServerConfig
from sidecar.servers.actuator import Actuator
from sidecar.servers.connection.server_reading import ServerReading
from solver_lambda.documents.reader import DocumentError
from solver_lambda.documents.units import format_size

# A sidecar in a cgroup of its own reads that cgroup's limit, wherever the servers are. A server
# that is busy as it is asked for the first time may have any size.
MOST_CUT_RATIO = 0.1


def check_first_sizes(
    actuator: Actuator, readings: Mapping[str, ServerReading], *, is_saved: bool
) -> None:
    """Check before any size is set: no cache is to be emptied by what is not known yet.

    Raises:
        DocumentError: a budget that is a share, of a memory that nobody named, would take more than
            a tenth of what they use; or several have not answered yet. What one of them has may be
            what the others leave. Or what they have is not on file (``is_saved``).
    """
    if not is_saved:
        raise DocumentError(
            "the state file cannot be written, and nobody would know after a restart what the "
            "servers had before"
        )
    budget, unknown = actuator.budget, actuator.unknown()
    if len(unknown) > 1:
        raise DocumentError(
            f"{', '.join(unknown)} have not answered yet, and any size might take keys from them: "
            "wait for them, or take out of the node's file those that are not there any more"
        )
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


def unread_sizes(
    servers: Sequence[ServerConfig], found_bytes: Mapping[str, int], budget_bytes: int
) -> dict[str, int]:
    """Return sizes of those that were never read: equal parts of what is left beside the sizes that
    were found. There are none where that is too little for their minima, or where one has no
    limit."""
    unread = [server for server in servers if server.name not in found_bytes]
    if not unread or not all(found_bytes.values()):
        return {}
    part_bytes = (budget_bytes - sum(found_bytes.values())) // len(unread)
    if part_bytes < max(1, *(server.minimum_bytes for server in unread)):
        return {}
    return {server.name: part_bytes for server in unread}

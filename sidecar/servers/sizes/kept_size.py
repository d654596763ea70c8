"""Tells why a server cannot be given another size now, in an observation's words."""

from __future__ import annotations

from sidecar.servers.connection.server_reading import ServerReading
from sidecar.servers.sizes.transitions import ServerState
from solver_lambda.documents.units import format_size


def why_kept(
    state: ServerState, last: ServerReading | None, taken_by: str | None, refused: str | None
) -> str | None:
    """Say why it keeps its size; ``None``: it need not. ``taken_by``, ``refused``: whose it is, and
    why it takes no other size."""
    if taken_by:
        return f"taken: {taken_by}"
    if refused is not None:
        return f"refuses: {refused}"
    if state.held:
        size = format_size(state.maxmemory_bytes)
        return f"held: somebody set it to {size} by hand; 'spreds resume' gives it back"
    if not state.stuck:
        return None
    # Of what frees nothing, less may count for the others.
    held = format_size(max(state.held_bytes, last.counted_bytes if last else 0))
    return f"stuck: it holds {held}, more than its maxmemory, and frees nothing"

"""Whether clients take work from a server: then what it holds is no copy of what a backend has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sidecar.servers.figures import Figures

# They take an element for good, or for one consumer. Who caches lists reads them, and leaves them.
_TAKING = (
    *("blmove", "blmpop", "blpop", "brpop", "brpoplpush", "bzmpop", "bzpopmax", "bzpopmin"),
    *("lmove", "lmpop", "lpop", "rpop", "rpoplpush"),
    *("xreadgroup", "xack", "xautoclaim", "xclaim", "xgroup|create"),
)


def taking_commands(info: Mapping[str, Any], odd: set[str]) -> tuple[str, ...]:
    """Those of ``INFO commandstats`` by which clients took work from the server.

    None, if it has evicted keys already: then nobody relies on what it holds.
    """
    if Figures(info, odd).get("evicted_keys"):
        return ()
    stats = {name: info.get(f"cmdstat_{name}") for name in _TAKING}
    return tuple(
        name
        for name, said in stats.items()
        if isinstance(said, Mapping) and Figures(said, odd).get("calls")
    )

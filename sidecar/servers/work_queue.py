"""Whether clients take work from a server: then what it holds is no copy of what a backend has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sidecar.servers.figures import Figures
from sidecar.servers.refused_writes import growing_writes

# They take an element for good, or for one consumer. Who caches lists reads them, and leaves them.
_TAKING = (
    *("blmove", "blmpop", "blpop", "brpop", "brpoplpush", "bzmpop", "bzpopmax", "bzpopmin"),
    *("lmove", "lmpop", "lpop", "rpop", "rpoplpush", "spop", "zmpop", "zpopmax", "zpopmin"),
    *("xreadgroup", "xack", "xautoclaim", "xclaim", "xgroup|create", "xdel"),
    # What is due later waits in a sorted set, and its payload in a key of its own.
    *("zrem", "zremrangebyscore", "zremrangebyrank", "getdel"),
)


def work_of(info: Mapping[str, Any], odd: set[str]) -> dict[str, Any]:
    """By which commands of ``INFO commandstats`` clients took work from the server, how many
    keys it has evicted, and its writes, by their names in a reading.

    None took it from one that has evicted: then nobody relies on what it holds.
    """
    evicted_keys = Figures(info, odd).get("evicted_keys")
    stats = {name: info.get(f"cmdstat_{name}") for name in _TAKING}
    taking = (
        name
        for name, said in stats.items()
        if isinstance(said, Mapping) and Figures(said, odd).get("calls")
    )
    return {
        "taking_commands": () if evicted_keys else tuple(taking),
        "evicted_keys": evicted_keys,
        **growing_writes(info, odd),
    }

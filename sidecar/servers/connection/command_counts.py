"""Tells what a server's counts of commands say of it.

It tells whether clients take work from the server: then what it holds is no copy of what a backend
has. It also counts the writes that make it larger, and those that it refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sidecar.servers.connection.info_figures import Figures

# Caches are written mostly by these. A server without free memory refuses them, but no reads.
_GROWING = (
    *("set", "setex", "psetex", "setnx", "mset", "msetnx", "getset", "append", "setrange"),
    *("incr", "incrby", "incrbyfloat", "decr", "decrby", "restore", "copy", "setbit"),
    *("hset", "hmset", "hsetnx", "hincrby", "hincrbyfloat", "lpush", "rpush", "linsert"),
    *("sadd", "zadd", "zincrby", "xadd", "pfadd", "geoadd"),
)


def growing_writes(info: Mapping[str, Any], odd: set[str]) -> dict[str, int]:
    """Count writes in ``INFO commandstats``, those carried out and those refused for any reason, by
    their names in a reading. Names of figures that make no sense are added to ``odd``. What a
    script tried to write is not among the refused ones."""
    stats = (info.get(f"cmdstat_{name}") for name in _GROWING)
    found = [Figures(said, odd) for said in stats if isinstance(said, Mapping)]
    return {
        "writes": sum(one.get("calls") for one in found),
        "refused_writes": sum(one.get("rejected_calls") for one in found),
    }


# They take an element for good, or for one consumer. Clients that cache lists read and leave them.
_TAKING = (
    *("blmove", "blmpop", "blpop", "brpop", "brpoplpush", "bzmpop", "bzpopmax", "bzpopmin"),
    *("lmove", "lmpop", "lpop", "rpop", "rpoplpush", "spop", "zmpop", "zpopmax", "zpopmin"),
    *("xreadgroup", "xack", "xautoclaim", "xclaim", "xgroup|create", "xdel"),
    # Work that is due later waits in a sorted set, and its payload in a key of its own.
    *("zrem", "zremrangebyscore", "zremrangebyrank", "getdel"),
)


def work_of(info: Mapping[str, Any], odd: set[str]) -> dict[str, Any]:
    """Return the commands by which clients took work from the server, the keys it evicted, and its
    writes, by their names in a reading.

    No command is named if it has evicted: then nobody relies on what it holds.
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

"""How many writes a server was sent that make it larger, and how many of them it refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sidecar.servers.figures import Figures

# Most of what caches are written by. Whoever has no memory left refuses them, and no reads.
_GROWING = (
    *("set", "setex", "psetex", "setnx", "mset", "msetnx", "getset", "append", "setrange"),
    *("incr", "incrby", "incrbyfloat", "decr", "decrby", "restore", "copy", "setbit"),
    *("hset", "hmset", "hsetnx", "hincrby", "hincrbyfloat", "lpush", "rpush", "linsert"),
    *("sadd", "zadd", "zincrby", "xadd", "pfadd", "geoadd"),
)


def growing_writes(info: Mapping[str, Any], odd: set[str]) -> dict[str, int]:
    """By ``INFO commandstats``, by their names in a reading: those that were carried out, and those
    that were refused, whatever for; names of figures that make no sense are added to ``odd``. What
    a script tried to is not among those that were refused."""
    stats = (info.get(f"cmdstat_{name}") for name in _GROWING)
    found = [Figures(said, odd) for said in stats if isinstance(said, Mapping)]
    return {
        "writes": sum(one.get("calls") for one in found),
        "refused_writes": sum(one.get("rejected_calls") for one in found),
    }

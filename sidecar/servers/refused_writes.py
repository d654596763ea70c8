"""How many writes a server refused that would have made it larger."""

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


def refused_writes(info: Mapping[str, Any], odd: set[str]) -> int:
    """By ``INFO commandstats``, whatever it refused them for; names of figures that make no sense
    are added to ``odd``. What a script tried is not among them."""
    stats = (info.get(f"cmdstat_{name}") for name in _GROWING)
    return sum(
        Figures(said, odd).get("rejected_calls") for said in stats if isinstance(said, Mapping)
    )

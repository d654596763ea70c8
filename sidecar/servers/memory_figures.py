"""What a server's memory is made of, by what it says in ``INFO`` and ``CONFIG GET``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sidecar.servers.figures import Figures, number_of

# used_memory holds these beside the keys (src/object.c, getMemoryOverheadData, Redis 7.0).
_BESIDE_KEYS = (
    "used_memory_startup",
    "mem_clients_normal",
    "mem_clients_slaves",
    "mem_replication_backlog",
    "mem_cluster_links",
    "mem_aof_buffer",
    "used_memory_scripts_eval",
    "used_memory_functions",
)
# One latency histogram for each command that was called (call() in src/server.c: hdr_init with 1 to
# 1e9 ns, 2 digits), which INFO puts down to nothing. The same in Redis 7.0 and 8.0 and Valkey 8.1.
LATENCY_HISTOGRAM_BYTES = 24_688
# From Redis 7.4 on used_memory has what Lua's machines take, which swings with their garbage;
# used_memory_startup has them as they were then (the same in Redis 8.0 and 8.2). Valkey gives
# itself out as Redis 7.2 and does not count them.
_LUA_COUNTED_FROM = (7, 4)
LUA_STARTUP_BYTES = 71_680


def memory_of(
    info: Mapping[str, Any],
    config: Mapping[str, str],
    odd: set[str],
    kept_of_keys: tuple[int, int],
    tables_bytes: int,
) -> dict[str, Any]:
    """Those attributes of a ``ServerReading`` that are parts of ``used_memory``.

    ``kept_of_keys``: how many no eviction frees, and how many there are. Where there is none, and
    none is being freed, no eviction frees anything, whatever it is.

    Raises:
        ValueError: ``used_memory`` is missing, or no number.
    """
    used, said = number_of(info, "used_memory"), Figures(info, odd)
    not_counted = said.get("mem_not_counted_for_evict")
    if not_counted > used:
        odd.add("mem_not_counted_for_evict")
        not_counted = 0
    counted = used - not_counted
    baseline = max(0, _beside_keys(info, config, odd) - not_counted)
    kept, keys = kept_of_keys
    is_empty = not keys and not said.get("lazyfree_pending_objects")
    share = (1, 1) if is_empty else (kept, max(1, keys))
    unevictable = baseline + tables_bytes + max(0, counted - baseline) * share[0] // share[1]
    return {
        "counted_bytes": counted,
        "clients_bytes": min(counted, said.get("mem_clients_normal")),
        "baseline_bytes": baseline,
        "unevictable_bytes": max(unevictable, _needed_by_clients(info, config, odd)),
        "not_counted_bytes": not_counted,
    }


def _beside_keys(info: Mapping[str, Any], config: Mapping[str, str], odd: set[str]) -> int:
    said = Figures(info, odd)
    beside = sum(said.get(key) for key in _BESIDE_KEYS)
    if _counts_lua(info):
        beside += max(0, said.get("used_memory_vm_total") - LUA_STARTUP_BYTES)
    if config.get("latency-tracking", "yes") == "yes":
        beside += LATENCY_HISTOGRAM_BYTES * sum(
            int(Figures(value, odd).get("calls") > 0)
            for key, value in info.items()
            if key.startswith("cmdstat_") and isinstance(value, Mapping)
        )
    return beside


def _counts_lua(info: Mapping[str, Any]) -> bool:
    parts = str(info.get("redis_version", "")).split(".")[:2]
    return all(map(str.isdecimal, parts)) and tuple(map(int, parts)) >= _LUA_COUNTED_FROM


def _needed_by_clients(info: Mapping[str, Any], config: Mapping[str, str], odd: set[str]) -> int:
    """Below this ``maxmemory`` the server disconnects clients that it has now; 0 if it does not
    go by that (``maxmemory-clients`` is not a percentage)."""
    most = str(config.get("maxmemory-clients", "0"))
    if not most.endswith("%"):
        return 0
    percent = Figures({"maxmemory-clients": most.removesuffix("%")}, odd).get("maxmemory-clients")
    return Figures(info, odd).get("mem_clients_normal") * 100 // max(1, percent)

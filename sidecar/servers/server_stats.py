"""What a server says about itself, in ``INFO`` and ``CONFIG GET``, reduced to what we use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
_NOT_COUNTED = "mem_not_counted_for_evict"


@dataclass(frozen=True)
class ServerStats:
    """One reading of a server.

    Attributes:
        run_id, instance: of the process; ``instance`` is the number in the samples' header.
        role: ``master`` or ``slave``.
        maxmemory_bytes: 0 is unlimited.
        used_memory_bytes: what counts for ``maxmemory``, see ``counted_memory_bytes``.
        baseline_bytes: of it, what is not keys.
        usual_baseline_bytes, baseline_swing_bytes: mean of that over a window, ``None`` if this
            reading is all there is, and how far above it went; clients' buffers come and go.
        average_ttl_seconds: mean time to live that is left, of keys with a TTL; 0 if unknown.
        keyspace_hits, keyspace_misses: since start or ``RESETSTAT``.
        at_seconds: Unix time of the reading.
    """

    run_id: str
    instance: int
    role: str
    maxmemory_bytes: int
    maxmemory_policy: str
    maxmemory_samples: int
    lfu_log_factor: int
    lfu_decay_time_minutes: int
    used_memory_bytes: int
    baseline_bytes: int
    rss_bytes: int
    keyspace_hits: int
    keyspace_misses: int
    keys: int
    keys_with_ttl: int
    average_ttl_seconds: float
    at_seconds: float
    usual_baseline_bytes: int | None = None
    baseline_swing_bytes: int = 0

    @classmethod
    def from_info(
        cls, info: Mapping[str, Any], config: Mapping[str, Any], at_seconds: float
    ) -> ServerStats:
        """From redis-py's ``info("default", "commandstats")`` and ``config_get()``.

        Of ``config``, the keys ``maxmemory-samples``, ``lfu-log-factor``, ``lfu-decay-time`` and
        ``latency-tracking`` are used; Redis' defaults stand in where a key is missing.

        Raises:
            ValueError: ``info`` lacks a field, which it names, or the field is no number.
        """

        def number(key: str) -> int:
            return _number(info, key, None)

        run_id = str(info.get("run_id", ""))
        try:
            instance = int(run_id[:16], 16)
        except ValueError:
            raise ValueError(f"INFO: run_id is {run_id!r}, no hexadecimal number") from None
        databases = _databases(info)
        keys, with_ttl = count_keys(info)
        ttl_sum = sum(int(db.get("expires", 0)) * int(db.get("avg_ttl", 0)) for db in databases)
        return cls(
            run_id=run_id,
            instance=instance,
            role=str(info.get("role", "master")),
            maxmemory_bytes=number("maxmemory"),
            maxmemory_policy=str(info.get("maxmemory_policy", "noeviction")),
            maxmemory_samples=_number(config, "maxmemory-samples", 5),
            lfu_log_factor=_number(config, "lfu-log-factor", 10),
            lfu_decay_time_minutes=_number(config, "lfu-decay-time", 1),
            used_memory_bytes=counted_memory_bytes(info),
            baseline_bytes=baseline_bytes(info, config),
            rss_bytes=_number(info, "used_memory_rss", 0),
            keyspace_hits=number("keyspace_hits"),
            keyspace_misses=number("keyspace_misses"),
            keys=keys,
            keys_with_ttl=with_ttl,
            average_ttl_seconds=ttl_sum / with_ttl / 1000 if with_ttl else 0.0,
            at_seconds=at_seconds,
        )


def counted_memory_bytes(info: Mapping[str, Any]) -> int:
    """Of ``used_memory``, what the server compares with ``maxmemory``: buffers of replicas and of
    the append-only file, which may grow to any size, are not evicted for.

    Raises:
        ValueError: as ``ServerStats.from_info``.
    """
    return _number(info, "used_memory", None) - _number(info, _NOT_COUNTED, 0)


def baseline_bytes(info: Mapping[str, Any], config: Mapping[str, Any]) -> int:
    """Of ``counted_memory_bytes``, what is not keys. Raises as that."""
    beside = sum(_number(info, key, 0) for key in _BESIDE_KEYS)
    if config.get("latency-tracking", "yes") == "yes":
        beside += LATENCY_HISTOGRAM_BYTES * sum(
            int(value["calls"] > 0)
            for key, value in info.items()
            if key.startswith("cmdstat_") and isinstance(value, Mapping)
        )
    return max(0, beside - _number(info, _NOT_COUNTED, 0))


def unevictable_bytes(info: Mapping[str, Any], config: Mapping[str, Any], policy: str) -> int:
    """Of ``counted_memory_bytes``, what no eviction frees: the baseline and, under ``volatile-*``,
    the keys without a TTL, as if all keys weighed the same; or more, if clients are only allowed a
    part of ``maxmemory``, and need more of it for what they have. Raises as that."""
    baseline = baseline_bytes(info, config)
    keys, with_ttl = count_keys(info)
    if policy.startswith("volatile-") and keys:
        of_keys = max(0, counted_memory_bytes(info) - baseline)
        baseline += of_keys * (keys - with_ttl) // keys
    return max(baseline, _bytes_for_clients(info, config))


def _bytes_for_clients(info: Mapping[str, Any], config: Mapping[str, Any]) -> int:
    """Below this ``maxmemory`` the server disconnects clients that it has now; 0 if it does not
    go by that (``maxmemory-clients`` is not a percentage)."""
    most = str(config.get("maxmemory-clients", "0"))
    if not most.endswith("%"):
        return 0
    return _number(info, "mem_clients_normal", 0) * 100 // max(1, int(most.removesuffix("%")))


def count_keys(info: Mapping[str, Any]) -> tuple[int, int]:
    """All keys, and those with a TTL."""
    databases = _databases(info)
    return (
        sum(int(db.get("keys", 0)) for db in databases),
        sum(int(db.get("expires", 0)) for db in databases),
    )


def _databases(info: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [v for k, v in info.items() if k.startswith("db") and isinstance(v, Mapping)]


def _number(table: Mapping[str, Any], key: str, default: int | None) -> int:
    value = table.get(key, default)
    try:
        return int(str(value))
    except (TypeError, ValueError):
        raise ValueError(f"the server's {key} is {value!r}, no whole number") from None

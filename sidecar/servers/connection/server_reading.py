"""Reads what a server says of itself at one time, in ``INFO`` and ``CONFIG GET``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sidecar.base.machine_memory import machine_memory_bytes
from sidecar.base.plain_text import plain
from sidecar.servers.connection.command_counts import work_of
from sidecar.servers.connection.info_figures import Figures, figure_of, keys_of, number_of
from sidecar.servers.connection.unevictable import is_too_small, least_maxmemory_bytes
from solver_lambda.documents.reader import MOST_BYTES, shown

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
# From Redis 7.4 on used_memory counts Lua's machines, and swings with their garbage.
# used_memory_startup has them as they were at the start (the same in Redis 8.0 and 8.2). Valkey
# gives itself out as Redis 7.2 and does not count them.
_LUA_COUNTED_FROM = (7, 4)
LUA_STARTUP_BYTES = 71_680


def memory_of(
    info: Mapping[str, Any],
    config: Mapping[str, str],
    odd: set[str],
    kept_of_keys: tuple[int, int],
    tables_bytes: int,
) -> dict[str, Any]:
    """Return the attributes of a ``ServerReading`` that are parts of ``used_memory``.

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
    """Return the ``maxmemory`` below which the server disconnects clients that it has now. 0: it
    does not go by that (``maxmemory-clients`` is not a percentage)."""
    most = str(config.get("maxmemory-clients", "0"))
    if not most.endswith("%"):
        return 0
    percent = Figures({"maxmemory-clients": most.removesuffix("%")}, odd).get("maxmemory-clients")
    return Figures(info, odd).get("mem_clients_normal") * 100 // max(1, percent)


# Sections of INFO, never errorstats. Clients decide what lines it has, how many, and whether there
# are any; and a server may take seconds for them.
INFO_SECTIONS = (
    "server",
    "memory",
    "persistence",
    "stats",
    "replication",
    "keyspace",
    "commandstats",
)
TENACITY = "maxmemory-eviction-tenacity"
# The last fork to save, the last one to rewrite the append-only file, and one under way copied
# these. A fork to synchronise a replica counts as one to save.
_COPIED = ("rdb_last_cow_size", "aof_last_cow_size", "current_cow_size")
_MOST_ALLOCATOR = 64
# Redis' own bound of `maxmemory-samples`, and ours: more than so many differ hardly, and each is
# looked at in every simulated cache.
_MOST_INT, _MOST_SAMPLES = 2**31 - 1, 64
_MOST_SETTING = 4096
# Later servers may have other policies; none has other letters.
_POLICY = re.compile(r"[a-z][a-z-]{0,31}")
_ROLE = re.compile(r"master|slave")
_REPLICA, _MOST_REPLICAS, _MOST_ADDRESS = re.compile(r"slave\d{1,4}"), 32, 300
_WRAPPED = re.compile(r"-[0-9]{1,19}")
_RUN_ID = re.compile(r"[0-9a-f]{40}")
# The patch's knobs and the module's.
SAMPLER_PREFIXES = ("spreds-", "spreds.")
_SAMPLER_KNOBS = ("endpoint", "modulus", "secret", "threshold")
# Asked by name: a server compares a pattern with each setting (measured: .12 ms instead of .01).
READ_SETTINGS = (
    "active-defrag-cycle-us",
    "active-defrag-ignore-bytes",
    "activedefrag",
    "enable-protected-configs",
    "hz",
    "latency-tracking",
    "lfu-decay-time",
    "lfu-log-factor",
    "maxmemory-clients",
    "maxmemory-eviction-tenacity",
    "maxmemory-samples",
    "replica-ignore-maxmemory",
    "tcp-backlog",
    *(f"{prefix}{knob}" for prefix in SAMPLER_PREFIXES for knob in _SAMPLER_KNOBS),
)


@dataclass(frozen=True)
class ServerReading:
    """Has one reading of a server.

    Attributes:
        run_id, instance: of the process; ``instance`` is the number in the samples' header.
        role: ``master`` or ``slave``.
        maxmemory_bytes: 0 is unlimited.
        counted_bytes: of ``used_memory``, what the server compares with ``maxmemory``: not the
            buffers of replicas and of the append-only file, which it does not evict for.
        clients_bytes: of ``counted_bytes``, what clients' connections and buffers take.
        baseline_bytes: of ``counted_bytes``, what is not keys.
        unevictable_bytes: of ``counted_bytes``, what no eviction frees. That is all if there is no
            key; or the baseline, hash tables that it does not make smaller and, under
            ``volatile-*``, the keys without a TTL (as if all keys weighed alike); or more, if
            clients may only have a part of ``maxmemory``, and need more for what they have.
        average_ttl_seconds: mean time to live that is left, of keys with a TTL; 0 if unknown.
        keyspace_hits, keyspace_misses: since start or ``RESETSTAT``.
        at_seconds: Unix time of the reading.
        config: what ``CONFIG GET`` said, as far as it is plain text.
        process_id: where it runs; 0 if it does not say.
        allocator: of its memory, as it says.
        not_counted_bytes: of ``used_memory``, what ``counted_bytes`` leaves out.
        freeing_objects: that are gone, and whose memory is still being given back.
        copied_bytes: the most that pages took which were copied on write. It counts the last forks,
            to save or to synchronise a replica, and one that is under way.
        unyielding_bytes: of ``unevictable_bytes``, what keys that went did not bring back.
        taking_commands: by which clients took work from one that is no cache, see ``work_of``.
        evicted_keys, writes, refused_writes: since its counters began; of writes such as make it
            larger, carried out and refused, whatever for.
        uptime_seconds: of the process.
        replicas: their addresses, as far as the server knows them.
        replication_id: that a primary and its replicas have in common; empty where none is told.
        odd_figures: names of those that make no sense, for which a default stands in.
        is_looked_at: its keys are followed from outside, in place of a sampler.
        look_refused: why that does not go, for people; empty: it does, as far as is known.
        look_cost_ratio: of a core of the server, for that.
    """

    run_id: str
    instance: int
    role: str
    maxmemory_bytes: int
    maxmemory_policy: str
    maxmemory_samples: int
    lfu_log_factor: int
    lfu_decay_time_minutes: int
    counted_bytes: int
    baseline_bytes: int
    unevictable_bytes: int
    rss_bytes: int
    keyspace_hits: int
    keyspace_misses: int
    keys: int
    keys_with_ttl: int
    average_ttl_seconds: float
    at_seconds: float
    config: Mapping[str, str] = field(default_factory=dict)
    process_id: int = 0
    allocator: str = ""
    clients_bytes: int = 0
    not_counted_bytes: int = 0
    freeing_objects: int = 0
    copied_bytes: int = 0
    unyielding_bytes: int = 0
    seems_unyielding: bool = False
    taking_commands: tuple[str, ...] = ()
    evicted_keys: int = 0
    writes: int = 0
    refused_writes: int = 0
    uptime_seconds: int = 0
    replicas: tuple[str, ...] = ()
    replication_id: str = ""
    odd_figures: tuple[str, ...] = ()
    is_looked_at: bool = False
    look_refused: str = ""
    look_cost_ratio: float = 0.0

    @classmethod
    def parse(
        cls,
        info: Mapping[str, Any],
        config: Mapping[str, str],
        at_seconds: float,
        tables_bytes: int = 0,
    ) -> ServerReading:
        """Make a reading of redis-py's ``info()`` and ``config_get()``.

        Redis' defaults stand in for what ``config`` lacks, and for figures that make no sense, as
        those of a counter that overflowed. ``tables_bytes``: of hash tables.

        Raises:
            ValueError: what it cannot be controlled without is missing or makes no sense, by name.
        """
        _check_tables(info, config)
        odd: set[str] = set()
        said, set_to = Figures(info, odd), Figures(config, odd)
        keys, with_ttl, ttl_seconds = keys_of(info, odd)
        policy = _word(info, "maxmemory_policy", "noeviction", _POLICY)
        kept = keys - with_ttl if policy.startswith("volatile-") else 0
        set_to.get(TENACITY)
        return cls(
            run_id=(run_id := _word(info, "run_id", "", _RUN_ID)),
            allocator=plain(str(info.get("mem_allocator", "")))[:_MOST_ALLOCATOR],
            instance=int(run_id[:16], 16),
            role=_word(info, "role", "master", _ROLE),
            maxmemory_bytes=_maxmemory(info),
            maxmemory_policy=policy,
            maxmemory_samples=_samples(set_to),
            lfu_log_factor=set_to.get("lfu-log-factor", 10),
            lfu_decay_time_minutes=set_to.get("lfu-decay-time", 1),
            **memory_of(info, config, odd, (kept, keys), tables_bytes),
            rss_bytes=said.get("used_memory_rss", said.get("used_memory"), machine_memory_bytes()),
            keyspace_hits=said.get("keyspace_hits"),
            keyspace_misses=said.get("keyspace_misses"),
            keys=keys,
            keys_with_ttl=with_ttl,
            average_ttl_seconds=ttl_seconds,
            at_seconds=at_seconds,
            config={key: text for key, text in config.items() if _is_plain(text)},
            process_id=said.get("process_id"),
            freeing_objects=said.get("lazyfree_pending_objects"),
            copied_bytes=max(said.get(key) for key in _COPIED),
            **work_of(info, odd),
            uptime_seconds=said.get("uptime_in_seconds"),
            **_replication(info),
            odd_figures=tuple(sorted(odd)),
        )

    @property
    def size_bytes(self) -> int:
        """Return ``maxmemory``, or what it uses if it has none."""
        return self.maxmemory_bytes or self.counted_bytes

    @property
    def tenacity(self) -> int:
        """Return how long the server may evict before it serves the next command, 0 to 100."""
        return min(100, figure_of(self.config, TENACITY, 10))

    @property
    def sampler_prefix(self) -> str | None:
        """Return the prefix of the sampler's knobs: ``spreds-`` (patch), ``spreds.`` (module) or
        ``None``, also for one that is too old."""
        for prefix in SAMPLER_PREFIXES:
            if {f"{prefix}endpoint", f"{prefix}secret"} <= self.config.keys():
                return prefix
        return None

    @property
    def has_old_sampler(self) -> bool:
        """Whether it has one that cannot show a secret, so that its samples are not believed."""
        has_one = any(f"{prefix}endpoint" in self.config for prefix in SAMPLER_PREFIXES)
        return has_one and self.sampler_prefix is None

    @property
    def ignores_maxmemory(self) -> bool:
        """Whether it is a replica that, as by default, takes what its primary sends."""
        return self.role == "slave" and self.config.get("replica-ignore-maxmemory", "yes") == "yes"

    @property
    def evicts(self) -> bool:
        """Whether a full server makes room."""
        return self.why_no_eviction is None

    @property
    def why_no_eviction(self) -> str | None:
        """Say why it evicts nothing; ``None`` if it does. Where only keys with a TTL are evicted
        and none has one, two kinds of servers have ``None`` as well. One that refuses writes must
        not keep its size; one with room for twice what it holds need not."""
        if self.role == "slave":
            return "a replica"
        if self.maxmemory_policy == "noeviction":
            return "noeviction"
        if self.taking_commands and not self.maxmemory_policy.startswith("volatile-"):
            return (
                f"clients take work from it by {self.taking_commands[0].upper()}, and it had "
                "evicted no key: 'cache = true' says that it may"
            )
        if self.keys_with_ttl or not self.keys or not self.maxmemory_policy.startswith("volatile-"):
            return None
        if is_too_small(self.maxmemory_bytes, self.unevictable_bytes):
            return None
        if least_maxmemory_bytes(0, 2 * self.unevictable_bytes) <= self.maxmemory_bytes:
            return None
        return f"{self.maxmemory_policy}, and no key has a TTL"

    def keep_reason(self) -> str | None:
        """Say why it must keep its size, in an observation's words."""
        if self.why_no_eviction is None:
            return None
        if self.taking_commands or self.role == "slave":
            return f"no_eviction: {self.why_no_eviction}"
        return f"no_eviction: {self.why_no_eviction}; a smaller maxmemory would make writes fail"


def _check_tables(*replies: object) -> None:
    if not all(isinstance(reply, Mapping) for reply in replies):
        raise ValueError("the server's answer to INFO or CONFIG GET is no table")


def _is_plain(text: object) -> bool:
    return isinstance(text, str) and len(text) <= _MOST_SETTING and plain(text) == text


def _samples(config: Figures) -> int:
    return max(1, min(config.get("maxmemory-samples", 5, _MOST_INT), _MOST_SAMPLES))


def _maxmemory(info: Mapping[str, Any]) -> int:
    """INFO says 2^63 bytes and more with a sign; whoever set that by hand gets it put back."""
    if _WRAPPED.fullmatch(str(info.get("maxmemory"))):
        return MOST_BYTES
    return number_of(info, "maxmemory")


def _replication(info: Mapping[str, Any]) -> dict[str, Any]:
    text = str(info.get("master_replid"))
    replication_id = text if _RUN_ID.fullmatch(text) else ""
    return {"replicas": _replicas(info), "replication_id": replication_id}


def _replicas(info: Mapping[str, Any]) -> tuple[str, ...]:
    found = (value for key, value in info.items() if _REPLICA.fullmatch(key))
    parts = ((one.get("ip", ""), one.get("port", "")) for one in found if isinstance(one, Mapping))
    return tuple(plain(f"{host}:{port}")[:_MOST_ADDRESS] for host, port in parts)[:_MOST_REPLICAS]


def _word(info: Mapping[str, Any], key: str, default: str, form: re.Pattern[str]) -> str:
    text = str(info.get(key, default))
    if not form.fullmatch(text):
        raise ValueError(f"the server's {key} is {shown(text)}, which no Redis or Valkey says")
    return text

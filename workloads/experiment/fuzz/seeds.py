"""Well-formed input: small documents with all that they may have, and what a server says."""

from __future__ import annotations

from typing import Any

_SERVER_PLAN = {
    "name": "modest",
    "maxmemory_before_bytes": 16777216,
    "maxmemory_bytes": 2097152,
    "hit_ratio_before": 0.99,
    "hit_ratio": 0.98,
    "eat_before_seconds": 0.0002,
    "eat_seconds": 0.0003,
    "marginal_gain_seconds_per_mebibyte": 0.0,
    "reason": "shrinks: 14 MiB less do not change its mean access time",
    "settings_version": None,
}
_PLAN: dict[str, Any] = {
    "kind": "spreds.plan",
    "version": 1,
    "node": "node-1",
    "cycle": 17,
    "observation_made_at_seconds": 1795329485.5,
    "made_at_seconds": 1795329486,
    "budget_bytes": 33554432,
    "method": "certified",
    "decision": "apply",
    "reason": "gain: mean access time from 89 ms to 88 ms",
    "optimality_gap": 0.0,
    "mean_access_time_before_seconds": 0.089,
    "mean_access_time_seconds": 0.088,
    "servers": [_SERVER_PLAN, {**_SERVER_PLAN, "name": "hungry", "settings_version": "v1"}],
    "what_if": [
        {
            "budget_bytes": 36909875,
            "mean_access_time_seconds": 0.08,
            "hit_ratio": 0.7,
            "misses_per_second": 120.0,
            "equal_sizes_seconds": 0.09,
        }
    ],
    "run_seconds": 0.02,
    "run_memory_bytes": 99614720,
}
PLANS = [_PLAN, {**_PLAN, "decision": "keep", "servers": [{**_SERVER_PLAN, "maxmemory_bytes": 0}]}]
OBSERVATION: dict[str, Any] = {
    "kind": "spreds.observation",
    "version": 1,
    "node": "node-1",
    "cycle": 17,
    "made_at_seconds": 1795262460.5,
    "window_seconds": 60.0,
    "cycle_seconds": 3600.0,
    "budget_bytes": 25165824,
    "unit_bytes": 65536,
    "chance_ratio": 0.01,
    "goes_back": False,
    "budget_ratios": [0.5, 1.0, 2.0],
    "servers": [
        {
            "name": "sessions",
            "maxmemory_bytes": 8388608,
            "minimum_bytes": 2097152,
            "maximum_bytes": 25165824,
            "weight": 1.0,
            "request_rate_per_second": 1000.0,
            "cache_latency_seconds": 0.0002,
            "backend_latency_seconds": 0.05,
            "backend_latency_source": "team",
            "measured_backend_latency_seconds": 0.04,
            "fill_ratio": 0.9,
            "miss_ratio": 0.2,
            "curve": {"sizes_bytes": [0, 4194304, 16777216], "miss_ratios": [1.0, 0.25, 0.125]},
            "curve_error_ratio": 0.01,
            "sampled_objects": 512,
            "mean_object_bytes": 100.5,
            "changed_at_seconds": 1795262400.0,
            "keep_reason": "replica",
            "settings_version": "2026-11-21T12:00:00+00:00-0123abcd",
            "latency_bound_seconds": 0.02,
            "miss_bound_per_second": 50,
        },
        {
            "name": "pages",
            "maxmemory_bytes": 0,
            "minimum_bytes": 0,
            "weight": 0,
            "request_rate_per_second": 0,
            "cache_latency_seconds": 0,
            "backend_latency_seconds": 0,
            "curve": {"sizes_bytes": [0], "miss_ratios": [1]},
        },
    ],
    "planning": {
        "method": "auto",
        "certify": True,
        "epsilon_ratio": 0.0001,
        "time_limit_seconds": 2.0,
        "horizon_seconds": 3600.0,
        "minimum_gain_ratio": 0.005,
        "dwell_seconds": 0.0,
        "maximum_step_ratio": None,
        "maximum_curve_error_ratio": 0.3,
        "seed": 0,
    },
}
SETTINGS = {
    "kind": "spreds.settings",
    "version": 1,
    "set_by": "ann",
    "set_at": "2026-11-22T06:40:00+00:00",
    "weight": 2.5,
    "backend_latency_seconds": 0.2,
    "minimum_bytes": 4194304,
    "latency_bound_seconds": 0.02,
    "miss_bound_per_second": 50.0,
}
CONTROL: dict[str, Any] = {
    "mode": "apply",
    "mode_by": {"by": "ann", "at_seconds": 1795262460.5, "why": "it looks right"},
    "file_mode": "recommend",
    "engaged": True,
    "pause": {"by": "bob", "at_seconds": 1795262460.5, "why": "", "until_seconds": None},
    "wait": {"until_seconds": 1795262460.5, "why": "a plan failed", "failures": 2},
    "server_waits": {"pages": {"until_seconds": 1795262460.5, "why": "it failed", "failures": 1}},
    "held": {"pages": {"bytes": 8388608, "at_seconds": 1795262460.5}},
    "installed_bytes": {"pages": 0, "sessions": 8388608},
    "before_plan_bytes": {"pages": 8388608},
    "restoring_bytes": {"pages": 8388608},
}
STATE = {
    "last_cycle": 18,
    "applied_cycle": 17,
    "asked": [
        {
            "cycle": 18,
            "asked_at_seconds": 1795262460.5,
            "budget_bytes": 25165824,
            "bounds_bytes": {"pages": [1, None], "sessions": [1, 25165824]},
        }
    ],
    "targets_bytes": {"pages": 8388608},
    "settled": False,
    "changed_at_seconds": {"pages": 1795262460.5},
    "replaced": {"pages": {"run_id": "0" * 40, "settings": {"hz": "10"}}},
    "before_shrink": {"pages": {"hz": "10"}},
    "latencies": {
        "pages": {
            "backend_latency_seconds": 0.1,
            "backend_latency_source": "team",
            "measured_backend_latency_seconds": None,
            "fill_ratio": 0.5,
        }
    },
    "first_bytes": {"pages": 3},
    "control": CONTROL,
}
ORDERS: list[dict[str, Any]] = [
    {"what": "pause", "by": "ann", "why": "a campaign", "for_seconds": 3600},
    {"what": "rollback", "by": "ann", "to": "installation"},
    {"what": "resume", "by": "bob", "server": "pages"},
]
_ENTRY = {"at_seconds": 1795262460.5, "by": "spreds", "words": "sizes were changed"}
ENTRIES: list[dict[str, Any]] = [
    {
        **_ENTRY,
        "kind": "plan",
        "cycle": 17,
        "decision": "apply",
        "carried_out": True,
        "reason": "gain",
        "reasons": {"pages": "grows"},
        "sizes_before_bytes": {"pages": 1},
        "sizes_bytes": {"pages": 2},
        "predicted_gain_ratio": 0.1,
        "mean_access_time_seconds": None,
    },
    {**_ENTRY, "kind": "check", "verdict": "kept", "cycle": 17, "realised_ratio": 0.9},
    {**_ENTRY, "kind": "order", "order": ORDERS[0], "later": [1, {"a": None}]},
]
_RECORD = {
    "eventSource": "aws:s3",
    "eventName": "ObjectCreated:Put",
    "s3": {
        "bucket": {"name": "bucket"},
        "object": {"key": "plans/node-1/000000000017.json", "size": 1},
    },
}
PLAN_EVENT: dict[str, Any] = {"Records": [_RECORD]}
OBSERVATION_EVENTS: list[dict[str, Any]] = [
    {
        "Records": [
            {
                "s3": {
                    "bucket": {"name": "bucket"},
                    "object": {"key": "observations/node-1/000000000017.json"},
                }
            }
        ]
        * 2
    },
    {"Event": "s3:TestEvent"},
]
NODE = """node = "cache-1"
mode = "recommend"
state_file = "state.json"
[memory]
budget = "8GiB"
unit = "128KiB"
[sampling]
endpoint = "ipc:///run/spreds/samples"
rate = 0.01
[cycle]
samples = 500000
maximum_age = "1h"
[controller]
kind = "embedded"
folder = "documents"
[planning]
method = "auto"
time_limit = "2s"
[limits]
maximum_weight = 100
[operators]
listen = "127.0.0.1:9736"
[[server]]
name = "sessions"
url = "unix:///run/redis/sessions.sock"
weight = 2
backend_latency = "80ms"
minimum = "64MiB"
maximum = "4GiB"
latency_bound = "20ms"
miss_bound = 50
[[server]]
name = "pages"
url = "redis://127.0.0.1:6380"
"""


INFO = [
    b"# Server",
    b"redis_version:7.0.15",
    b"process_id:29779",
    b"run_id:0123456789abcdef0123456789abcdef01234567",
    b"# Memory",
    b"used_memory:12345678",
    b"used_memory_rss:22345678",
    b"used_memory_startup:862112",
    b"used_memory_scripts_eval:184",
    b"used_memory_functions:184",
    b"maxmemory:16777216",
    b"maxmemory_policy:volatile-lru",
    b"mem_clients_normal:1800",
    b"mem_clients_slaves:0",
    b"mem_replication_backlog:0",
    b"mem_cluster_links:0",
    b"mem_aof_buffer:0",
    b"mem_not_counted_for_evict:0",
    b"current_cow_size:0",
    b"rdb_last_cow_size:303104",
    b"aof_last_cow_size:0",
    b"keyspace_hits:1000",
    b"keyspace_misses:100",
    b"role:master",
    b"cmdstat_get:calls=5,usec=31,usec_per_call=6.20,rejected_calls=0,failed_calls=0",
    b"cmdstat_config|set:calls=1,usec=31,usec_per_call=31.00,rejected_calls=0,failed_calls=0",
    b"db0:keys=100,expires=50,avg_ttl=36000",
    b"db3:keys=1,expires=0,avg_ttl=0",
]
CONFIG = [
    word
    for pair in (
        (b"maxmemory", b"16777216"),
        (b"maxmemory-samples", b"5"),
        (b"maxmemory-clients", b"20%"),
        (b"maxmemory-eviction-tenacity", b"10"),
        (b"lfu-log-factor", b"10"),
        (b"lfu-decay-time", b"1"),
        (b"latency-tracking", b"yes"),
        (b"hz", b"10"),
        (b"spreds-endpoint", b""),
        (b"spreds-secret", b""),
    )
    for word in pair
]
ODD_NUMBERS = [
    word.encode()
    for word in (
        *("", "0", "-1", "1", "1.5", "1.0e999", "-1.0e999", "1e999", "nan", "inf", "0x10", "1_0"),
        *("18446744073709551615", "9" * 400, "9" * 5000, "0.0", "abc", "é", "%", "-5%", "0%"),
        *("calls=1.0e999", "calls=x", "calls=", "keys=,expires=", "keys=1.5,expires=1.0e999"),
        *("keys=1,expires=5,avg_ttl=-7", "keys=-1,expires=-1", "a=b,c=d", "=", ",", "a,b=c"),
        *("yes", "no", "slave", "master", "noeviction", "allkeys-lru", "volatile-ttl"),
    )
]

"""What a server says, and odd things that it might."""

from __future__ import annotations

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

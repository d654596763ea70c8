"""What surrounds the commands: a server, perhaps a twin and a replica, for a part of the time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Phase:
    """A part of the experiment.

    Attributes:
        settings: of the tested server.
        has_twin: replies and digests are compared. Without a twin commands are drawn, too, whose
            outcome depends on time, chance or memory.
        has_replica: whose digest is compared with its master's.
        restarts: at the end it comes back from its append-only file with the same data.
        is_sanitized: false where the sanitizers' allocator is in the way.
    """

    name: str
    settings: Mapping[str, object] = field(default_factory=dict)
    has_twin: bool = True
    has_replica: bool = False
    restarts: bool = False
    is_sanitized: bool = True


_AOF = {"appendonly": "yes", "appendfsync": "no", "auto-aof-rewrite-min-size": "1mb"}
_EVICTION = {"maxmemory": "5mb", "maxmemory-policy": "allkeys-lru", "maxmemory-clients": "60%"}
_DEFRAGMENTATION = {
    "activedefrag": "yes",
    "active-defrag-ignore-bytes": "1",
    "active-defrag-threshold-lower": "0",
    "active-defrag-cycle-min": "50",
    "active-defrag-cycle-max": "75",
    "active-defrag-max-scan-fields": "10",
}
PHASES = {
    phase.name: phase
    for phase in (
        Phase("alone"),
        Phase("replica", has_replica=True),
        Phase("append-only", _AOF, restarts=True),
        Phase("io-threads", {"io-threads": 4, "io-threads-do-reads": "yes"}),
        Phase("eviction", {**_EVICTION, **_AOF}, has_twin=False),
        Phase("eviction-replica", _EVICTION, has_twin=False, has_replica=True),
        # Only the servers' own jemalloc says what is fragmented.
        Phase("defragmentation", _DEFRAGMENTATION, is_sanitized=False),
    )
}

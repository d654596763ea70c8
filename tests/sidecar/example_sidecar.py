"""A sidecar that is none: its status is made up, and rich enough for a page to be judged by."""

from __future__ import annotations

import copy
import json
import math
import threading
from typing import Any

from sidecar.base.metrics import Metrics
from sidecar.control.order import Order, OrderRefusedError

MIB = 1 << 20
NOW_SECONDS = 1_795_363_200.0
BUDGET_BYTES = 8192 * MIB
CYCLE = 1_795_361_400
POINTS = 120
STEP_SECONDS = 300.0
# Name, size before and after in MiB, scale of the curve in MiB, its floor, reads a second, backend.
_SERVERS = (
    ("sessions", 2048, 3072, 900.0, 0.03, 8200.0, 0.080, "team"),
    ("pages", 2048, 2560, 1400.0, 0.10, 5100.0, 0.045, "configured"),
    ("catalogue", 2048, 1280, 260.0, 0.01, 2600.0, 0.012, "measured"),
    ("search-suggestions-eu-west-1", 1536, 768, 3000.0, 0.35, 140.0, 0.004, "measured"),
    ("jobs", 512, 512, 200.0, 0.0, 40.0, 0.020, "configured"),
)
# In parts of the budget: mean access time in ms, and with equal sizes.
_BUDGETS = (
    (0.25, 24.7, 30.1),
    (0.5, 12.9, 17.8),
    (0.716, 9.11, 12.4),
    (0.75, 8.64, 11.8),
    (1.0, 6.35, 8.98),
    (1.125, 5.88, 8.01),
    (1.25, 5.31, 7.2),
    (1.5, 4.62, 6.1),
    (2.0, 3.9, 4.9),
    (4.0, 3.4, 3.6),
)
# What a planner may write, and a page must not run.
HOSTILE = "shrinks: 768 MiB less <img src=x onerror=alert(1)></script><script>alert(2)</script>"


def _miss_ratio(scale_mib: float, floor: float, size_mib: float) -> float:
    return floor + (1 - floor) * math.exp(-size_mib / scale_mib)


def _curve(scale_mib: float, floor: float) -> dict[str, list[float]]:
    sizes = [8192 * MIB * place / POINTS for place in range(POINTS + 1)]
    return {
        "sizes_bytes": sizes,
        "miss_ratios": [_miss_ratio(scale_mib, floor, size / MIB) for size in sizes],
    }


def _reason(name: str, before_mib: int, after_mib: int) -> str:
    if name == "jobs":
        return "stays: its maxmemory-policy is noeviction, and what it holds must not be lost"
    if name.startswith("search"):
        return HOSTILE
    change = after_mib - before_mib
    word = "grows" if change > 0 else "shrinks"
    return (
        f"{word}: {abs(change)} MiB {'more' if change > 0 else 'less'} bring its mean access time "
        "from 8.412 ms to 5.077 ms"
    )


def _server(place: int) -> dict[str, Any]:
    name, before, after, scale, floor, reads, backend, source = _SERVERS[place]
    hits = 1 - _miss_ratio(scale, floor, before)
    predicted = 1 - _miss_ratio(scale, floor, after)
    return {
        "name": name,
        "up": True,
        "error": None,
        "run_id": f"{place:040x}",
        "role": "master",
        "replicas": ["10.0.0.7:6379"] if place == 0 else [],
        "policy": "noeviction" if name == "jobs" else "allkeys-lru",
        "sampler": "module" if place % 2 else "patch",
        "maxmemory_bytes": before * MIB,
        "target_bytes": before * MIB,
        "recommended_bytes": after * MIB,
        "installed_bytes": 1792 * MIB,
        "minimum_bytes": 256 * MIB,
        "maximum_bytes": 4096 * MIB if place else None,
        "used_bytes": int(before * MIB * 0.97),
        "rss_bytes": int(before * MIB * 1.06),
        "hit_ratio": hits,
        "predicted_hit_ratio": hits,
        "reads_per_second": reads,
        "recommended_hit_ratio": predicted,
        "access_time_seconds": 0.0002 + (1 - hits) * backend,
        "predicted_access_time_seconds": 0.0002 + (1 - hits) * backend,
        "recommended_access_time_seconds": 0.0002 + (1 - predicted) * backend,
        "backend_latency_seconds": backend,
        "backend_latency_source": source,
        "curve_error_ratio": 0.012 + 0.02 * place,
        "other_policies": [],
        "listeners": None,
        "weight": 2.0 if place == 0 else 1.0,
        "settings_by": "team checkout" if place == 0 else None,
        "settings_version": "etag-1" if place == 0 else None,
        "keep_reason": "its maxmemory-policy is noeviction" if name == "jobs" else None,
        "held": None,
        "wait": None,
        "last_change": {
            "at_seconds": NOW_SECONDS - 9_400,
            "from_bytes": 1792 * MIB,
            "to_bytes": before * MIB,
            "cycle": CYCLE - 7200,
            "words": "grew by 256 MiB: its reads reach further back than those of catalogue",
        }
        if place < 3
        else None,
        "marginal_gain_seconds_per_mebibyte": 2.1e-6 / (place + 1),
        "curve": _curve(scale, floor),
    }


def _what_if(ratio: float, best_ms: float, equal_ms: float) -> dict[str, Any]:
    reads = sum(server[5] for server in _SERVERS)
    return {
        "budget_bytes": round(BUDGET_BYTES * ratio),
        "mean_access_time_seconds": best_ms / 1e3,
        "hit_ratio": 1 - best_ms / 60,
        "misses_per_second": reads * best_ms / 60,
        "optimality_gap": 0.0002,
        "equal_sizes_seconds": equal_ms / 1e3,
        "equal_sizes_misses_per_second": reads * equal_ms / 60,
    }


def _plan() -> dict[str, Any]:
    return {
        "kind": "spreds.plan",
        "version": 1,
        "node": "cache-1",
        "cycle": CYCLE,
        "observation_made_at_seconds": NOW_SECONDS - 1_800,
        "made_at_seconds": NOW_SECONDS - 1_799,
        "budget_bytes": BUDGET_BYTES,
        "method": "certified",
        "decision": "apply",
        "reason": "gain: mean access time from 9.12 ms to 6.42 ms, 29.61% less after the cost of "
        "moving",
        "optimality_gap": 0.0,
        "mean_access_time_before_seconds": 0.00912,
        "mean_access_time_seconds": 0.00635,
        "servers": [
            {
                "name": name,
                "maxmemory_before_bytes": before * MIB,
                "maxmemory_bytes": after * MIB,
                "hit_ratio_before": 1 - _miss_ratio(scale, floor, before),
                "hit_ratio": 1 - _miss_ratio(scale, floor, after),
                "eat_before_seconds": 0.0002 + _miss_ratio(scale, floor, before) * backend,
                "eat_seconds": 0.0002 + _miss_ratio(scale, floor, after) * backend,
                "marginal_gain_seconds_per_mebibyte": 1.2e-6,
                "reason": _reason(name, before, after),
                "settings_version": None,
            }
            for name, before, after, scale, floor, _, backend, _ in _SERVERS
        ],
        "what_if": [_what_if(*row) for row in _BUDGETS],
        "run_seconds": 0.006,
        "run_memory_bytes": 74 * MIB,
        "taken_at_seconds": NOW_SECONDS - 1_798,
        "mean_access_time_with_moving_seconds": 0.00642,
        "gain_words": "mean access time from 9.12 ms to 6.42 ms, 29.61% less after the cost of "
        "moving",
        "predicted_gain_ratio": 1 - 6.42 / 9.12,
        "in_place_of": None,
        "carried_out": False,
        "overtaken_by": None,
        "known_words": None,
        "memory_words": "as fast as now with 5.73 GiB of 8 GiB; 1 GiB more shorten the mean "
        "access time by 7.4%",
        "not_carried_out_because": "the mode is recommend: plans are shown and not carried out",
    }


def example_status() -> dict[str, Any]:
    """Return what ``SidecarView.status`` has: recommend mode, a plan that waits for approval."""
    servers = [_server(place) for place in range(len(_SERVERS))]
    return {
        "kind": "spreds.status",
        "version": 1,
        "node": "cache-1",
        "spreds_version": "0.1.0",
        "pid": 4711,
        "started_at_seconds": NOW_SECONDS - 270_000,
        "now_seconds": NOW_SECONDS,
        "mode": "recommend",
        "mode_by": None,
        "sets_sizes": False,
        "pause": None,
        "wait": None,
        "budget": {
            "bytes": BUDGET_BYTES,
            "source": "cgroup",
            "configured": "75%",
            "maxmemory_bytes": sum(server["maxmemory_bytes"] for server in servers),
            "used_bytes": sum(server["used_bytes"] for server in servers),
            "rss_bytes": sum(server["rss_bytes"] for server in servers),
            "rss_budget_bytes": 9216 * MIB,
            "rss_budget_is_vain": False,
            "headroom_bytes": {"forks": 96 * MIB, "fragmentation": 410 * MIB, "clients": 3 * MIB},
        },
        "loop_at_seconds": NOW_SECONDS - 0.1,
        "actuator_at_seconds": NOW_SECONDS - 0.6,
        "samples": {
            "received": 48_211_904,
            "lost_batches": 17,
            "since_observation": 301_442,
            "wanted": 500_000,
        },
        "last_observation": {
            "cycle": CYCLE,
            "made_at_seconds": NOW_SECONDS - 1_800,
            "window_seconds": 3_600.0,
        },
        "next_observation_at_seconds": NOW_SECONDS + 1_800,
        "last_plan": _plan(),
        "plans_refused": {"count": 0, "last_at_seconds": None, "last_words": None},
        "last_check": {
            "at_seconds": NOW_SECONDS - 5_400,
            "kind": "check",
            "by": "spreds",
            "words": "better: since plan 1795354200 the mean access time is 9.34 ms",
            "cycle": 1_795_354_200,
            "predicted_seconds": 0.0091,
            "observed_seconds": 0.00934,
            "without_seconds": 0.0118,
            "error_seconds": 0.0004,
            "verdict": "kept",
        },
        "gain": {"predicted_ratio": 0.3037, "realised_ratio": 0.2085},
        "measured_access_time_seconds": 0.00934,
        "unmeasured": [],
        "installed_gain": {
            "since_seconds": NOW_SECONDS - 604_800,
            "ratio": 0.112,
            "measured_before_seconds": 0.0118,
        },
        "recommended_gain": {"since_seconds": NOW_SECONDS - 86_400, "ratio": 0.274},
        "controller": {"kind": "embedded", "silence": None},
        "problems": [],
        "not_served": [],
        "stands_still": False,
        "servers": servers,
    }


def example_series() -> dict[str, Any]:
    """Ten hours, with a gap where the sidecar did not run, and one size that changed."""
    times = [NOW_SECONDS - STEP_SECONDS * (POINTS - place) for place in range(POINTS)]
    gap = range(40, 46)

    def line(of: Any) -> list[float | None]:
        return [None if place in gap else of(place) for place in range(POINTS)]

    servers = {}
    for order, (name, before, _, scale, floor, *_) in enumerate(_SERVERS):
        hits = 1 - _miss_ratio(scale, floor, before)
        earlier = 1792 if order < 3 else before + 256 if order == 3 else before
        servers[name] = {
            "maxmemory_bytes": line(
                lambda place, e=earlier, b=before: (e if place < 88 else b) * MIB
            ),
            "hit_ratio": line(
                lambda place, h=hits, o=order: min(1.0, h - 0.03 * math.sin(place / 9 + o))
            ),
            "predicted_hit_ratio": line(lambda place, h=hits: h),
        }
    return {
        "at_seconds": times,
        "mean_access_time_seconds": line(lambda place: 0.0094 + 0.0012 * math.sin(place / 11)),
        "predicted_mean_access_time_seconds": line(lambda place: 0.0091),
        "marks": [{"at_seconds": times[60], "words": "weights changed: pages 1 -> 2"}],
        "servers": servers,
    }


def example_history() -> list[dict[str, Any]]:
    """Two kinds of everything: plans that keep all sizes, one carried out, orders, a check."""
    entries: list[dict[str, Any]] = [
        {
            "at_seconds": NOW_SECONDS - 40_000,
            "kind": "start",
            "by": "spreds",
            "words": "started, in mode recommend",
        }
    ]
    for place in range(6):
        entries.append(
            {
                "at_seconds": NOW_SECONDS - 36_000 + 3_600 * place,
                "kind": "plan",
                "by": "spreds",
                "words": "keeps all sizes: a better split would gain 0.11%",
                "cycle": CYCLE - 36_000 + 3_600 * place,
                "decision": "keep",
                "carried_out": False,
                "reason": "small_gain: a better split would gain 0.11%",
                "predicted_gain_ratio": 0.0,
            }
        )
    entries += [
        {
            "at_seconds": NOW_SECONDS - 9_500,
            "kind": "order",
            "by": "ana, as operator (uid 1001)",
            "words": "carry out the last plan once, because Monday's load is back",
        },
        {
            "at_seconds": NOW_SECONDS - 9_400,
            "kind": "plan",
            "by": "spreds",
            "words": "sizes changed: sessions, pages and catalogue grow by 256 MiB each",
            "cycle": CYCLE - 7_200,
            "decision": "apply",
            "carried_out": True,
            "reason": "gain: mean access time from 11.8 ms to 9.1 ms, 22.88% less after the "
            "cost of moving",
            "predicted_gain_ratio": 0.2288,
            "reasons": {"sessions": "grows: 256 MiB more bring its mean access time down"},
        },
        example_status()["last_check"],
    ]
    return [{"number": number, **entry} for number, entry in enumerate(entries, 1)]


class ExampleSidecar:
    """A ``SidecarView`` whose documents a test may change.

    Attributes:
        orders: those given.
        refuses: why the next order is refused, if it is.
    """

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.document = example_status()
        self.entries = example_history()
        self.orders: list[Order] = []
        self.refuses: str | None = None
        self.ordered = threading.Event()

    def status(self) -> dict[str, Any]:
        return copy.deepcopy(self.document)

    def series(self) -> dict[str, Any]:
        return example_series()

    def history(self, limit: int, before: int) -> list[bytes]:
        earlier = [entry for entry in self.entries if entry["number"] < before]
        return [json.dumps(entry).encode() for entry in earlier[-limit:]]

    def order(self, order: Order) -> str:
        if self.refuses is not None:
            raise OrderRefusedError(self.refuses)
        self.orders.append(order)
        self.ordered.set()
        return f"done: {order.what}"

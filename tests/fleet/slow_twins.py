"""The questions of infra.fleet in plain Python over the same documents, however slowly."""

from __future__ import annotations

import itertools
import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def documents(*folders: Path) -> list[Row]:
    """Plans with their source, each once: a source that shares a plan of a node with another tells
    of the same node, which has the name of the source with the newest plan."""
    told: dict[tuple[str, str], dict[int, Row]] = defaultdict(dict)
    for source in sorted(str(folder.resolve()) for folder in folders):
        for path in sorted(Path(source).glob("*/*.json")):
            plan = json.loads(path.read_text())
            told[source, plan["node"]][plan["cycle"]] = plan
    groups: list[list[tuple[str, str]]] = []
    for name, plans in told.items():
        same = [g for g in groups if any(is_shared(name, plans, one, told[one]) for one in g)]
        groups = [g for g in groups if g not in same] + [[*itertools.chain(*same), name]]
    found = []
    for group in groups:
        home = min(group, key=lambda one: (-max(told[one]), one))
        merged: Row = {}
        for one in sorted(group):
            merged = told[one] | merged
        found += [plan | {"source": home[0]} for plan in merged.values()]
    return found


def is_shared(
    name: tuple[str, str], plans: dict[int, Row], other: tuple[str, str], others: dict[int, Row]
) -> bool:
    return name[1] == other[1] and any(plan == others.get(c) for c, plan in plans.items())


def latest(plans: list[Row], ended_seconds: float) -> list[Row]:
    """The last plan of each node that is still there."""
    newest = max(plan["made_at_seconds"] for plan in plans)
    last: dict[tuple[str, str], Row] = {}
    for plan in sorted(plans, key=lambda plan: plan["cycle"]):
        last[plan["source"], plan["node"]] = plan
    return [p for p in last.values() if p["made_at_seconds"] >= newest - ended_seconds]


def points(plan: Row) -> list[tuple[int, float]]:
    """Budgets and mean access times, of which no larger budget has a greater one."""
    found = {
        w["budget_bytes"]: w["mean_access_time_seconds"]
        for w in plan["what_if"] or ()
        if 0.75 <= w["budget_bytes"] / plan["budget_bytes"] <= 1.5
    }
    found[plan["budget_bytes"]] = plan["mean_access_time_seconds"]
    line, least = [], math.inf
    for budget, seconds in sorted(found.items()):
        if seconds is not None:
            least = min(least, seconds)
            line.append((budget, least))
    return line


def at(line: list[tuple[int, float]], budget: float) -> float | None:
    if budget < line[0][0]:
        return None
    for (low, first), (high, second) in itertools.pairwise(line):
        if low <= budget < high:
            return first + (second - first) * (budget - low) / (high - low)
    return line[-1][1]


def reads(plan: Row) -> float | None:
    rates = [s.get("request_rate_per_second") for s in plan["servers"]]
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None


def waiting(plan: Row, seconds: float | None) -> float | None:
    rate = reads(plan)
    return None if rate is None or seconds is None else rate * seconds


def name_of(plan: Row) -> tuple[str, str]:
    return plan["source"], plan["node"]


def nodes(plans: list[Row], lack_ratio: float) -> dict[tuple[str, str], tuple[Any, ...]]:
    found = {}
    for plan in plans:
        line = points(plan)
        if not line:
            continue
        now, (largest, least) = dict(line).get(plan["budget_bytes"]), line[-1]
        if now is None or largest <= plan["budget_bytes"]:
            found[name_of(plan)] = ("not known", None)
        else:
            verdict = "lacks memory" if least < now * (1 - lack_ratio) else "has enough"
            found[name_of(plan)] = (verdict, waiting(plan, now - least))
    return found


def worth(plans: list[Row], step: int) -> dict[tuple[str, str], tuple[Any, ...]]:
    found = {}
    for plan in plans:
        line = points(plan)
        if line:
            budget = plan["budget_bytes"]
            gain = at(line, budget) - at(line, budget + step)
            bound = "at least" if budget + step > line[-1][0] else ""
            found[name_of(plan)] = (waiting(plan, gain), bound)
    return found


def transfers(plans: list[Row], step: int) -> dict[tuple[Any, ...], float]:
    """Find the transfers that gain, over all pairs."""
    found = {}
    for giver in plans:
        for taker in plans:
            if name_of(giver) == name_of(taker) or not (points(giver) and points(taker)):
                continue
            less = at(points(giver), giver["budget_bytes"] - step)
            if less is None or None in (reads(giver), reads(taker)):
                continue
            loss = waiting(giver, less - at(points(giver), giver["budget_bytes"]))
            more = at(points(taker), taker["budget_bytes"] + step)
            gain = waiting(taker, at(points(taker), taker["budget_bytes"]) - more)
            if gain > loss:
                found[(*name_of(giver), *name_of(taker))] = gain - loss
    return found


def sizes(plans: list[Row], now: list[Row], ratio: float) -> dict[tuple[str, str], tuple[int, str]]:
    enough = defaultdict(list)
    words = ("at most", "", "at least")
    for plan in plans:
        line = points(plan)
        if len(line) > 1:
            at = next(i for i, point in enumerate(line) if point[1] <= line[-1][1] * (1 + ratio))
            edge = 2 if at == len(line) - 1 else min(at, 1)
            enough[name_of(plan)].append((line[at][0], edge))
    found = {name: sorted(all_)[math.ceil(0.95 * len(all_)) - 1] for name, all_ in enough.items()}
    return {
        name: (found[name][0], words[found[name][1]]) for name in map(name_of, now) if name in found
    }


def waits(plans: list[Row]) -> list[tuple[Row, Row, float]]:
    """Plan, server and reads in the window, where all is told."""
    keys = ("eat_installed_seconds", "eat_before_seconds", "request_rate_per_second", "weight")
    return [
        (plan, server, plan["window_seconds"] * server["request_rate_per_second"])
        for plan in plans
        if plan.get("window_seconds") is not None
        for server in plan["servers"]
        if all(server.get(key) is not None for key in keys)
    ]


def saved(plans: list[Row]) -> dict[tuple[str, str], tuple[float, float, float]]:
    """Return seconds, the weighted ratio, and seconds by latencies that teams stated."""
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0, 0.0])
    for plan, server, count in waits(plans):
        found, now = server["eat_installed_seconds"], server["eat_before_seconds"]
        for name in (name_of(plan), ("all", "all")):
            sums[name][0] += count * (found - now)
            sums[name][1] += server["weight"] * count * (found - now)
            sums[name][2] += server["weight"] * count * found
            if "as its team says" in server["reason"]:
                sums[name][3] += count * (found - now)
    return {name: (one[0], one[1] / one[2], one[3]) for name, one in sums.items()}


def teams(plans: list[Row]) -> dict[str, tuple[float, float]]:
    """Return seconds lost and seconds saved, of its nodes each."""
    each: dict[tuple[str, ...], float] = defaultdict(float)
    for plan, server, count in waits(plans):
        gain = server["eat_installed_seconds"] - server["eat_before_seconds"]
        each[(*name_of(plan), server["name"])] += count * gain
    lost: dict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    for (*_, team), gain in each.items():
        lost[team] = (lost[team][0] + max(0.0, -gain), lost[team][1] + max(0.0, gain))
    return dict(lost)

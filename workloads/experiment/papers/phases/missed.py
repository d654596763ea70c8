"""What a measurement of phases has to own up to."""

from __future__ import annotations

from typing import Any

from workloads.experiment.harness.study import Data
from workloads.experiment.papers.phases.measurement import HITS_WINDOW_SECONDS
from workloads.table import milliseconds


def missed(data: Data) -> list[str]:
    """Changes without a transition, transitions that had not ended, some where none is or that
    began too early, and clients who were behind their rate."""
    found = []
    for way, runs in data["ways"].items():
        for change in runs[0]:
            of = [run[change] for run in runs]
            without = sum(1 for one in of if one["found"]["hits"] is None)
            if way == "nothing" and without < len(of):
                found.append(
                    f"The hit ratio of {len(of) - without} of {len(of)} unchanged servers was "
                    "taken for one that moves."
                )
            elif way != "nothing" and without:
                found.append(
                    f"{way}, {change}: no move of the hit ratio in {without} of {len(of)}."
                )
            if late := sum(1 for one in of if not one["is_over"]):
                found.append(f"{way}, {change}: {late} of {len(of)} had not ended in time.")
            early = sum(1 for one in of if _lies_before(one["found"]))
            if way != "nothing" and early:
                found.append(
                    f"{way}, {change}: in {early} of {len(of)} what was found lies before the "
                    "change, which therefore has not made it."
                )
            if behind := _late_seconds(of):
                found.append(
                    f"{way}, {change}: in {len(behind)} of {len(of)} the clients were behind their "
                    f"rate (a phase's p50 is up to {milliseconds(max(behind))}), so that the "
                    "latencies there tell of the machine and not of the server."
                )
    return found


def _lies_before(found: dict[str, list[float] | None]) -> bool:
    """Whether more of a transition is before the change than after it. That a long one begins some
    windows too early tells nothing: its bounds are not more exact."""
    bounds = found["hits"] or found["latency"]
    return bounds is not None and sum(bounds) / 2 < -HITS_WINDOW_SECONDS / 4


def _late_seconds(found: list[Any]) -> list[float]:
    """The greatest median of a phase of each series whose clients were behind their rate."""
    medians = [
        max((one["p50"] for one in run["phases"].values() if one), default=0.0) for run in found
    ]
    return [median for median in medians if median > HITS_WINDOW_SECONDS]

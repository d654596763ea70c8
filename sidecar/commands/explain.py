"""``spreds explain``: what the sidecar does on this node, and when, in plain words."""

from __future__ import annotations

import argparse
from typing import Any

from sidecar.config.node import SidecarConfig, load_config
from solver_lambda.documents.units import format_duration, format_size

# As in sidecar/curves/remembered.py, which would import numpy: the shortest and the longest.
_SHORTEST, _LONGEST = 1 / 12, 6


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "explain", help="say in plain words how memory is divided on this node"
    )
    parser.add_argument("config", metavar="FILE")
    parser.set_defaults(execute=execute, logs=False)


def execute(options: argparse.Namespace) -> int:
    """Print some sentences. Raises DocumentError."""
    print(_explained(load_config(options.config)))
    return 0


def _explained(config: SidecarConfig) -> str:
    age = config.cycle.maximum_age_seconds
    least = f"{config.planning.minimum_gain_ratio:.2%}"
    who = f"{len(config.servers)} servers share {format_size(config.memory.budget_bytes)}"
    if not config.forecasts:
        return (
            f"{who}. Every {format_duration(age)}, or after {config.cycle.samples} samples, the "
            "sizes that would have been best in the last window are planned. They are taken at "
            f"once if they gain {least} of the mean access time with the misses of moving counted."
        )
    short, long = (format_duration(age * part) for part in (_SHORTEST, _LONGEST))
    return (
        f"{who}. Every {short} the sidecar asks which way of looking back, over {short} to {long}, "
        "would have made the plan that served best since then. The best one makes the next plan: "
        f"after {format_duration(age)}, or {config.cycle.samples} samples, or earlier if the load "
        "has clearly changed.\n"
        f"Nothing moves unless that gains {least} of the mean access time beyond what may be "
        "chance, which is measured by letting each sixteenth of the sampled keys judge a plan that "
        "the others made.\n"
        "Memory changes hands only as the server that is to grow fills it, so that a plan that was "
        "wrong costs little. If plans have cost more than the sizes that the sidecar found when it "
        "came first would have, it goes back to these."
    )

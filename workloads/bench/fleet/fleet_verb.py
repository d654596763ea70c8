"""``python -m workloads bench fleet``: time and memory of ``python -m infra.fleet``."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from workloads.arguments import positive, seed
from workloads.bench.fleet.made_plans import write_plans
from workloads.running_program import ROOT
from workloads.table import text_table

HELP = (
    "Ask all questions of infra.fleet about made-up plans: the first time, when all are read, and "
    "again, when they are kept. Wall-clock of the whole command, and its peak resident memory."
)
WANTED_SECONDS = 5.0
WANTED_BYTES = 1_000_000_000
AGAIN = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--nodes", type=positive, default=1000, help="(default: 1000)")
    parser.add_argument("--plans", type=positive, default=100, help="of each (default: 100)")
    parser.add_argument("--seed", type=seed, default=1, help="(default: 1)")
    parser.add_argument("--json", action="store_true", help="figures only")


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0; 1: slower or larger than wanted."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        written = write_plans(folder / "fleet", arguments.nodes, arguments.plans, arguments.seed)
        command = [sys.executable, "-m", "infra.fleet", str(folder / "fleet"), "--json"]
        command += ["--cache", str(folder / "kept.duckdb")]
        runs = {
            "first": asked(command, folder),
            **{f"again {number + 1}": asked(command, folder) for number in range(AGAIN)},
        }
    count = arguments.nodes * arguments.plans
    met = all(s < WANTED_SECONDS and peak < WANTED_BYTES for s, peak in runs.values())
    if arguments.json:
        print(json.dumps({"plans": count, "bytes": written, "runs": runs, "met": met}))
    else:
        rows = [[name, f"{s:.2f} s", f"{b / 1e6:.0f} MB"] for name, (s, b) in runs.items()]
        print(f"{count:,} plans, {written / count:,.0f} bytes each")
        print(text_table(["", "wall-clock", "peak memory"], rows))
    return 0 if met else 1


def asked(command: list[str], folder: Path) -> tuple[float, int]:
    """Wall-clock seconds of one command, its start included, and its peak resident bytes.

    Raises:
        RuntimeError: it failed.
    """
    started = time.monotonic()
    with (folder / "answers.json").open("w") as output:
        process = subprocess.Popen(command, stdout=output, cwd=ROOT, stderr=subprocess.PIPE)
        assert process.stderr is not None
        words = process.stderr.read().decode()
        # Not the peak of all children so far.
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - started
    if process.returncode:
        raise RuntimeError(f"infra.fleet failed: {words.strip()}")
    return seconds, usage.ru_maxrss * 1024

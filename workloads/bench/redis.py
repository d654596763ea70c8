"""What sampling costs the server: stock against itself, the patch and the module, side by side."""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from workloads.bench.instructions import CountedServer, available
from workloads.local_server import LocalServer, built
from workloads.table import text_table

HELP = (
    "Throughput, p50 and processor time of the stock server against itself, the patch (off, and at "
    "several rates) and the module, as ratios of interleaved pairs; instructions for a command "
    "that is not sampled, from callgrind."
)
MODULUS = 1 << 24
# Not there: what is measured is a server whose consumer never comes.
ENDPOINT = "ipc:///tmp/spreds-bench-nobody"
RATES = (0.001, 0.01, 0.1, 1.0)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    parser.add_argument("--quick", action="store_true", help="fewer and shorter pairs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here")


def _variants() -> dict[str, tuple[Path, dict[str, object]]]:
    stock, patched = built("bin/redis-server-stock"), built("bin/redis-server")
    variants: dict[str, tuple[Path, dict[str, object]]] = {
        "stock again": (stock, {}),
        "patch off": (patched, {}),
    }
    for rate in RATES:
        threshold = int(rate * MODULUS)
        variants[f"patch R={rate:g}"] = (
            patched,
            {"spreds-endpoint": ENDPOINT, "spreds-threshold": threshold},
        )
        variants[f"module R={rate:g}"] = (
            stock,
            {
                "loadmodule": built("lib/spreds.so"),
                "spreds.endpoint": ENDPOINT,
                "spreds.threshold": threshold,
            },
        )
    return variants


def _measure(server: LocalServer, command: str, pipeline: int, requests: int) -> dict[str, float]:
    before = sum(server.client.info("cpu")[f"used_cpu_{kind}"] for kind in ("user", "sys"))
    options = f"-t {command} -P {pipeline} -n {requests} -c 20 -r 10000 -d 100 --csv"
    out = subprocess.run(
        [str(built("bin/redis-benchmark")), "-s", str(server.socket), *options.split()],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    after = sum(server.client.info("cpu")[f"used_cpu_{kind}"] for kind in ("user", "sys"))
    fields = [float(x) for x in re.findall(r'"([\d.]+)"', out.splitlines()[-1])]
    return {
        "throughput": fields[0],
        "p50": fields[3],
        "p99": fields[5],
        "cpu_per_operation": (after - before) / requests,
    }


def _pairs(quick: bool) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    pairs, requests = (3, 20_000) if quick else (9, 100_000)
    for name, (binary, settings) in _variants().items():
        with ExitStack() as stack:
            stock = stack.enter_context(LocalServer({}, built("bin/redis-server-stock")))
            other = stack.enter_context(LocalServer(settings, binary))
            for command in ("set", "get"):
                for pipeline in (1, 16):
                    ratios: dict[str, list[float]] = {}
                    for number in range(pairs):
                        order = (stock, other) if number % 2 else (other, stock)
                        found = {s: _measure(s, command, pipeline, requests) for s in order}
                        for metric, value in found[other].items():
                            base = found[stock][metric]
                            ratios.setdefault(metric, []).append(value / base if base else 1.0)
                    for metric, values in ratios.items():
                        rows.append(
                            {
                                "variant": name,
                                "command": command,
                                "pipeline": pipeline,
                                "metric": metric,
                                "median_ratio": statistics.median(values),
                                "low_ratio": min(values),
                                "high_ratio": max(values),
                            }
                        )
    return rows


def _instructions(quick: bool) -> list[dict[str, Any]]:
    stock, patched = built("bin/redis-server-stock"), built("bin/redis-server")
    on: dict[str, object] = {"spreds-threshold": 0, "spreds-endpoint": ENDPOINT}
    module: dict[str, object] = {
        "loadmodule": built("lib/spreds.so"),
        "spreds.threshold": 0,
        "spreds.endpoint": ENDPOINT,
    }
    kinds = {
        "stock": (stock, {}),
        "stock again": (stock, {}),
        "patch off": (patched, {}),
        "patch on": (patched, on),
        "module on": (stock, module),
    }
    key = b"key:000000000001"
    rows: list[dict[str, Any]] = []
    for name, (binary, settings) in kinds.items():
        with CountedServer({"hz": 1, **settings}, binary) as server:
            for label, command in (("get", ("GET", key)), ("set", ("SET", key, b"x" * 100))):
                server.client.set(key, b"x" * 100)
                for pipeline in (1, 16):
                    count = server.instructions_per_command(
                        [command], pipeline, 640 if quick else 3200
                    )
                    rows.append(
                        {
                            "variant": name,
                            "command": label,
                            "pipeline": pipeline,
                            "instructions": count,
                        }
                    )
    return rows


def run(arguments: argparse.Namespace) -> int:
    """Measure, print two tables, write the JSON; returns the exit code 0."""
    began = time.time()
    missing = available()
    instructions = [] if missing else _instructions(arguments.quick)
    if missing:
        print(f"instructions: not measured, {missing}")
    else:
        print(
            text_table(
                ["instructions", "command", "pipeline", "each"],
                [
                    [r["variant"], r["command"], str(r["pipeline"]), f"{r['instructions']:,.0f}"]
                    for r in instructions
                ],
            )
        )
    rows = _pairs(arguments.quick)
    print()
    print(
        text_table(
            ["ratio to stock", "command", "pipeline", "metric", "median", "least", "most"],
            [
                [r["variant"], r["command"], str(r["pipeline"]), r["metric"]]
                + [f"{r[f'{edge}_ratio']:.3f}" for edge in ("median", "low", "high")]
                for r in rows
            ],
        )
    )
    if arguments.json:
        result = {"began": began, "instructions": instructions, "not_measured": missing}
        arguments.json.write_text(json.dumps({**result, "pairs": rows}, indent=1) + "\n")
    return 0

"""``python -m workloads demo``: the same load twice, with equal shares and then with SPREDS."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from sidecar.traces.trace_reader import TraceError
from workloads.arguments import at_least, seed
from workloads.demo.half import (
    HalfResult,
    kept_gain,
    kept_in_words,
    mean_access_time_seconds,
    run_half,
)
from workloads.demo.loop import SidecarRun, local_cloud, running_sidecar
from workloads.demo.report_page import Report, write_report
from workloads.demo.scenario import (
    BUDGET_BYTES,
    TRACE_VARIABLE,
    DemoServer,
    demo_servers,
    find_trace,
)
from workloads.table import mebibytes, milliseconds, percent, say, text_table
from workloads.ycsb.client import ycsb_class_path

HELP = "run one load with equal shares and then with SPREDS, on real servers, with a local cloud"
HEADER = [
    "server",
    "size before",
    "after",
    "hits before",
    "after",
    "access time",
    "after",
    "requests",
]
LEAST_SECONDS = 10.0
REMARK = (
    "# Sampling and cycles are far denser than an operator would choose: a demonstration is short."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seed", type=seed, default=1, help="seed of the load and the backends (default: 1)"
    )
    parser.add_argument(
        "--trace",
        type=Path,
        metavar="FILE",
        help=f"the trace that one of the servers replays (default: {TRACE_VARIABLE}, or in "
        "../shared/traces)",
    )
    parser.add_argument(
        "--client",
        choices=("ours", "ycsb"),
        default="ours",
        help="ycsb: one of the servers, catalogue, is driven by YCSB; needs a JDK and Maven",
    )
    parser.add_argument(
        "--sampler",
        choices=("patch", "look"),
        default="patch",
        help="how the servers are sampled: by the patch in them (default), or by looking at keys",
    )
    parser.add_argument(
        "--seconds",
        type=at_least(LEAST_SECONDS),
        default=80.0,
        help="how long each half takes (default: 80)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("demo-output"),
        metavar="FOLDER",
        help="where the results go (default: demo-output)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run and return exit code 0; 1 if something failed; 2 for a bad trace."""
    try:
        trace = find_trace(arguments.trace)
        servers = demo_servers(
            arguments.seed, arguments.seconds, trace, with_ycsb=arguments.client == "ycsb"
        )
        if arguments.client == "ycsb":
            ycsb_class_path()  # so that what is missing is said at once
        if trace is None:
            _say(f"no trace found (--trace, {TRACE_VARIABLE}): all loads are generated")
        for server in servers:
            _say(f"{server.name}: {server.load.description}")
        _demonstrate(servers, arguments)
    except KeyboardInterrupt:
        _say("stopped, and cleaned up")
        raise
    except (TraceError, RuntimeError, OSError) as error:
        _say(str(error))
        return 2 if isinstance(error, TraceError) else 1
    return 0


def _demonstrate(servers: list[DemoServer], arguments: argparse.Namespace) -> None:
    output: Path = arguments.output
    output.mkdir(parents=True, exist_ok=True)
    log = output / "sidecar.log"
    with tempfile.TemporaryDirectory(prefix="spreds-demo-") as name:
        folder = Path(name)
        # The servers' folders go here too, whatever moment an interruption comes at.
        tempfile.tempdir = name
        began = time.monotonic()
        _say("starting the emulator and deploying the stack to it")
        with local_cloud(folder) as cloud:
            _say(f"deployed in {time.monotonic() - began:.0f} s; first run: equal shares")
            static = run_half("static", servers, BUDGET_BYTES, lambda _: nullcontext())
            _say("second run, of the same load: SPREDS")
            runs: list[SidecarRun] = []
            spreds = run_half(
                "SPREDS",
                servers,
                BUDGET_BYTES,
                lambda running: running_sidecar(
                    cloud, servers, running, BUDGET_BYTES, folder, log, runs, arguments.sampler
                ),
            )
        written = (folder / "node.toml").read_text()
        (output / "sidecar.toml").write_text(f"{REMARK}\n{written}")
    result = _result(servers, static, spreds, runs[0], arguments.seed)
    rows = _rows(servers, static, spreds)
    (output / "result.json").write_text(json.dumps(result, indent=2) + "\n")
    write_report(
        Report(
            result, servers, HEADER, rows, static, spreds, runs[0].observation, runs[0].decisions
        ),
        output / "report.html",
    )
    _print_summary(result, rows)
    _say(f"{time.monotonic() - began:.0f} s; see {output}/report.html and {output}/result.json")


def _result(
    servers: list[DemoServer],
    static: HalfResult,
    spreds: HalfResult,
    sidecar: SidecarRun,
    seed: int,
) -> dict[str, Any]:
    halves = {"static": static, "spreds": spreds}
    return {
        "seed": seed,
        "budget_bytes": BUDGET_BYTES,
        "max_total_maxmemory_bytes": max(
            half.max_total_maxmemory_bytes for half in halves.values()
        ),
        "cycles": sidecar.cycles,
        "mean_access_time_ms": {
            name: mean_access_time_seconds(servers, half.tallies) * 1000
            for name, half in halves.items()
        },
        "late_mean_access_time_ms": {  # of the second half of the load
            name: mean_access_time_seconds(servers, half.late_tallies) * 1000
            for name, half in halves.items()
        },
        # Of what the best sizes for each half of the load would have gained.
        "kept_gain": kept_gain(servers, BUDGET_BYTES, static, spreds),
        "servers": [
            {
                "name": server.name,
                "load": server.load.description,
                "weight": server.weight,
                "backend_latency_ms": server.backend_latency_seconds * 1000,
                "rate_per_second": server.rate_per_second,
                "maxmemory_bytes": {n: h.maxmemory_bytes[server.name] for n, h in halves.items()},
                "hit_ratio": {n: h.tallies[server.name].hit_ratio for n, h in halves.items()},
                "eat_ms": {
                    n: h.tallies[server.name].effective_access_time_seconds * 1000
                    for n, h in halves.items()
                },
                "requests": {n: h.tallies[server.name].requests for n, h in halves.items()},
            }
            for server in servers
        ],
    }


def _rows(servers: list[DemoServer], static: HalfResult, spreds: HalfResult) -> list[list[str]]:
    rows = []
    for server in servers:
        before, after = static.tallies[server.name], spreds.tallies[server.name]
        rows.append(
            [
                server.name,
                mebibytes(static.maxmemory_bytes[server.name]),
                mebibytes(spreds.maxmemory_bytes[server.name]),
                percent(before.hit_ratio),
                percent(after.hit_ratio),
                milliseconds(before.effective_access_time_seconds),
                milliseconds(after.effective_access_time_seconds),
                f"{before.requests:,}",
            ]
        )
    return rows


def _print_summary(result: dict[str, Any], rows: list[list[str]]) -> None:
    times = result["mean_access_time_ms"]
    print(text_table(HEADER, rows))
    print(
        f"\nweighted mean access time: {times['static']:.2f} ms with equal shares, "
        f"{times['spreds']:.2f} ms with SPREDS ({times['spreds'] / times['static'] - 1:+.1%})"
    )
    late = result["late_mean_access_time_ms"]
    print(
        f"in the second half of the load: {late['static']:.2f} ms and {late['spreds']:.2f} ms "
        f"({late['spreds'] / late['static'] - 1:+.1%})"
    )
    print(kept_in_words(result["kept_gain"]))
    print(
        f"{result['cycles']} cycles; the sum of maxmemory was at most "
        f"{mebibytes(result['max_total_maxmemory_bytes'])} of {mebibytes(result['budget_bytes'])}"
    )


def _say(text: str) -> None:
    say(f"demo: {text}")

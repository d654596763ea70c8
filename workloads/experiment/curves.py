"""Miss ratios that real servers predict against what they and others measure afterwards."""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import redis

from sidecar.config.sampling import SamplingConfig
from workloads.arguments import add_figures, add_traces, seed, write_json
from workloads.experiment.curve_cases import CASES, QUICK_CASES, TRACE_FILES, Case, load
from workloads.experiment.curve_prediction import FORMS, Run, SampledBinary, measure, working_set
from workloads.experiment.fast_replay import Load
from workloads.local_server import built, supported_servers
from workloads.table import say, text_table

HELP = "replay traces into real servers, patched, with the module and looked at, and compare curves"
SHARES = (0.05, 0.10, 0.25, 0.50, 1.0)
SERVERS = supported_servers()
WAYS = ("patch", "module", "look")
_REQUESTS = 320_000
_LEGEND = """\
change: how far what was measured lies from what the same servers measured while curves were learnt.
raw: as sampled. corrected: with the reads that were not sampled. planned: looking ahead, as a plan
is made of it. anchored: bent to what the server says of its own size; this one is judged, by what
is allowed: the target, and of a load that changes, its change beside. foretold: the error that the
estimate states of itself.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="run four cases with Redis only")
    parser.add_argument(
        "--server",
        choices=SERVERS,
        help="the server to run (default: all that build.sh all builds; quick: redis)",
    )
    parser.add_argument("--way", choices=WAYS, help="how it is sampled (default: both ways)")
    parser.add_argument(
        "--seed",
        type=seed,
        default=5,
        help="seed of sizes, TTLs, Zipf loads and samples (default: 5)",
    )
    parser.add_argument(
        "--live-objects",
        type=int,
        default=SamplingConfig.live_objects,
        metavar="N",
        help="objects that a monitor keeps (default: %(default)s, as in a sidecar)",
    )
    parser.add_argument("--only", metavar="WORD", help="run only cases with this in their name")
    add_figures(parser, "draw curves and measurements")
    add_traces(parser, *TRACE_FILES.values())


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0: every target is met; 1: one is missed, or a case's servers are too small for it;
    2: a trace or a server is missing."""
    all_cases: tuple[Case, ...] = QUICK_CASES if arguments.quick else CASES
    cases = [case for case in all_cases if (arguments.only or "") in case.name]
    if not cases:
        say(f"experiment curves: no case has {arguments.only!r} in its name")
        return 2
    server = arguments.server or ("redis" if arguments.quick else None)
    started = time.monotonic()
    results: list[dict[str, Any]] = []
    too_small = 0
    try:
        chosen = _sampled_binaries(server, arguments.way)
        loads = {c: load(c, arguments.traces, _REQUESTS, arguments.seed) for c in cases}
    except (OSError, ValueError) as error:
        say(f"experiment curves (--traces {arguments.traces}): {error}")
        return 2
    # Time passes for the servers as the load says, so they may share the processors.
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        try:
            for one in chosen:
                for case, runs in _replays(
                    pool, loads, one, arguments.seed, arguments.live_objects
                ):
                    try:
                        ended = [future.result() for future in runs]
                    except redis.OutOfMemoryError as error:
                        told = f"{case.name}, {one.name}: its smallest server is too small: {error}"
                        say(f"experiment curves: {told}")
                        too_small += 1
                        continue
                    results.append(_result(case, one.name, ended))
                    _print(results[-1])
                    write_json(arguments.json, results)
        except BaseException:
            say("experiment curves: ends the replays that have begun")
            # Waited for here: the pool's own end would take the others up again.
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    _print_summary(results)
    say(f"{time.monotonic() - started:.0f} s")
    if arguments.picture:
        draw(results, arguments.picture)
    return int(too_small > 0 or not all(result["met"] for result in results))


def _sampled_binaries(server: str | None, way: str | None) -> list[SampledBinary]:
    """Return the binaries that are chosen; ``None`` chooses all.

    Raises:
        FileNotFoundError: one is not built.
    """
    return [
        SampledBinary(
            f"{one.name}, {how}",
            built(str(one.patched_binary) if how == "patch" else one.stock_binary),
            built("lib/spreds.so") if how == "module" else None,
            is_looked_at=how == "look",
        )
        for one in SERVERS.values()
        if server == one.name or (server is None and not one.is_moving)
        for how in (*one.ways, "look")
        if way in (how, None)
    ]


def _replays(
    pool: ProcessPoolExecutor,
    loads: dict[Case, Load],
    chosen: SampledBinary,
    seed: int,
    live_objects: int,
) -> list[tuple[Case, list[Future[Run]]]]:
    """Start the replays of all cases."""
    # A working set has no TTLs and needs no eviction: one for each kind of keys.
    kinds = {_keys_of(case): loads[case] for case in loads}
    sets = {kind: pool.submit(working_set, part, chosen) for kind, part in kinds.items()}
    started = []
    for case, part in loads.items():
        if chosen.is_looked_at and case.policy.endswith("-lfu"):
            continue  # no key has an idle time
        empty_bytes, full_bytes = sets[_keys_of(case)].result()
        sizes = [round(empty_bytes + share * (full_bytes - empty_bytes)) for share in SHARES]
        runs = [
            pool.submit(measure, case, part, chosen, sizes, place, seed + place, live_objects)
            for place in range(len(sizes))
        ]
        started.append((case, runs))
    return started


def _keys_of(case: Case) -> tuple[str, str, float]:
    return case.trace, case.sizes, case.hash_share


def _result(case: Case, server: str, runs: list[Run]) -> dict[str, Any]:
    """One case on one server. ``within`` tells how often the anchored error is at most so many
    times what the estimate said of itself.

    A load that is no other than before must be predicted as well as the target says. Of one that
    changes, the very miss ratios of the time that was learnt would be off by its ``change``, which
    is allowed beside."""
    measured = np.array([run.measured for run in runs])
    change = np.abs(np.array([run.learnt for run in runs]) - measured)
    allowed = np.zeros(2) if case.is_stationary else np.array([change.mean(), change.max()])
    allowed += [case.target.mean, case.target.worst]
    errors = np.abs(np.array([run.predicted for run in runs]) - measured)  # (server, form, size)
    foretold = np.array([run.curve_error_ratio for run in runs])
    mean, worst = errors.mean(axis=(0, 2)).tolist(), errors.max(axis=(0, 2)).tolist()
    return {
        "case": case.name,
        "server": server,
        "sizes_bytes": runs[0].sizes_bytes,
        "learnt": [run.learnt for run in runs],
        "measured": measured.tolist(),
        "change": change.tolist(),
        "runs": [asdict(run) for run in runs],
        "mean_error": dict(zip(FORMS, mean, strict=True)),
        "worst_error": dict(zip(FORMS, worst, strict=True)),
        "within": {
            str(times): float(np.mean(errors[:, -1] <= times * foretold[:, None]))
            for times in (1, 2)
        },
        "target": asdict(case.target),
        "allowed": allowed.tolist(),
        "met": bool(mean[-1] <= allowed[0] and worst[-1] <= allowed[1]),
    }


def _print(result: dict[str, Any]) -> None:
    print(f"\n{result['case']}, {result['server']}")
    rows = [
        [words, *(f"{ratio:.4f}" for ratio in result[key])]
        for words, key in (("measured", "measured"), ("while the curves were learnt", "learnt"))
    ]
    for share, one in zip(SHARES, result["runs"], strict=True):
        for form, ratios in zip(FORMS, one["predicted"], strict=True):
            name = f"{form}, from the server at {share:.0%}"
            rows.append([name, *(f"{ratio:.4f}" for ratio in ratios)])
    print(text_table(["of the working set", *(f"{share:.0%}" for share in SHARES)], rows))
    print(flush=True)


def _print_summary(results: list[dict[str, Any]]) -> None:
    rows = []
    for result in results:
        mean, worst = result["mean_error"], result["worst_error"]
        change = result["change"]
        rows.append(
            [
                f"{result['case']}, {result['server']}",
                f"{np.mean(change):.4f} / {max(change):.4f}",
                *(f"{mean[form]:.4f} / {worst[form]:.4f}" for form in FORMS),
                "{:.4f} / {:.4f}".format(*result["allowed"]),
                "met" if result["met"] else "MISSED",
                f"{result['within']['1']:.0%} / {result['within']['2']:.0%}",
            ]
        )
    print(_LEGEND)
    head = ["mean / worst error", "change", *FORMS, "allowed", "", "within 1 / 2 foretold"]
    print(text_table(head, rows))


def draw(results: list[dict[str, Any]], path: Path) -> None:
    """A panel for each case and server, in the format that the file's ending names.

    Raises:
        ValueError: an ending that matplotlib does not know.
        OSError: the file cannot be written.
    """
    from matplotlib.figure import Figure

    columns = min(3, len(results))
    rows = -(-len(results) // columns)
    figure = Figure(figsize=(5 * columns, 3.6 * rows), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for panel, result in zip(panels, results, strict=False):
        megabytes = [size / 1e6 for size in result["sizes_bytes"]]
        for size, run in zip(megabytes, result["runs"], strict=True):
            sizes, ratios = zip(*run["curve"], strict=True)
            label = f"from {size:.1f} MB"
            panel.plot([size / 1e6 for size in sizes], ratios, linewidth=1, label=label)
        panel.plot(megabytes, result["measured"], "ko", markersize=5, label="measured")
        panel.set(
            title=f"{result['case']}, {result['server']}",
            xlabel="maxmemory, MB",
            ylabel="miss ratio",
            xscale="log",
            xlim=(0.9 * megabytes[0], 1.1 * megabytes[-1]),
            ylim=(0, 1.25 * max(result["measured"])),
        )
        panel.set_xticks(megabytes, [f"{size:.1f}" for size in megabytes])
        panel.minorticks_off()
        panel.grid(alpha=0.3)
        panel.legend(fontsize="x-small")
    for panel in panels[len(results) :]:
        panel.set_visible(False)
    figure.savefig(path, dpi=120)

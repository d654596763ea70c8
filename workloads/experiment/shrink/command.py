"""Clients' latencies while a server loses half of its memory, by hand and by the sidecar."""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Callable, Sequence

from workloads.arguments import at_least, between, positive
from workloads.experiment.shrink.clients import Clients
from workloads.experiment.shrink.measurement import WAYS, Percentiles, Shrink, measure
from workloads.table import milliseconds, say, text_table

HELP = """What clients feel of a server that loses half of its memory. Needs 'make setup' and a
quiet machine. A run takes half a minute and as long as the server shrinks, and the default is 48 of
them (4 loads, 4 ways, 3 runs), about an hour; '--size 100 --runs 1 --load 0' takes 3 minutes. The
table has latencies while the server shrinks; what the columns mean is printed below it."""
LOADS = (Clients(1, None), Clients(50, None), Clients(1, 4000), Clients(50, 4000))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--size",
        type=_mebibytes,
        default=500,
        metavar="MIB",
        help="of the server before it shrinks, at least 10 (default: 500)",
    )
    parser.add_argument("--runs", type=positive, default=3, help="of each (default: 3)")
    parser.add_argument(
        "--after",
        type=between(0, math.inf),
        default=20,
        metavar="SECONDS",
        help="for which it is looked at once it is small (default: 20)",
    )
    parser.add_argument(
        "--way",
        choices=WAYS,
        nargs="+",
        default=list(WAYS),
        help="in which it loses its memory: not at all, by one CONFIG SET, by the sidecar at once, "
        "by the sidecar step by step (default: all)",
    )
    loads = "; ".join(f"{number}: {load.name}" for number, load in enumerate(LOADS))
    parser.add_argument(
        "--load",
        type=int,
        choices=range(len(LOADS)),
        nargs="+",
        default=list(range(len(LOADS))),
        help=f"{loads} (default: all)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, each run apart")


def run(options: argparse.Namespace) -> int:
    """Measure and print; 0 once it is done, 1 if it could not be."""
    try:
        return _run(options)
    except (RuntimeError, OSError) as error:
        say(f"experiment shrink: {error}")
        return 1
    except KeyboardInterrupt:
        say("experiment shrink: interrupted; all that was started is ended")
        raise


def _mebibytes(text: str) -> int:
    return positive(str(at_least(10)(text)))


def _run(options: argparse.Namespace) -> int:
    found: list[list[Shrink]] = []
    for place in options.load:
        # One way after the other, again and again: what else the machine does meets all of them.
        runs = [
            [measure(LOADS[place], way, WAYS[way], options.size, options.after)]
            for _ in range(options.runs)
            for way in options.way
        ]
        found += [
            [one for (one,) in runs[number :: len(options.way)]]
            for number in range(len(options.way))
        ]
    if options.json:
        print(json.dumps([one.document() for group in found for one in group], indent=1))
    else:
        print(_table(found))
    return 0


def _table(found: Sequence[Sequence[Shrink]]) -> str:
    header = ["clients", "way", "shrink s", "p50", "p99", "p99.9", "max", "p99 ratio", "after"]
    rows = []
    for group in found:
        ratios = sorted(one.during.p99 / one.before.p99 for one in group)
        after = statistics.median(one.after.p99 / one.before.p99 for one in group)
        waits = [one.rss_seconds for one in group]
        rss = [one.rss_bytes[1] / one.rss_bytes[0] for one in group]
        rows.append(
            [
                group[0].clients,
                group[0].way,
                f"{statistics.median(one.shrink_seconds for one in group):.1f}",
                *(_median(group, part) for part in _PARTS),
                f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})",
                f"{after:.2f}",
                "never" if None in waits else f"{statistics.median(filter(None, waits)):.1f}",
                f"{statistics.median(rss):.2f}",
            ]
        )
    header += ["RSS s", "RSS of before"]
    return (
        f"{text_table(header, rows)}\n\n"
        "Latencies during the shrink; medians of the runs. p99 ratio: to the seconds before, on\n"
        "the same server; after: p99 once it is small, to the same. RSS: seconds until resident\n"
        "memory had followed, and at the end what it was of that before."
    )


def _median(group: Sequence[Shrink], part: Callable[[Percentiles], float]) -> str:
    return milliseconds(statistics.median(part(one.during) for one in group))


_PARTS: tuple[Callable[[Percentiles], float], ...] = (
    lambda found: found.p50,
    lambda found: found.p99,
    lambda found: found.p999,
    lambda found: found.maximum,
)

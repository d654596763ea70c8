"""Curves of servers with a hundred thousand to a hundred million keys."""

from __future__ import annotations

from statistics import median
from typing import Any

from workloads.experiment.growth.learning import learn, stack_bytes
from workloads.experiment.picture import reach, spread
from workloads.experiment.study import Data, Figure, Headline, Scope, Study, Table

KEYS = (10**5, 10**6, 10**7, 10**8)
QUICK_KEYS = (10**5, 10**6)
# Objects that the sidecar follows: its default, and four times as many.
LIVE_OBJECTS = (8192, 32_768)
QUICK_LIVE_OBJECTS = (1024,)
# A little more is sampled than is kept, so that the threshold has to fall.
SAMPLED_RATIO = 1.25
# Reads for each object that is kept: before counting begins, and counted.
BEFORE, COUNTED = 20, 10
# Findings of the project: what a curve should hold.
WANTED_MEAN_ERROR = 0.005
# Below it is what seeds differ by.
SAME_RATIO = 1.5


def measure(scope: Scope) -> Data:
    """Measure errors, cost and memory for each number of keys and of objects."""
    counts, lives = (QUICK_KEYS, QUICK_LIVE_OBJECTS) if scope.is_quick else (KEYS, LIVE_OBJECTS)
    cases = [(count, live) for count in counts for live in lives]
    rows = []
    for place, (count, live) in enumerate(cases):
        rate = min(1.0, SAMPLED_RATIO * live / count)
        found = []
        for number, seed in enumerate(scope.seeds):
            share = (place + number / len(scope.seeds)) / len(cases)
            scope.progress(f"{count:,} keys", share)
            found.append(learn(count, rate, COUNTED * live, live, seed, BEFORE * live))
        rows.append(
            {
                "keys": count,
                "live_objects": live,
                "mean_error": [one.mean_error for one in found],
                "worst_error": [one.worst_error for one in found],
                "small_error": [one.small_error for one in found],
                "microseconds_a_read": [1e6 * one.processor_seconds / one.samples for one in found],
                "bytes": stack_bytes(count, rate, live, scope.seeds[0]),
            }
        )
    return {"rows": rows}


def _of_default(data: Data) -> list[dict[str, Any]]:
    first = data["rows"][0]["live_objects"]
    return [row for row in data["rows"] if row["live_objects"] == first]


def conclude(data: Data) -> str:
    """Say whether keys matter."""
    rows = _of_default(data)
    least, most = rows[0], rows[-1]
    errors = [median(row["mean_error"]) for row in (least, most)]
    smalls = [median(row["small_error"]) for row in (least, most)]
    is_flat = errors[1] < SAME_RATIO * errors[0] and most["bytes"] < SAME_RATIO * least["bytes"]
    return (
        f"Following {least['live_objects']:,} objects, the curve of {most['keys']:,} keys is off "
        f"by {errors[1]:.4f}, that of {least['keys']:,} by {errors[0]:.4f}; memory goes from "
        f"{_kib(least['bytes'])} to {_kib(most['bytes'])}. "
        + ("More keys make neither worse. " if is_flat else "So more keys do cost something. ")
        + f"Of very small caches, 0.1 to 5 % of the keys, it is off by {smalls[1]:.3f} and "
        f"{smalls[0]:.3f}: few of the sampled objects are as near as that."
    )


def missed(data: Data) -> list[str]:
    """Curves that are not as good as wanted."""
    return [
        f"{row['keys']:,} keys, {row['live_objects']:,} objects: mean error "
        f"{median(row[key]):.4f}{of}, wanted {WANTED_MEAN_ERROR}"
        for row in data["rows"]
        for key, of in (("mean_error", ""), ("small_error", " of caches of 0.1 to 5 % of the keys"))
        # Fewer are followed only where it is to be quick.
        if row["live_objects"] >= LIVE_OBJECTS[0] and median(row[key]) > WANTED_MEAN_ERROR
    ]


def _kib(size_bytes: float) -> str:
    return f"{size_bytes / 1024:,.0f} KiB"


def tables(data: Data) -> list[Table]:
    """Make a row for each case."""
    return [
        Table.of(
            "Median (least to greatest) over seeds; errors of the miss ratio, by size as a share "
            "of all keys",
            data["rows"],
            {
                "keys": lambda row: f"{row['keys']:,}",
                "objects followed": lambda row: f"{row['live_objects']:,}",
                "mean error, 5 to 100 %": lambda row: spread(row["mean_error"], "{:.4f}".format),
                "mean error, 0.1 to 5 %": lambda row: spread(row["small_error"], "{:.4f}".format),
                "worst error, 5 to 100 %": lambda row: spread(row["worst_error"], "{:.4f}".format),
                "of a read": lambda row: spread(row["microseconds_a_read"], "{:.1f} µs".format),
                "memory": lambda row: _kib(row["bytes"]),
            },
        )
    ]


def draw(figure: Figure, data: Data) -> None:
    """Errors on the left, memory on the right."""
    left, right = figure.subplots(1, 2)
    for place, live in enumerate(dict.fromkeys(row["live_objects"] for row in data["rows"])):
        rows = [row for row in data["rows"] if row["live_objects"] == live]
        keys = [row["keys"] for row in rows]
        middles, around = reach(row["mean_error"] for row in rows)
        style = ("C0o-", "C1s--")[place % 2]
        beside = [count * 1.15**place for count in keys]  # bars are not on each other
        left.errorbar(beside, middles, around, fmt=style, capsize=3, label=f"{live:,} objects")
        right.plot(keys, [row["bytes"] / 1024 for row in rows], style, label=f"{live:,} objects")
    left.set(xscale="log", xlabel="keys of the server", ylabel="mean error of the miss ratio")
    right.set(xscale="log", xlabel="keys of the server", ylabel="memory for its curve, KiB")
    for panel in (left, right):
        panel.set_ylim(0, 1.08 * panel.get_ylim()[1])
        panel.grid(alpha=0.3)
        panel.legend(fontsize="small")


def headlines(data: Data) -> list[Headline]:
    """Return the errors at the most keys."""
    row = _of_default(data)[-1]
    return [
        Headline(
            f"error of the miss-ratio curve of {row['keys']:,} keys (Zipf 0.99), mean over sizes "
            "of 5 to 100 % of them; of 0.1 to 5 %",
            f"{median(row['mean_error']):.4f}; {median(row['small_error']):.4f}",
        ),
        Headline(f"memory for that curve, {row['live_objects']:,} objects", _kib(row["bytes"])),
    ]


STUDY = Study(
    name="growth-keys",
    title="Keys of a server",
    question="Do curves become worse, or dearer, as a server has more keys?",
    beside="The SHARDS paper has constant memory and an error of 2.6 % at most (Waldspurger and "
    "others, FAST'15, cited in section 8.4.2).",
    method=(
        "Zipf 0.99, objects of one size; only sampled keys are drawn. Each object that is "
        f"followed was read {BEFORE} times on average before {COUNTED} reads of it were counted. "
        "The error is about the next request, over 20 sizes from 5 to 100 % of all keys, and "
        "over 20 from 0.1 to 5 %, by ratio; the truth is Che's approximation, which a test holds "
        "against playing every request."
    ),
    measure=measure,
    conclude=conclude,
    tables=tables,
    draw=draw,
    headlines=headlines,
    missed=missed,
    differences=(
        "The curves are SHARDS' with its correction; the sidecar also bends them to what the "
        "server itself reports. Real traces are in `experiment curves`.",
    ),
    size_inches=(8.0, 3.4),
)

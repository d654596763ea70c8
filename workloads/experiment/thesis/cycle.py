"""What a cycle's way takes over the cloud, and inside the sidecar (section 8.5.2)."""

from __future__ import annotations

import os
import statistics
import tempfile
from pathlib import Path
from unittest.mock import patch

from sidecar.storage.store import FolderStore
from workloads.demo.loop import NODE, controller_text, local_cloud
from workloads.experiment.picture import quartiles, spread
from workloads.experiment.study import Data, Figure, Headline, Scope, Study, StudyError, Table
from workloads.experiment.thesis.timed_cycles import Way, cloud_settings, timed
from workloads.local_node import LocalNode
from workloads.quiet_log import quiet_log
from workloads.table import milliseconds

THESIS_SECONDS = {"cloud": 1.8, "embedded": 0.1}
WANTED_SECONDS = 0.5
CYCLES, QUICK_CYCLES = 15, 3
WARM_UP_CYCLES, QUICK_WARM_UP_CYCLES = 2, 1
WAYS = {"cloud": "over the cloud (local emulator)", "embedded": "inside the sidecar (always on)"}
STEPS = {"taken": "the plan is taken", "in_force": "all sizes are in force"}


def measure(scope: Scope) -> Data:
    """Cycles of one node, whose sidecar has the one controller and then the other, for each seed.

    Raises:
        StudyError: the cloud's plans did not come from it.
    """
    count, warm_up = (
        (QUICK_CYCLES, QUICK_WARM_UP_CYCLES) if scope.is_quick else (CYCLES, WARM_UP_CYCLES)
    )
    seconds: dict[str, dict[str, list[list[float]]]] = {
        way: {step: [] for step in STEPS} for way in WAYS
    }
    scope.progress("starting the emulator, deploying the stack", 0.0)
    with (
        quiet_log(),  # of the queue that is gone before its reader
        tempfile.TemporaryDirectory(prefix="spreds-cycle-") as folder,
        local_cloud(Path(folder)) as cloud,
        # The sidecar is in this process, and looks for credentials there.
        patch.dict(os.environ, cloud.environment),
    ):
        over_cloud = controller_text(cloud)
        inside = '[controller]\nkind = "embedded"\nfolder = "documents"\n'
        with LocalNode(NODE, inside) as node:
            ways = {
                "cloud": Way(over_cloud, cloud_settings(over_cloud)),
                "embedded": Way(inside, FolderStore(node.folder / "documents")),
            }
            for done, seed in enumerate(scope.seeds):
                # Who comes first changes, so that neither has the emptier node each time.
                order = list(WAYS) if seed % 2 else list(reversed(WAYS))
                for place, way in enumerate(order):
                    share = (done + place / len(order)) / len(scope.seeds)
                    scope.progress(f"seed {seed}, {way}", 0.1 + 0.9 * share)
                    cycles = timed(node, ways[way], seed, count, warm_up)
                    if cycles.stand_ins and way == "cloud":
                        raise StudyError("the emulator did not plan in time")
                    seconds[way]["taken"].append(cycles.taken_seconds)
                    seconds[way]["in_force"].append(cycles.in_force_seconds)
    return {"cycles": count, "seeds": list(scope.seeds), "seconds": seconds}


def _medians(data: Data, way: str, step: str) -> list[float]:
    """Return the median of each seed."""
    return [statistics.median(one) for one in data["seconds"][way][step]]


def _median(data: Data, way: str, step: str = "in_force") -> float:
    """Return the median of all seeds' medians."""
    return statistics.median(_medians(data, way, step))


def conclude(data: Data) -> str:
    """Say how much longer the cloud's way is."""
    cloud, embedded = (_median(data, way) for way in WAYS)
    longer = cloud - embedded
    return (
        f"From an observation that is handed to the controller to sizes in force a warm cycle "
        f"takes "
        f"{milliseconds(cloud)} over the cloud's services on a local emulator and "
        f"{milliseconds(embedded)} with the controller inside the sidecar: the way over the "
        f"cloud is {milliseconds(abs(longer))} {'longer' if longer > 0 else 'shorter'}, "
        f"{cloud / embedded:.1f} times the other's; of an hour between cycles it is "
        f"{cloud / 36:.4f} %."
    )


def tables(data: Data) -> list[Table]:
    """Medians over seeds, quartiles over cycles, and what the thesis reports."""
    rows = []
    for way, words in WAYS.items():
        for step, until in STEPS.items():
            of_all = [value for one in data["seconds"][way][step] for value in one]
            first, _, third = quartiles(of_all)
            thesis = f"{THESIS_SECONDS[way] * 1000:,.0f} ms" if step == "in_force" else ""
            rows.append(
                [
                    f"{words}, until {until}",
                    spread(_medians(data, way, step), milliseconds),
                    f"{milliseconds(first)} to {milliseconds(third)}",
                    milliseconds(max(of_all)),
                    thesis,
                ]
            )
    return [
        Table(
            f"Time since the observation was handed to the controller (over the cloud, since its "
            f"PUT), of {data['cycles']} cycles for each of {len(data['seeds'])} "
            f"seed{'s' if len(data['seeds']) > 1 else ''} and each controller",
            ["", "median (least to greatest seed's)", "quartiles", "most", "thesis (average)"],
            rows,
        )
    ]


def draw(figure: Figure, data: Data) -> None:
    """Draw all cycles, and the medians."""
    panel = figure.subplots()
    for place, way in enumerate(WAYS):
        for step, marker in (("taken", "o"), ("in_force", "s")):
            for number, one in enumerate(data["seconds"][way][step]):
                at = place + (0.18 if step == "in_force" else -0.18)
                spots = [at + 0.02 * (number - len(data["seeds"]) / 2)] * len(one)
                panel.plot(
                    spots,
                    [value * 1000 for value in one],
                    marker,
                    color="C0" if step == "taken" else "C1",
                    markersize=3,
                    alpha=0.5,
                    label=STEPS[step] if place == number == 0 else None,
                )
        panel.hlines(
            THESIS_SECONDS[way] * 1000,
            place - 0.35,
            place + 0.35,
            colors="k",
            linestyles="dotted",
            label="" if place else "the thesis' average",
        )
    panel.set_yscale("log")
    panel.set_ylabel("ms since the observation was handed over")
    panel.set_xticks(range(len(WAYS)), list(WAYS.values()))
    panel.set_xlim(-0.6, len(WAYS) - 0.4)
    panel.grid(axis="y", alpha=0.3)
    panel.legend(fontsize="small")


def headlines(data: Data) -> list[Headline]:
    """Compare both controllers."""
    return [
        Headline(
            "from an observation to sizes in force, over the emulated cloud and inside the sidecar",
            " and ".join(milliseconds(_median(data, way)) for way in WAYS),
            "1,800 ms on AWS and 100 ms always on, on average",
        )
    ]


def missed(data: Data) -> list[str]:
    """A cycle over the cloud is wanted in half a second."""
    found = _median(data, "cloud")
    if found <= WANTED_SECONDS:
        return []
    return [
        f"a cycle over the emulated cloud takes {milliseconds(found)}, and "
        f"{milliseconds(WANTED_SECONDS)} was wanted"
    ]


STUDY = Study(
    name="cycle",
    title="The overhead of a cycle (section 8.5.2)",
    question="How long does a cycle take over the cloud, beside a controller that is always on?",
    beside=(
        "On average about 1,800 ms over S3, SNS and Lambda on AWS and about 100 ms with an "
        "external controller that is always on, which the text calls 9 times and is 18 (section "
        "8.5.2)."
    ),
    method=(
        "The stack, deployed by `cdk deploy` to a local emulator of AWS, real servers, a real "
        "sidecar, a warm function; beside it the same node with the embedded controller. A team "
        "changes its server's minimum before each cycle, so that each plan moves memory. The "
        "clock runs from the moment at which the observation is handed to the controller: over the "
        "cloud its PUT begins, inside the sidecar planning does."
    ),
    measure=measure,
    conclude=conclude,
    tables=tables,
    draw=draw,
    headlines=headlines,
    differences=(
        "The emulator has the steps of AWS (S3, the function, SNS, SQS) and neither its network "
        "nor its queues, and runs on the machine that runs the servers: its figure says what our "
        "steps take, and not what AWS takes.",
        "Our always-on controller is in the sidecar's process, so that nothing goes over a "
        "network; the thesis' was an external one.",
        "The thesis has averages, ours are medians, which a few slow cycles do not move.",
    ),
    missed=missed,
)

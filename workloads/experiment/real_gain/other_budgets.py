"""What a plan says of other budgets, and what real servers do with them."""

from __future__ import annotations

import tempfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from solver_lambda.documents.plan import WhatIf
from workloads.experiment.gain.loads import ZipfLoad
from workloads.experiment.gain.mix import Mix, MixServer, Phase, Requests, Targets, record
from workloads.experiment.picture import spread
from workloads.experiment.real_gain.play import node_settings, play
from workloads.experiment.study import Data, Figure, Headline, Scope, Study, StudyError, Table
from workloads.node_programs import plans_in, running_sidecar

BUDGET_BYTES = 24 << 20
RATIOS = (0.5, 2.0)
QUICK_RATIOS = (0.5,)
CYCLES, CYCLE_SECONDS = 16, 4.0
# What is said is of the plan after this cycle, what came is of those after it.
LEARNT_CYCLES = 10
# Wanted: the sum of what curves and the path to the sizes may be off.
WANTED_ERROR = 0.05
# Keys, skew, bytes of an object, requests a cycle, backend latency in seconds: drawn for this
# study, and no mix of ``experiment gain``.
_SERVERS = (
    (60_000, 0.9, 420, 16_000, 0.030),
    (25_000, 0.7, 700, 9_000, 0.060),
    (12_000, 1.1, 300, 24_000, 0.008),
    (40_000, 0.8, 250, 12_000, 0.015),
)


def _mix(budget_bytes: int, *, is_quick: bool) -> Mix:
    servers = tuple(
        MixServer(
            name=f"s{number}",
            weight=1.0,
            backend_latency_seconds=latency,
            phases=(Phase(1, (requests,), ZipfLoad(keys, skew, size)),),
        )
        for number, (keys, skew, size, requests, latency) in enumerate(_SERVERS)
    )
    cycles = LEARNT_CYCLES + 2 if is_quick else CYCLES
    return Mix("budgets", "", budget_bytes, cycles, 3600.0, False, Targets(), servers)


def measure(scope: Scope) -> Data:
    """Return what was said of each budget by the plan of today's, and what it came to.

    Raises:
        StudyError: a server or the sidecar failed.
    """
    ratios = QUICK_RATIOS if scope.is_quick else RATIOS
    rows: list[dict[str, object]] = []
    steps = len(scope.seeds) * (1 + 2 * len(ratios))
    try:
        for place, seed in enumerate(scope.seeds):
            mix = _mix(BUDGET_BYTES, is_quick=scope.is_quick)
            requests = record(mix, seed)
            done = place * (1 + 2 * len(ratios))
            scope.progress("today's budget", done / steps)
            came, said = _adapted(mix, requests)
            rows.append(_row(1.0, said, came, None))
            for number, ratio in enumerate(ratios):
                other = replace(mix, budget_bytes=round(ratio * BUDGET_BYTES))
                scope.progress(f"{ratio:g} times as much", (done + 1 + 2 * number) / steps)
                came, _ = _adapted(other, requests)
                equal = play(other, requests, CYCLE_SECONDS, lambda _: nullcontext()).outcome
                rows.append(_row(ratio, said, came, equal.access_seconds(LEARNT_CYCLES)))
    except (RuntimeError, OSError) as error:
        raise StudyError(f"a node could not be played: {error}") from error
    return {"rows": rows}


def _adapted(mix: Mix, requests: list[Requests]) -> tuple[float, dict[int, WhatIf]]:
    """The mean access time with SPREDS, and what its plan said before of other budgets."""
    with tempfile.TemporaryDirectory(prefix="spreds-budgets-") as name:
        folder = Path(name)
        settings = node_settings(mix, CYCLE_SECONDS)
        played = play(
            mix, requests, CYCLE_SECONDS, lambda running: running_sidecar(settings, running, folder)
        )
        plan = plans_in(folder)[LEARNT_CYCLES - 1]
    said = {one.budget_bytes: one for one in plan.what_if}
    return played.outcome.access_seconds(LEARNT_CYCLES), said


def _row(
    ratio: float, said: dict[int, WhatIf], came_seconds: float, equal_seconds: float | None
) -> dict[str, object]:
    found = said[round(ratio * BUDGET_BYTES)]
    return {
        "ratio": ratio,
        "said_seconds": found.mean_access_time_seconds,
        "came_seconds": came_seconds,
        "equal_said_seconds": found.equal_sizes_seconds if equal_seconds is not None else None,
        "equal_came_seconds": equal_seconds,
    }


def _by_ratio(data: Data) -> list[tuple[float, list[Data]]]:
    rows: list[Data] = data["rows"]
    return [
        (ratio, [row for row in rows if row["ratio"] == ratio])
        for ratio in sorted({row["ratio"] for row in rows})
    ]


def _error(row: Data) -> float:
    """Compare what came with SPREDS to what was said; positive: it was longer."""
    return float(row["came_seconds"] / row["said_seconds"] - 1)


def conclude(data: Data) -> str:
    """Say how far off the curve of the node is."""
    errors = [abs(_error(row)) for row in data["rows"]]
    equal = [
        abs(row["equal_came_seconds"] / row["equal_said_seconds"] - 1)
        for row in data["rows"]
        if row["equal_came_seconds"]
    ]
    return (
        f"What a plan says of other budgets comes: the mean access time was "
        f"{100 * sum(errors) / len(errors):.1f} % off on average and {100 * max(errors):.1f} % at "
        f"most, with equal sizes {100 * max(equal):.1f} % at most."
    )


def missed(data: Data) -> list[str]:
    """Budgets that brought something else."""
    return [
        f"{row['ratio']:g} times the budget: {100 * _error(row):+.1f} % of what was said, wanted "
        f"±{100 * WANTED_ERROR:.0f} %"
        for row in data["rows"]
        if abs(_error(row)) > WANTED_ERROR
    ]


def tables(data: Data) -> list[Table]:
    """Make a row for each budget."""

    def times(rows: list[Data], key: str) -> str:
        values = [1e3 * row[key] for row in rows if row[key] is not None]
        return spread(values, "{:.2f} ms".format) if values else "-"

    return [
        Table.of(
            f"Mean access time of cycles {LEARNT_CYCLES + 1} and later, beside what the plan after "
            f"cycle {LEARNT_CYCLES} of today's budget said; median (least to greatest) of seeds",
            _by_ratio(data),
            {
                "budget": lambda row: f"{row[0] * BUDGET_BYTES / 2**20:g} MiB",
                "said": lambda row: times(row[1], "said_seconds"),
                "came": lambda row: times(row[1], "came_seconds"),
                "equal sizes: said": lambda row: times(row[1], "equal_said_seconds"),
                "equal sizes: came": lambda row: times(row[1], "equal_came_seconds"),
            },
        )
    ]


def draw(figure: Figure, data: Data) -> None:
    """Draw what was said as lines, what came as points."""
    panel = figure.subplots()
    budgets = [ratio * BUDGET_BYTES / 2**20 for ratio, _ in _by_ratio(data)]
    for colour, label, said, came in (
        ("C0", "divided by SPREDS", "said_seconds", "came_seconds"),
        ("C1", "equal sizes", "equal_said_seconds", "equal_came_seconds"),
    ):
        known = [
            (budget, row[said], row[came])
            for budget, (_, rows) in zip(budgets, _by_ratio(data), strict=True)
            for row in rows
            if row[came] is not None
        ]
        sizes, expected, found = zip(*known, strict=True)
        panel.plot(sizes, [1e3 * one for one in expected], f"{colour}-", label=f"{label}, said")
        panel.plot(sizes, [1e3 * one for one in found], f"{colour}o", label=f"{label}, came")
    panel.set(xlabel="memory for all servers, MiB", ylabel="mean access time, ms", ylim=(0, None))
    panel.grid(alpha=0.3)
    panel.legend(fontsize="small")


def headlines(data: Data) -> list[Headline]:
    """Return the worst of the errors."""
    worst = max(abs(_error(row)) for row in data["rows"])
    return [
        Headline(
            "mean access time of real servers with half to twice the memory, beside what the plan "
            "said of it: apart by at most",
            f"{100 * worst:.1f} %",
        )
    ]


STUDY = Study(
    name="other-budgets",
    title="Other budgets",
    question="Does a node with less or more memory become as fast as its plan said?",
    beside="The thesis plans for one budget, and says nothing of others.",
    method=(
        f"Four real servers with a real sidecar and {BUDGET_BYTES >> 20} MiB, cycles of "
        f"{CYCLE_SECONDS:g} s. The same requests are then played with other budgets, with SPREDS "
        "and with equal sizes, from equal sizes each time. Misses are counted; what one takes is "
        "the server's backend latency."
    ),
    measure=measure,
    conclude=conclude,
    tables=tables,
    draw=draw,
    headlines=headlines,
    missed=missed,
    differences=(
        "All keys are sampled, as cycles are short. The load stays the same, so that what comes "
        "can be what was said.",
    ),
    size_inches=(6.0, 3.4),
)

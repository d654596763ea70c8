"""Package-aware scheduling: what the packages of a function cost its cold start."""

from __future__ import annotations

import random
import statistics
import tempfile
from typing import Any

from workloads.experiment.papers.import_cases import (
    CASES,
    MOST_MODULES,
    beyond_budget,
    fresh_process,
    size_bytes,
)
from workloads.experiment.picture import reach, spread
from workloads.experiment.study import Data, Figure, Headline, Scope, Study, Table
from workloads.table import mebibytes, milliseconds

ROUNDS = 3
# The dearest are left to the full form.
QUICK_CASES = ("bare", "numpy", "handler", "held", "client")


def measure(scope: Scope) -> Data:
    """Fresh processes of all cases, in another order in each round.

    Raises:
        StudyError: a package is missing.
    """
    rounds = 1 if scope.is_quick else ROUNDS
    cases = {name: CASES[name] for name in QUICK_CASES} if scope.is_quick else CASES
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    last: dict[str, tuple[float, int, int]] = {}
    sizes = {name: size_bytes(case.packages) for name, case in cases.items()}
    done = 0
    with tempfile.TemporaryDirectory(prefix="spreds-bytecode-") as empty:
        for case in () if scope.is_quick else cases.values():
            fresh_process(case, empty)  # files come into the page cache, bytecode beside them
        for seed in scope.seeds:
            order = list(cases) * rounds
            random.Random(seed).shuffle(order)
            found: dict[str, list[float]] = {name: [] for name in cases}
            for name in order:
                scope.progress(CASES[name].title, done / (len(order) * len(scope.seeds)))
                last[name] = fresh_process(CASES[name], empty)
                found[name].append(last[name][0])
                done += 1
            for name, values in found.items():
                seconds[name].append(statistics.median(values))
    return {
        "rounds": rounds,
        "cases": {
            name: {
                "title": case.title,
                "cpu_seconds": seconds[name],
                "modules": last[name][1],
                "peak_memory_bytes": last[name][2],
                "package_bytes": sizes[name],
            }
            for name, case in cases.items()
        },
        "most_modules": MOST_MODULES,
        "beyond_budget": beyond_budget(),
    }


def conclude(data: Data) -> str:
    """The handler beside what it might have been."""
    cases = data["cases"]
    handler, numpy = _median(cases["handler"]), _median(cases["numpy"])
    scipy = f", with scipy.stats {_ratio(data, 'scipy'):.1f} times" if "scipy" in cases else ""
    kept = "is kept" if not data["beyond_budget"] else "is NOT kept"
    return (
        f"The handler takes {milliseconds(handler)} of a processor until it is imported, "
        f"where numpy alone takes {milliseconds(numpy)}; with boto3 and a client of S3 it "
        f"would be {_ratio(data, 'client'):.1f} times that{scipy}, and where a worker holds numpy "
        f"already, {_ratio(data, 'held'):.2f} times. The function's budget of imports "
        f"{kept}."
    )


def tables(data: Data) -> list[Table]:
    """Make one row for each case."""
    rounds, cases = data["rounds"], data["cases"]
    told = "one run for each seed" if rounds == 1 else f"median of {rounds} runs for each seed"
    return [
        Table.of(
            f"Processor time of a fresh process until all is imported, {told}",
            list(cases),
            {
                "what is imported": lambda name: cases[name]["title"],
                "processor time": lambda name: spread(cases[name]["cpu_seconds"], milliseconds),
                "of the handler's": lambda name: spread(_ratios(data, name), "{:.2f}".format),
                "modules": lambda name: f"{cases[name]['modules']:,}",
                "peak memory": lambda name: mebibytes(cases[name]["peak_memory_bytes"]),
                "packages on disk": lambda name: mebibytes(cases[name]["package_bytes"]),
            },
        ),
        Table(
            "The function's budget of imports",
            ["rule", "kept"],
            [
                [
                    "numpy and the standard library, without its dear modules, and fewer than "
                    f"{data['most_modules']} modules beyond numpy's",
                    "no" if data["beyond_budget"] else "yes",
                ]
            ],
        ),
    ]


def draw(figure: Figure, data: Data) -> None:
    """Time on the left, bytes on the right."""
    cases = list(data["cases"].values())
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    places = range(len(cases))
    times, around = reach((case["cpu_seconds"] for case in cases), 1000)
    left.barh(places, times, xerr=around, color="0.7", edgecolor="k", capsize=2)
    left.set_yticks(places, [case["title"] for case in cases])
    left.invert_yaxis()
    left.set_xlabel("processor time until imported (ms)")
    right.barh(
        places,
        [case["package_bytes"] / (1 << 20) for case in cases],
        color="w",
        edgecolor="k",
        hatch="//",
    )
    right.set_xlabel("packages on disk (MiB)")
    for panel in (left, right):
        panel.grid(axis="x", alpha=0.3)


def headlines(data: Data) -> list[Headline]:
    """Return what the hand-written client saves."""
    ratio = _ratio(data, "client")
    return [
        Headline(
            "processor time of the function's imports with boto3, over without", f"{ratio:.1f}"
        )
    ]


def missed(data: Data) -> list[str]:
    """The budget's rules that are broken."""
    return list(data["beyond_budget"])


def _ratio(data: Data, name: str) -> float:
    return float(statistics.median(_ratios(data, name)))


def _ratios(data: Data, name: str) -> list[float]:
    """Return each seed's ratio to the handler."""
    cases = data["cases"]
    return [
        one / own
        for one, own in zip(
            cases[name]["cpu_seconds"], cases["handler"]["cpu_seconds"], strict=True
        )
    ]


def _median(case: dict[str, Any]) -> float:
    return float(statistics.median(case["cpu_seconds"]))


STUDY = Study(
    name="imports",
    title="Package-aware scheduling: what imports cost a cold start",
    question="What do the packages that the function imports cost its cold start?",
    beside=(
        "13.2 s of mean latency where functions go to workers that hold their packages, 28.0 s "
        "with the least loaded worker, 34.7 s in turn (G. Totoy and G. Aumala, *Planificador "
        "extensible para la plataforma FaaS Open Lambda*, ESPOL, 2018, section 3.5, Figure 3.11)."
    ),
    method=(
        "Fresh processes, in random order, which import the handler alone or with more, until the "
        "last statement is done; processor time, for other processes share the machine. Sizes are "
        "those of the files that a bundle holds: no tests, no stubs, no bytecode."
    ),
    measure=measure,
    conclude=conclude,
    tables=tables,
    draw=draw,
    headlines=headlines,
    differences=(
        "The paper sends functions to where their packages are installed; ours has one function "
        "and one package, so that there is nothing to send elsewhere: what can be saved is what it "
        "does not import. The row where numpy is held is what a package-aware worker would save.",
        "Packages are on disk before we begin, and in its cache; the paper's are downloaded and "
        "installed, which is most of its latencies.",
        "The deployed bundle has no bytecode either, so that a cold start there would compile "
        "numpy and the function, though not the standard library: it lies between the handler's "
        "row and the one without bytecode, which the full form has.",
        "AWS' runtime has boto3, so that it would cost time there and no bytes of the bundle.",
    ),
    missed=missed,
    size_inches=(8.0, 3.8),
)

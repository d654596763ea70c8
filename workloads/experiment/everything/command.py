"""``experiment all``: every study of the evaluation, and one report of them.

What the documents say of the evaluation: made by command, between two marks.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from workloads.experiment.everything import report
from workloads.experiment.everything.results import STUDIES, Result, file_of, read_results
from workloads.experiment.picture import check_matplotlib, draw
from workloads.experiment.study import StudyError
from workloads.experiment.study_verb import SEEDS, add_scope
from workloads.processes import ROOT, running_program
from workloads.table import say

PICTURES = Path("docs/research/evaluation")
FIGURES = Path("tests/golden/evaluation")
BEGIN = "<!-- made by: python -m workloads experiment all --publish -->"
END = "<!-- end of what is made -->"


def publish(
    results: Sequence[Result], root: Path, studies: Collection[str] = tuple(STUDIES)
) -> None:
    """Write figures, pictures, and the text of both documents, which are of these figures.

    Raises:
        StudyError: one of ``studies`` was not measured, or quickly, or a document has no marks.
    """
    missing = sorted(set(studies) - {one.study.name for one in results})
    if missing:
        raise StudyError(f"not measured: {', '.join(missing)}; nothing was published")
    for one in results:
        if why := _unfit(one):
            raise StudyError(f"'{one.study.name}' {why}: nothing was published")
    texts = {path: between(root / path, text) for path, text in documents(results).items()}
    for folder in (PICTURES, FIGURES):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for one in results:
        text = json.dumps(one.record, separators=(",", ":"), allow_nan=False)
        file_of(root / FIGURES, one.study.name).write_text(f"{text}\n")
        draw(one.study, one.data, root / PICTURES / f"{one.study.name}.svg")
    for path, text in texts.items():
        (root / path).write_text(text)


def _unfit(one: Result) -> str:
    """Why it is not for others; empty if it is."""
    if one.error is not None:
        return "could not be measured"
    if one.record["is_quick"]:
        return "was measured with --quick"
    if len(one.record["seeds"]) < SEEDS:
        return f"was measured with fewer than {SEEDS} seeds"
    if " " in one.record["provenance"]["commit"]:
        return f"was measured on commit {one.record['provenance']['commit']}"
    return ""


def documents(results: Sequence[Result]) -> dict[Path, str]:
    """Return what stands between the marks of each document."""
    evaluation = (
        "## Where it was measured\n\nBeside the thesis' Table 8.5:\n\n"
        f"{report.machines(results)}\n\n"
        f"{report.markdown(results, pictures='evaluation/')}"
    )
    return {
        Path("docs/research/evaluation.md"): evaluation,
        Path("docs/research/measured.md"): f"{report.headlines(results)}\n",
    }


def between(path: Path, text: str) -> str:
    """The document with ``text`` between its marks.

    Raises:
        StudyError: it has not each mark once, in their order.
    """
    before = path.read_text()
    if before.count(BEGIN) != 1 or before.count(END) != 1:
        raise StudyError(f"{path} needs one line '{BEGIN}' and one '{END}'")
    head, _, rest = before.partition(BEGIN)
    _, mark, tail = rest.partition(END)
    if not mark:
        raise StudyError(f"{path} has '{END}' before '{BEGIN}'")
    return f"{head}{BEGIN}\n\n{text}\n{END}{tail}"


HELP = "all experiments of docs/research/evaluation.md one after the other, and one report"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_scope(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--only",
        type=_names,
        metavar="NAME,...",
        help=f"measure these again, report on all that are there: {', '.join(STUDIES)}",
    )
    which.add_argument(
        "--report-only", action="store_true", help="measure nothing, report on what is there"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=ROOT / "build/evaluation",
        metavar="FOLDER",
        help="where results and report go (default: build/evaluation)",
    )
    parser.add_argument(
        "--publish",
        action="store_true",
        help="also write docs/research/evaluation, measured.md's table and tests/golden/evaluation",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run and return exit code 0; 1: something could not be measured; 2: no report can be made."""
    folder: Path = arguments.output
    try:
        check_matplotlib()
        if not arguments.report_only:
            if folder.resolve() == ROOT / FIGURES:
                raise StudyError(f"--output {folder} has what was published: --publish changes it")
            _make(folder)
            _measure(arguments.only or tuple(STUDIES), folder, arguments)
        results = read_results(folder)
        told = "docs/research/evaluation.md"  # the report of what was published
        if folder.resolve() != ROOT / FIGURES:
            told = _report(results, folder)
        if arguments.publish:
            publish(results, ROOT)
    except (StudyError, OSError) as error:
        say(f"experiment all: {error}")
        return 2
    for one in results:
        said = one.error or one.study.conclude(one.data)
        print(f"{one.study.name}: {'NOT MEASURED: ' if one.error else ''}{said}\n")
    print(told)
    return 1 if any(one.error for one in results) else 0


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StudyError(f"--output {folder} cannot be made: {error.strerror}") from error


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    for name in names:
        if name not in STUDIES:
            raise argparse.ArgumentTypeError(
                f"there is no experiment {name!r}: choose from {', '.join(STUDIES)}"
            )
    return names


def _measure(names: Sequence[str], folder: Path, arguments: argparse.Namespace) -> None:
    """Measure each study in a process, so that none finds what another left in memory."""
    from tqdm import tqdm

    options = ["--seed", str(arguments.seed)]
    options += ["--traces", str(arguments.traces)] if arguments.traces.is_dir() else []
    options += ["--quick"] if arguments.quick else []
    options += ["--seeds", str(arguments.seeds)] if arguments.seeds else []
    with tqdm(total=len(names), file=sys.stderr, disable=None, unit="study") as bar:
        for number, name in enumerate(names, start=1):
            bar.set_description(name)
            bar.write(f"{name} ({number} of {len(names)})", file=sys.stderr)
            try:
                _run_one(name, folder, options)
            except KeyboardInterrupt:
                bar.write(f"what was measured is in {folder}: --report-only", file=sys.stderr)
                raise
            bar.update()


def _run_one(name: str, folder: Path, options: list[str]) -> None:
    """Write a study's figures, or why there are none, into its file; beside it what it says, and
    the figures that were there where there are none now."""
    result, log, new = file_of(folder, name), folder / f"{name}.log", folder / f".{name}.json"
    command = ["workloads", "experiment", name, *options, "--json", str(new)]
    with running_program(command, log, signal.SIGTERM) as process:
        code = process.wait()
    if code:
        said = log.read_text(errors="replace").strip().splitlines() or [f"exit code {code}"]
        error = {"study": name, "error": said[-1].removeprefix(f"{name}: ")}
        new.write_text(json.dumps(error) + "\n")
        if result.exists():
            result.replace(folder / f"{name}.before.json")
    new.replace(result)  # until there is another


def _report(results: Sequence[Result], folder: Path) -> str:
    """Write the report and say where it is."""
    for one in results:
        if one.error is None:
            draw(one.study, one.data, folder / f"{one.study.name}.svg")
    title = f"# SPREDS: the evaluation\n\n{report.machines(results)}\n\n"
    as_markdown, as_page = folder / "report.md", folder / "report.html"
    as_markdown.write_text(title + report.markdown(results, pictures=""))
    as_page.write_text(report.page(results, folder))
    return f"{as_page}\n{as_markdown}"

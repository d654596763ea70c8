"""What the documents say of the evaluation: made by command, between two marks."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path

from workloads.experiment.everything import report
from workloads.experiment.everything.results import Result, file_of
from workloads.experiment.harness.command import SEEDS
from workloads.experiment.harness.picture import draw
from workloads.experiment.harness.study import StudyError
from workloads.experiment.studies import STUDIES

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
    """What stands between the marks of each document."""
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

"""``experiment all --quick`` as a reader would run it, and what the documents have of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.workloads.test_demo import processes_with
from workloads.experiment.everything import command
from workloads.experiment.everything.results import CHAPTERS, STUDIES, read_results, study_of
from workloads.experiment.study import StudyError

ROOT = Path(__file__).parents[2]
COSTS = "figure-8-6"


def run(
    *arguments: object, timeout: float = 60, temporary: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run as a job in the background: it is not interrupted."""
    return subprocess.run(
        [sys.executable, "-m", "workloads", "experiment", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, **({"TMPDIR": temporary} if temporary else {})},
        capture_output=True,
        text=True,
        timeout=timeout,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )


@pytest.fixture(scope="module")
def costs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one result, and its report."""
    folder = tmp_path_factory.mktemp("costs")
    done = run("all", "--only", "figure-8-6", "--output", folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.experiment
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_each_study_is_measured_and_told(chapter: str, tmp_path: Path) -> None:
    names = CHAPTERS[chapter]
    # A short path: servers have Unix sockets in it.
    with tempfile.TemporaryDirectory(prefix="spreds-all-") as folder:
        only = ("--only", ",".join(names))
        done = run("all", "--quick", *only, "--output", tmp_path, timeout=600, temporary=folder)
        assert processes_with(folder) == []
        assert list(Path(folder).iterdir()) == []
    assert done.returncode == 0, done.stdout + done.stderr
    report, page = ((tmp_path / f"report.{kind}").read_text() for kind in ("md", "html"))
    for name in names:
        study, record = study_of(name), json.loads((tmp_path / f"{name}.json").read_text())
        assert study.name == name
        assert record["is_quick"]
        assert record["provenance"]["commit"]
        told = study.conclude(record["data"])
        assert told in done.stdout
        assert f"### {study.title}\n\n{study.question}\n\n**{told}**" in report
        assert f"]({name}.svg)" in report
        for table in study.tables(record["data"]):
            assert table.rows, table.title
            assert {len(row) for row in table.rows} == {len(table.header)}, table.title
    assert page.count("<svg") == len(names)


def test_the_same_figures_give_the_same_report(costs: Path, tmp_path: Path) -> None:
    for path in costs.glob("*.json"):
        (tmp_path / path.name).write_text(path.read_text())
    again = run("all", "--report-only", "--output", tmp_path)
    assert again.returncode == 0, again.stderr
    for name in ("report.md", "report.html", "figure-8-6.svg"):
        assert (tmp_path / name).read_text() == (costs / name).read_text(), name


def test_what_cannot_be_measured_stands_in_the_report(tmp_path: Path) -> None:
    (tmp_path / "figure-8-6.json").write_text(
        json.dumps({"study": "figure-8-6", "error": "there is no cost model"})
    )
    done = run("all", "--report-only", "--output", tmp_path)
    assert done.returncode == 1
    assert "figure-8-6: NOT MEASURED: there is no cost model" in done.stdout
    report = (tmp_path / "report.md").read_text()
    assert "Not measured: there is no cost model" in report
    assert "* `figure-8-6`: there is no cost model" in report


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "has no results"),
        ("{", "cannot be read"),
        ("[]", "is not a result of 'experiment figure-8-6'"),
        ('{"study": "figure-8-3"}', "is not a result of 'experiment figure-8-6'"),
        ('{"study": "figure-8-6"}', "has no key 'data', 'seeds' or 'provenance'"),
    ],
)
def test_bad_results_are_refused_in_one_sentence(
    text: str | None, said: str, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / "figure-8-6.json").write_text(text)
    done = run("all", "--report-only", "--output", tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_figures_are_kept_when_the_next_try_fails(tmp_path: Path) -> None:
    (tmp_path / f"{COSTS}.json").write_text("the last figures")
    command._run_one(COSTS, tmp_path, ["--no-such-option"])
    assert "--no-such-option" in json.loads((tmp_path / f"{COSTS}.json").read_text())["error"]
    assert (tmp_path / f"{COSTS}.before.json").read_text() == "the last figures"


def test_what_was_published_is_not_measured_over() -> None:
    done = run("all", "--only", "figure-8-6", "--output", ROOT / command.FIGURES)
    assert done.returncode == 2
    assert "has what was published" in done.stderr


def test_an_unknown_experiment_is_refused_with_those_there_are() -> None:
    done = run("all", "--only", "figure-9")
    assert done.returncode == 2
    assert "there is no experiment 'figure-9': choose from" in done.stderr
    assert all(name in done.stderr for name in STUDIES)


def test_only_whole_results_are_published_and_nothing_by_halves(
    costs: Path, tmp_path: Path
) -> None:
    results = read_results(costs)
    results[0].record["provenance"]["commit"] = "0123456789ab"
    docs = tmp_path / "docs/research"
    docs.mkdir(parents=True)
    pages = [docs / "measured.md", docs / "evaluation.md"]
    for page in pages:
        page.write_text(f"before\n{command.BEGIN}\nwhat was there\n{command.END}\nafter\n")
    pages[0].write_text("no marks")
    with pytest.raises(StudyError, match="needs one line"):
        command.publish(results, tmp_path, [COSTS])
    assert not (docs / "evaluation").exists()
    assert "what was there" in pages[1].read_text()

    pages[0].write_text(f"before\n{command.BEGIN}\nwhat was there\n{command.END}\nafter\n")
    command.publish(results, tmp_path, [COSTS])
    for page in pages:
        text = page.read_text()
        assert text.startswith("before\n")
        assert text.endswith("after\n")
        assert "what was there" not in text
    assert (docs / "evaluation/figure-8-6.svg").exists()
    assert (tmp_path / command.FIGURES / "figure-8-6.json").exists()

    with pytest.raises(StudyError, match="not measured: figure-8-3; nothing was published"):
        command.publish(results, tmp_path, [COSTS, "figure-8-3"])
    whole = dict(results[0].record)
    with_changes = {"provenance": {"commit": "0123456789ab with changes"}}
    for change in ({"is_quick": True}, {"error": "not here"}, {"seeds": [1]}, with_changes):
        results[0].record.clear()
        results[0].record.update({**whole, **change})
        with pytest.raises(StudyError, match="nothing was published"):
            command.publish(results, tmp_path, [COSTS])


def test_the_documents_say_what_the_published_figures_say() -> None:
    results = read_results(ROOT / command.FIGURES)
    assert {one.study.name for one in results} == set(STUDIES)
    for path, text in command.documents(results).items():
        page = (ROOT / path).read_text()
        assert command.between(ROOT / path, text) == page, (
            f"{path}: python -m workloads experiment all --report-only --publish "
            f"--output {command.FIGURES}"
        )
    for one in results:
        assert (ROOT / command.PICTURES / f"{one.study.name}.svg").exists()

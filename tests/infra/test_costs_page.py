"""docs/research/costs.md says what the cost model says; a reader who leaves early is no error."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from infra.closed_pipe import PIPE_CLOSED
from infra.costs import page
from infra.costs.__main__ import main as costs
from infra.costs.measured import read_measured
from infra.costs.price_list import read_prices


def between_marks(text: str) -> str:
    return text.split(page.BEGIN)[1].split(page.END)[0].strip()


def test_the_page_has_what_the_model_says_now() -> None:
    found = between_marks(page.PAGE.read_text())
    assert found == page.made(read_measured(), read_prices()), (
        "run: python -m infra.costs.page --write"
    )


def test_its_table_is_what_the_command_answers(capsys: pytest.CaptureFixture[str]) -> None:
    text = between_marks(page.PAGE.read_text())
    columns = []
    for nodes in ("1", "40", "1000"):
        assert costs(["--nodes", nodes, "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)["controllers"]
        columns.append([f"{found['usd']:,.2f}" for found in answer.values()])
        function = answer["lambda"]
        if nodes == "1":
            assert f"is ${function['nodes_usd']:.2f} alone" in text
        if nodes == "1000":
            assert f"are ${function['usd']:.2f} a year" in text
    cells = [re.findall(r"[\d,.]+(?= \|)", line)[-3:] for line in text.splitlines() if "|" in line]
    assert cells[2:] == [list(row) for row in zip(*columns, strict=True)]


def test_no_figure_of_a_bill_stands_outside_of_what_is_made() -> None:
    text = page.PAGE.read_text()
    outside = text.replace(between_marks(text), "")
    assert not re.findall(r"\$\d", outside)


def test_writing_changes_what_is_between_the_marks_alone(tmp_path: Path) -> None:
    copy = tmp_path / "costs.md"
    right = page.PAGE.read_text()
    copy.write_text(right.replace(between_marks(right), "| Lambda | 1.00 |"))
    assert page.main(["--write", "--page", str(copy)]) == 0
    assert copy.read_text() == right


@pytest.mark.parametrize("text", ["no marks", f"{page.END}\n{page.BEGIN}\n"])
def test_a_page_without_marks_is_left_alone(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "costs.md"
    copy.write_text(text)
    assert page.main(["--write", "--page", str(copy)]) == 2
    assert copy.read_text() == text
    assert str(copy) in capsys.readouterr().err


@pytest.mark.parametrize("module", ["infra.costs.prices show", "infra.costs", "infra.costs.page"])
def test_a_reader_who_leaves_is_no_error(module: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", *module.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as command:
        assert command.stdout
        assert command.stderr
        command.stdout.close()
        assert command.stderr.read() == b""
    assert command.returncode == PIPE_CLOSED

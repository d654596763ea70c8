"""``docs/research/thesis.md`` names what is there, and every part of chapter 8."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/research/thesis.md"
TEXT = PAGE.read_text()
# [`name`](file)`.attribute`
LINKS = sorted(set(re.findall(r"\[`(\w+)`\]\(\.\./\.\./([^)]+)\)(?:`\.(\w+)`)?", TEXT)))
COMMANDS = sorted(set(re.findall(r"`python -m ([\w.]+(?: [a-z]+)*)", TEXT)))
PARTS = [
    *(f"(8.{number})" for number in range(1, 8)),
    *(f"Table 8.{number}" for number in range(1, 8)),
    *(f"Figure 8.{number}" for number in range(1, 7)),
    *("Algorithm 8", "LookAhead", "n ≤ 7"),
]

# The cells of each row of the tables that compare.
ROWS = [
    [cell.strip() for cell in line.split("|")[1:-1]]
    for table in re.findall(r"\| the same\? \|\n\|[-|]+\|\n((?:\|.*\n)+)", TEXT)
    for line in table.splitlines()
]


def names_of(path: Path) -> Iterator[str]:
    """Yield what a Python file defines; classes' members as ``Class.member``."""
    for node in ast.parse(path.read_text()).body:
        yield from _names(node)
        if isinstance(node, ast.ClassDef):
            yield from (f"{node.name}.{name}" for item in node.body for name in _names(item))


def _names(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign):
        yield from (target.id for target in node.targets if isinstance(target, ast.Name))
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id


@pytest.mark.parametrize(("name", "file", "member"), LINKS)
def test_a_linked_name_is_defined_there(name: str, file: str, member: str) -> None:
    path = ROOT / file
    if path.suffix == ".py":
        assert (f"{name}.{member}" if member else name) in set(names_of(path))
    else:
        assert re.search(rf"\b{name}\b", path.read_text())


@pytest.mark.parametrize("file", sorted(set(re.findall(r"\]\(\.\./\.\./([^)#]+)\)", TEXT))))
def test_a_linked_file_is_there(file: str) -> None:
    assert (ROOT / file).is_file()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_can_be_asked_for_help(command: str) -> None:
    subprocess.run(
        [sys.executable, "-m", *shlex.split(command), "--help"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )


@pytest.mark.parametrize("part", PARTS)
def test_every_part_of_the_chapter_has_its_row(part: str) -> None:
    assert any(part in row[0] for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_every_row_says_whether_it_is_the_same(row: list[str]) -> None:
    assert re.match(r"(Same|Chosen|Differs|Added|Not built)\b", row[2])


def test_the_four_challenges_have_their_rows() -> None:
    challenges = TEXT.partition("## Open challenges")[2]
    assert re.findall(r"^\| (\d)\. ", challenges, re.MULTILINE) == ["1", "2", "3", "4"]

"""The files and headings that the pages of ``docs/`` name are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)")
PYTHON_FILES = {
    path.name
    for top in ("sidecar", "solver_lambda", "infra", "redis_patch", "workloads", "tests")
    for path in (ROOT / top).rglob("*.py")
}
# With a folder. Not ours are documents in S3, traces, and what is installed or made.
ELSEWHERE = (
    r"(?!(?:\./node_modules|build|demo-output|\.venv|\.\./shared|observations|plans|reports|settings"
    r"|src|twitter|cache2k|libcachesim-[\d.]+)/|infra/outputs\.json)"
)
FILE = re.compile(rf"(?<![\w/.-]){ELSEWHERE}[\w.-]+(?:/[\w.-]+)*/[\w.-]*\w")


def anchors(page: Path) -> set[str]:
    """Return a page's anchors as GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_link_leads_somewhere(page: Path) -> None:
    for file, anchor in LINK.findall(page.read_text()):
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), file
        assert not anchor or anchor in anchors(target), f"{file}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_python_file_that_is_named_without_a_folder_is_somewhere(page: Path) -> None:
    named = set(re.findall(r"`([a-z_]+\.py)`", page.read_text()))
    assert named <= PYTHON_FILES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_file_that_is_named_is_there(page: Path) -> None:
    named = set(FILE.findall(LINK.sub("", page.read_text())))
    # A word of prose such as "and/or" has no dot.
    files = {name for name in named if "." in name or (ROOT / name.partition("/")[0]).is_dir()}
    assert not {name for name in files if not (ROOT / name).exists()}

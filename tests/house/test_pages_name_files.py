"""The files and headings that the pages of ``docs/`` name are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "docs" / name
    for name in (
        "architecture.md",
        "documents.md",
        "evaluation.md",
        "faults.md",
        "fuzzing.md",
        "gain.md",
        "install.md",
        "metrics.md",
        "operating.md",
        "papers.md",
        "security.md",
    )
]
LINK = re.compile(r"\]\(([^)#\s]*)#?([^)\s]*)\)")
# With a folder; where documents lie in S3 is no file of ours, nor are traces, wherever they are.
ELSEWHERE = r"(?!(?:\.\./shared|observations|plans|settings|twitter|cache2k|libcachesim-[\d.]+)/)"
FILE = re.compile(rf"(?<![\w/.-]){ELSEWHERE}[\w.-]+(?:/[\w.-]+)*/[\w.-]*\w")


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_link_leads_somewhere(page: Path) -> None:
    links = LINK.findall(page.read_text())
    assert links
    for file, anchor in links:
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), file
        assert not anchor or anchor in anchors(target), f"{file}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_file_that_is_named_is_there(page: Path) -> None:
    named = set(FILE.findall(LINK.sub("", page.read_text())))
    # A word of prose such as "and/or" has no dot.
    files = {name for name in named if "." in name or (ROOT / name.partition("/")[0]).is_dir()}
    assert len(files) > 2
    assert not {name for name in files if not (ROOT / name).exists()}

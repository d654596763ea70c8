"""The report as one HTML file, with its pictures in it."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from workloads.experiment.everything import markdown
from workloads.experiment.everything.results import Result
from workloads.page_style import STYLE, html_table


def page(results: Sequence[Result], pictures: Path) -> str:
    """The whole file; ``pictures`` is the folder that has them as SVG."""
    parts = []
    for chapter, members in groupby(results, key=lambda one: one.chapter):
        parts.append(f"<h2>{html.escape(chapter)}</h2>")
        parts += [_section(one, pictures) for one in members]
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>SPREDS: the evaluation</title>
<style>{STYLE}svg {{ max-width: 46rem; background: #fff }}</style>
<h1>SPREDS: the evaluation</h1>
<h2>Where it was measured</h2>
<p>{html.escape(markdown.machines(results))}</p>
{"".join(parts)}
<h2>What did not work</h2>
{_list(markdown.failures(results))}
</html>
"""


def _section(result: Result, pictures: Path) -> str:
    study = result.study
    heading = f"<h3>{html.escape(study.title)}</h3><p>{_inline(study.question)}</p>"
    if result.error is not None:
        return f"{heading}<p>Not measured: {_inline(result.error)}</p>"
    tables = "".join(
        f"<h4>{_inline(table.title)}</h4>{html_table(table.header, table.rows)}"
        for table in study.tables(result.data)
    )
    parts = [
        heading,
        f"<p><b>{_inline(study.conclude(result.data))}</b></p>",
        _picture(pictures / f"{study.name}.svg", study.name),
        f"<p><i>Beside it:</i> {_inline(study.beside)}</p>",
        f"<p><i>Method:</i> {_inline(study.method)}</p>",
        tables,
    ]
    for title, words in (
        ("Where ours differs, and why", study.differences),
        ("Missed", study.missed(result.data)),
    ):
        if words:
            parts.append(f"<p>{title}:</p>{_list(words)}")
    parts.append(f'<p class="soft">{_inline(markdown.origin(result))}</p>')
    return "\n".join(parts)


def _picture(path: Path, name: str) -> str:
    """Without the XML prologue; identifiers of several pictures would meet on one page."""
    text = path.read_text()
    text = text[text.index("<svg") :]
    text = re.sub(r'\b(id="|href="#|url\(#)', rf"\g<1>{name}-", text)
    return f"<figure style='margin:0'>{text}</figure>"


def _inline(text: str) -> str:
    """What is between back quotes is code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(text))


def _list(words: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{_inline(one)}</li>" for one in words) + "</ul>"

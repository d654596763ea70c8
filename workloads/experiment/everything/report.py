"""The report as Markdown, and as one HTML file with its pictures in it."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from workloads.experiment.everything.results import Result
from workloads.experiment.study import Table
from workloads.table import STYLE, html_table


def markdown(results: Sequence[Result], pictures: str) -> str:
    """Write all chapters, then what did not work.

    ``pictures``: where they lie, seen from the page.
    """
    parts = []
    for chapter, members in groupby(results, key=lambda one: one.chapter):
        parts.append(f"## {chapter}")
        parts += [section(one, pictures) for one in members]
    parts += ["## What did not work", _bullets(failures(results))]
    return "\n\n".join(parts) + "\n"


def section(result: Result, pictures: str) -> str:
    """Write the section of one study."""
    study = result.study
    heading = f"### {study.title}\n\n{study.question}"
    if result.error is not None:
        return f"{heading}\n\nNot measured: {result.error}"
    parts = [
        heading,
        f"**{study.conclude(result.data)}**",
        f"![{study.title}]({pictures}{study.name}.svg)",
        f"*Beside it:* {study.beside}",
        f"*Method:* {study.method}",
        *map(_table, study.tables(result.data)),
    ]
    if study.differences:
        parts.append(f"Where ours differs, and why:\n\n{_bullets(study.differences)}")
    missed = study.missed(result.data)
    if missed:
        parts.append(f"Missed:\n\n{_bullets(missed)}")
    parts.append(origin(result))
    return "\n\n".join(parts)


def failures(results: Iterable[Result]) -> list[str]:
    """Return what was missed, and what could not be measured."""
    found = []
    for one in results:
        words = [one.error] if one.error is not None else one.study.missed(one.data)
        found += [f"`{one.study.name}`: {word}" for word in words]
    return found or ["Nothing that was looked for."]


def origin(result: Result) -> str:
    """The command, seeds, commit and time of a study's figures."""
    record = result.record
    seeds = record["seeds"]
    told = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    quick = " --quick" if record["is_quick"] else ""
    return (
        f"`python -m workloads experiment {result.study.name}{quick}`, {told}, "
        f"{record['seconds']:,.0f} s, on commit {record['provenance']['commit']}."
    )


def machines(results: Iterable[Result]) -> str:
    """List where it was measured: a bullet for each machine, with the versions."""
    found: dict[str, list[str]] = {}
    for one in results:
        if one.error is None:
            places = dict(one.record["provenance"])
            places.pop("commit")
            words = "; ".join(f"{key} {value}" for key, value in places.items())
            found.setdefault(words, []).append(one.study.name)
    if len(found) == 1:
        return f"{next(iter(found))}."
    return _bullets(f"{words}: {', '.join(names)}" for words, names in found.items())


def headlines(results: Iterable[Result]) -> str:
    """The rows that the studies have for measured.md."""
    rows = [
        [line.what, line.here, line.thesis]
        for one in results
        if one.error is None
        for line in one.study.headlines(one.data)
    ]
    return _rows(["what", "SPREDS", "the thesis"], rows)


def _table(table: Table) -> str:
    return f"{table.title}:\n\n{_rows(table.header, table.rows)}"


def _rows(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines
    )


def _bullets(words: Iterable[str]) -> str:
    return "\n".join(f"* {one}" for one in words)


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
<p>{html.escape(machines(results))}</p>
{"".join(parts)}
<h2>What did not work</h2>
{_list(failures(results))}
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
    parts.append(f'<p class="soft">{_inline(origin(result))}</p>')
    return "\n".join(parts)


def _picture(path: Path, name: str) -> str:
    """Inline without the XML prologue; identifiers of several pictures would meet on one page."""
    text = path.read_text()
    text = text[text.index("<svg") :]
    text = re.sub(r'\b(id="|href="#|url\(#)', rf"\g<1>{name}-", text)
    return f"<figure style='margin:0'>{text}</figure>"


def _inline(text: str) -> str:
    """Mark what is between back quotes as code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(text))


def _list(words: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{_inline(one)}</li>" for one in words) + "</ul>"

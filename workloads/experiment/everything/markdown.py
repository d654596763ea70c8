"""The report as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from workloads.experiment.everything.results import Result
from workloads.experiment.harness.study import Table


def report(results: Sequence[Result], pictures: str, level: int = 2) -> str:
    """All chapters, then what did not work.

    ``pictures``: where they lie, seen from the page. ``level``: of the chapters' headings.
    """
    parts = []
    for chapter, members in groupby(results, key=lambda one: one.chapter):
        parts.append(f"{'#' * level} {chapter}")
        parts += [section(one, pictures, level + 1) for one in members]
    parts += [f"{'#' * level} What did not work", _bullets(failures(results))]
    return "\n\n".join(parts) + "\n"


def section(result: Result, pictures: str, level: int) -> str:
    """One study."""
    study = result.study
    heading = f"{'#' * level} {study.title}\n\n{study.question}"
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
    """What was missed, and what could not be measured."""
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
    """Where it was measured: a bullet for each machine, with the versions."""
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

"""Documents in files of many lines, which DuckDB reads twenty times as fast as so many files."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from infra.fleet.plan_form import PlanForms
from infra.fleet.plan_sources import Document, PlanKey, PlanSource
from solver_lambda.documents.plan import MAX_PLAN_BYTES, AdaptationPlan
from solver_lambda.documents.reader import DocumentError

# Documents that are in memory at once.
BATCH = 10_000
# A line is a document, so what is a line's end or a column's to DuckDB becomes the blank that it is
# to JSON.
_MARKS = (b"\t", b"\r", b"\n")
_BLANKS = bytes.maketrans(b"\t\r\n", b"   ")


class Batch(NamedTuple):
    """Attributes:
    file: a line for each document: node, cycle, version and text; ``None`` if there is none.
    documents: how many, with those that were refused.
    refused: why documents are not in it.
    """

    file: Path | None
    documents: int
    refused: list[str]


def batches(source: PlanSource, versions: Mapping[PlanKey, str]) -> Iterator[Batch]:
    """The documents of the keys. The next batch is read while one is dealt with; its file is gone
    when the one after the next is asked for.

    Raises:
        SourceError: a document cannot be read.
    """
    documents, forms = source.read(versions), PlanForms()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as reader:
        files = itertools.cycle([Path(folder, "even"), Path(folder, "odd")])
        ahead = reader.submit(_write, source, documents, versions, forms, next(files))
        while (batch := ahead.result()) is not None:
            ahead = reader.submit(_write, source, documents, versions, forms, next(files))
            yield batch


def _write(
    source: PlanSource,
    documents: Iterator[Document],
    versions: Mapping[PlanKey, str],
    forms: PlanForms,
    file: Path,
) -> Batch | None:
    """The next batch; ``None``: there are no more documents."""
    refused, count = [], 0
    with file.open("wb") as lines:
        for key, text in itertools.islice(documents, BATCH):
            count += 1
            if isinstance(text, str) or not (_is_line(text) and forms.has(text)):
                refused.append(why_refused(source, key, text))
                continue
            where = f"{key.node}\t{key.cycle}\t{versions[key]}\t"
            if any(mark in text for mark in _MARKS):
                text = text.translate(_BLANKS)
            lines.write(where.encode() + text + b"\n")
    if not count:
        return None
    return Batch(file if len(refused) < count else None, count, refused)


def _is_line(text: bytes) -> bool:
    if len(text) > MAX_PLAN_BYTES or b"\0" in text:
        return False
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def why_refused(source: PlanSource, key: PlanKey, text: bytes | str) -> str:
    """One sentence on a document that is no plan, or not the one that its key says."""
    where = f"{source.name}/{key.path}"
    if isinstance(text, str):
        return f"{where}: {text}"
    try:
        plan = AdaptationPlan.loads(text, where)
    except DocumentError as error:
        return str(error)
    if (plan.node, plan.cycle) != key:
        return f"{where}: the plan is of node {plan.node!r} and cycle {plan.cycle}"
    return f"{where}: a number is too large to be kept, or a key is not written as planners do"

"""Documents in files of many lines, which DuckDB reads twenty times as fast as so many files."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from infra.fleet.plan_sources import PlanKey, PlanSource
from solver_lambda.documents.plan import MAX_PLAN_BYTES, AdaptationPlan
from solver_lambda.documents.reader import DocumentError

# Documents that are in memory at once.
BATCH = 10_000
# A line is a document, so what is a line's end or a column's to DuckDB becomes the blank that it is
# to JSON.
_BLANKS = bytes.maketrans(b"\t\r\n", b"   ")


class Batch(NamedTuple):
    """Attributes:
    file: a line for each document: node, cycle and text; ``None`` if there is none.
    refused: why documents are not in it.
    """

    file: Path | None
    refused: list[str]


def batches(source: PlanSource, keys: Sequence[PlanKey]) -> Iterator[Batch]:
    """The documents of ``keys``. The next batch is read while one is dealt with; its file is gone
    when the one after the next is asked for.

    Raises:
        SourceError: a document cannot be read.
    """
    documents = source.read(keys)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as reader:
        files = itertools.cycle([Path(folder, "even"), Path(folder, "odd")])
        ahead = reader.submit(_write, source, documents, next(files))
        while (batch := ahead.result()) is not None:
            ahead = reader.submit(_write, source, documents, next(files))
            yield batch


def _write(
    source: PlanSource, documents: Iterator[tuple[PlanKey, bytes]], file: Path
) -> Batch | None:
    """The next batch; ``None``: there are no more documents."""
    refused, count = [], 0
    with file.open("wb") as lines:
        for key, text in itertools.islice(documents, BATCH):
            count += 1
            if len(text) > MAX_PLAN_BYTES or b"\0" in text or not _is_utf8(text):
                refused.append(why_refused(source, key, text))
                continue
            lines.write(f"{key.node}\t{key.cycle}\t".encode() + text.translate(_BLANKS) + b"\n")
    if not count:
        return None
    return Batch(file if len(refused) < count else None, refused)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def why_refused(source: PlanSource, key: PlanKey, text: bytes) -> str:
    """One sentence on a document that is no plan, or not the one that its key says."""
    where = f"{source.name}/{key.path}"
    try:
        plan = AdaptationPlan.loads(text, where)
    except DocumentError as error:
        return str(error)
    if (plan.node, plan.cycle) != key:
        return f"{where}: the plan is of node {plan.node!r} and cycle {plan.cycle}"
    return f"{where}: a number is too large to be kept"

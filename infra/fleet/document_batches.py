"""Documents in files of many lines, which DuckDB reads twenty times as fast as so many files.

Whether a text has the form of a plan: its keys, and the kinds of their values.

By ``AdaptationPlan`` it would take 12 s for 100,000 of them. Numbers are checked in
``new_documents.sql``.
"""

from __future__ import annotations

import itertools
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from infra.fleet.plan_sources import Document, PlanKey, PlanSource
from solver_lambda.documents.keys import SERVER_PATTERN
from solver_lambda.documents.plan import MAX_PLAN_BYTES, AdaptationPlan
from solver_lambda.documents.reader import DocumentError

# No control characters, neither as they are nor escaped.
_TEXT = (
    r'"(?:[^"\\\x00-\x1f]'
    r'|\\["\\/]|\\u(?:00[2-7a-fA-F]|0[1-9a-fA-F][0-9a-fA-F]|[1-9a-fA-F][0-9a-fA-F]{2})[0-9a-fA-F])+"'
)
_WHOLE = "(?:0|[1-9][0-9]*)"
_NUMBER = rf"-?{_WHOLE}(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"


def _any(choices: Iterable[str]) -> str:
    return f"(?:{'|'.join(choices)})"


def _optional(value: str) -> str:
    return _any(("null", value))


def _table(keys: dict[str, str]) -> str:
    """``keys``: names, with blanks between, by what their values look like."""
    pairs = _any(rf'"{_any(names.split())}"\s*:\s*{value}' for value, names in keys.items())
    return rf"\{{\s*{pairs}(?:\s*,\s*{pairs})*\s*\}}"


def _list(item: str) -> str:
    return rf"\[\s*(?:{item}(?:\s*,\s*{item})*\s*)?\]"


_SERVER = _table(
    {
        f'"{SERVER_PATTERN.pattern}"': "name",
        _TEXT: "reason",
        _optional(_TEXT): "settings_version",
        _WHOLE: "maxmemory_before_bytes maxmemory_bytes",
        _optional(_WHOLE): "installed_bytes",
        _optional(_NUMBER): "hit_ratio_before hit_ratio eat_before_seconds eat_seconds "
        "marginal_gain_seconds_per_mebibyte weight request_rate_per_second eat_installed_seconds",
    }
)
_WHAT_IF = _table(
    {
        _WHOLE: "budget_bytes",
        _NUMBER: "mean_access_time_seconds",
        _optional(_NUMBER): "hit_ratio misses_per_second optimality_gap equal_sizes_seconds "
        "equal_sizes_misses_per_second",
    }
)
_PLAN = _table(
    {
        _TEXT: "kind node method decision reason",
        _WHOLE: "version cycle budget_bytes run_memory_bytes",
        _NUMBER: "observation_made_at_seconds made_at_seconds optimality_gap run_seconds",
        _optional(_NUMBER): "mean_access_time_before_seconds mean_access_time_seconds "
        "window_seconds",
        _list(_SERVER): "servers",
        _optional(_list(_WHAT_IF)): "what_if",
    }
)
_FORM = re.compile(rf"\s*{_PLAN}\s*".encode())
_OF_NUMBERS = b"0123456789+-"


class PlanForms:
    """Most plans of a fleet are alike but for their numbers, so a text is looked at once for all
    that are: what is left without digits and signs has been seen."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def has(self, text: bytes) -> bool:
        """Whether a text has the form, if it is JSON at all."""
        rest = hash(text.translate(None, _OF_NUMBERS))
        if rest in self._seen:
            return True
        if not _FORM.fullmatch(text):
            return False
        self._seen.add(rest)
        return True


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
    """Say in one sentence why a document is no plan, or not the one that its key says."""
    where = source.place(key)
    if isinstance(text, str):
        return f"{where}: {text}"
    try:
        plan = AdaptationPlan.loads(text, where)
    except DocumentError as error:
        return str(error)
    if (plan.node, plan.cycle) != key:
        return f"{where}: the plan is of node {plan.node!r} and cycle {plan.cycle}"
    return f"{where}: a number is too large to be kept, or a key is not written as planners do"

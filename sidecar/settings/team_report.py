"""Tells what became of a team's settings: a document that its own rights are enough to read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime

from sidecar.base.plain_text import plain
from sidecar.base.time_of_day import time_of_day
from sidecar.config.settings_limits import SettingsLimits
from sidecar.settings.team_settings import TeamSettings
from sidecar.storage.store import BucketStore, FolderStore
from solver_lambda.documents.json_text import check_kind, parse_json
from solver_lambda.documents.keys import report_key
from solver_lambda.documents.reader import DocumentError, Fields

KIND, VERSION = "spreds.report", 1
MAX_REPORT_BYTES = 64 * 1024
_LIMITS = ("minimum_weight", "maximum_weight", "maximum_backend_latency_seconds")
_MOST_SENTENCES, _MOST_LETTERS = 40, 4096


def report_document(
    at_seconds: float, cycle: int, sentences: Sequence[str], limits: SettingsLimits
) -> bytes:
    """Write it for people, as of a Unix time and a cycle's plan, with how far the team may go."""
    texts = [text[:_MOST_LETTERS] for text in sentences[:_MOST_SENTENCES]]
    head = {"kind": KIND, "version": VERSION, "at_seconds": at_seconds, "cycle": cycle}
    head["limits"] = asdict(limits)
    while len(text := json.dumps({**head, "sentences": texts}, indent=1)) > MAX_REPORT_BYTES:
        texts.pop()
    return text.encode()


def report_sentences(
    store: FolderStore | BucketStore, node: str, server: str, settings: bytes | None = None
) -> Iterator[str]:
    """Say what the last report of a server says, and whether its team's ``settings`` came after it.
    Raises StoreError, DocumentError."""
    key = report_key(node, server)
    text = store.get(key, MAX_REPORT_BYTES)
    if text is None:
        yield (
            f"Nothing is told of {server} yet: its node's sidecar does so after its next plan, if "
            "the team has set something and the sidecar may write there."
        )
        return
    fields = _read(text, key)
    at_seconds, cycle = fields.number("at_seconds", low=0), fields.integer("cycle", low=0)
    sentences = fields.value("sentences")
    if not isinstance(sentences, list) or not all(isinstance(one, str) for one in sentences):
        raise fields.refuse("sentences", "must be a list of texts")
    yield f"As of {time_of_day(at_seconds)}, plan {cycle}:"
    yield from map(plain, sentences[:_MOST_SENTENCES])
    with suppress(DocumentError):  # a damaged one counts for nothing, as the report tells
        set_at = TeamSettings.loads(settings, key).set_at if settings is not None else ""
        if set_at > datetime.fromtimestamp(at_seconds, UTC).isoformat(timespec="seconds"):
            yield f"What its team has set since, at {set_at}, counts from the next plan on."


def report_cycle(text: bytes, key: str) -> int:
    """Return the plan's cycle of a report's document. Raises DocumentError."""
    return _read(text, key).integer("cycle", low=0)


def report_limits(text: bytes, key: str) -> SettingsLimits | None:
    """Read the limits; ``None``: the sidecar does not tell them yet. Raises DocumentError."""
    report = _read(text, key)
    if not report.has("limits"):
        return None
    told = report.table("limits")
    return SettingsLimits(
        maximum_minimum_bytes=told.integer("maximum_minimum_bytes", low=0),
        **{name: told.number(name, low=0) for name in _LIMITS},
    )


def _read(text: bytes, key: str) -> Fields:
    fields = parse_json(text, key, MAX_REPORT_BYTES)
    check_kind(fields, KIND, VERSION)
    return fields

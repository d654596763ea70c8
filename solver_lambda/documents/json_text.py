"""Reads checked fields from a JSON text, with bounds on what is made of it."""

from __future__ import annotations

import json
import re

from solver_lambda.documents.reader import MAX_SERVERS, DocumentError, Fields, shown

MAX_DEPTH = 12
# Tables, lists and keys: twice and more what a sidecar's state of so many servers has, four times
# what their observation has. An empty list of 3 bytes takes 64 when it is read.
MAX_NODES = 128 * MAX_SERVERS
# The closing quote may be missing, so that no text is looked at twice.
_STRING = r'(?s)"[^"\\]*(?:\\.[^"\\]*)*"?'


def parse_json(
    text: bytes | str,
    source: str,
    max_bytes: int,
    *,
    keys_once: bool = False,
    max_nodes: int = MAX_NODES,
) -> Fields:
    """Return the top table of a JSON document.

    Args:
        keys_once: no key may stand twice in a table; to see that takes memory for each.
        max_nodes: tables, lists and keys at most; of what strangers send, fewer.

    Raises:
        DocumentError: larger than ``max_bytes``, not UTF-8, more than ``max_nodes``, not JSON,
            nested too deeply, or not an object.
    """
    if len(text) > max_bytes:
        raise DocumentError(f"{source}: {len(text)} bytes, more than the {max_bytes} allowed")
    if isinstance(text, bytes):
        try:
            # Bounds are counted in what is parsed: Python would guess at UTF-16 and 32 by itself.
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DocumentError(f"{source}: not UTF-8: byte {error.start} is wrong") from error
    if _nodes(text, max_nodes) > max_nodes:
        raise DocumentError(f"{source}: more than {max_nodes} tables, lists and keys")
    try:
        document = json.loads(text, object_pairs_hook=_table if keys_once else None)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"{source}: not a JSON document: {error}") from error
    _check_depth(document, source)
    return Fields(document, source)


def _table(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Make a table. Raises ValueError: a key stands there twice, and two readers could take another
    one each."""
    table = dict(pairs)
    if len(table) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {shown(next(k for k in keys if keys.count(k) > 1))} twice")
    return table


def _nodes(text: str, most: int) -> int:
    """Count tables, lists and keys in a JSON text, before they are made; up to the bound."""
    count = _marks(text, 0, len(text))
    if count <= most:
        return count
    # Only now is it worthwhile to leave out the contents of strings.
    count = end = 0
    for string in re.finditer(_STRING, text):
        count += _marks(text, end, string.start())
        end = string.end()
        if count > most:
            return count
    return count + _marks(text, end, len(text))


def _marks(text: str, start: int, end: int) -> int:
    return sum(text.count(mark, start, end) for mark in "{[:")


def _check_depth(document: object, source: str) -> None:
    level = [document]
    for _ in range(MAX_DEPTH):
        level = [
            item
            for value in level
            if isinstance(value, dict | list)
            for item in (value.values() if isinstance(value, dict) else value)
            if isinstance(item, dict | list)
        ]
    if level:
        raise DocumentError(f"{source}: nested deeper than {MAX_DEPTH} levels")


def check_kind(fields: Fields, kind: str, version: int) -> None:
    """Refuse a document of another kind or version."""
    fields.text("kind", choices=(kind,))
    if fields.integer("version") != version:
        raise fields.refuse("version", f"must be {version}, not {fields.given('version')}")

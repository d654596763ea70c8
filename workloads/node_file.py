"""A node's file, from what it says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def node_file(table: Mapping[str, Any]) -> str:
    """TOML of values, tables of values, and lists of such tables."""
    lines = _pairs({key: value for key, value in table.items() if not _is_nested(value)})
    for name, value in table.items():
        if isinstance(value, Mapping):
            lines += ["", f"[{name}]", *_pairs(value)]
        elif _is_nested(value):
            for row in value:
                lines += ["", f"[[{name}]]", *_pairs(row)]
    return "\n".join([*lines, ""])


def _is_nested(value: object) -> bool:
    return isinstance(value, Mapping | list)


def _pairs(table: Mapping[str, Any]) -> list[str]:
    # Texts, numbers and truth are in JSON as in TOML.
    return [f"{key} = {json.dumps(value)}" for key, value in table.items()]

"""Carries out what `infra.roles` prints, without the AWS CLI: its verbs are the API's."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any


def carry_out(printed: str, client: Any) -> None:
    """Run each line, which begins with ``aws iam``, as where nothing is there yet."""
    for line in printed.splitlines():
        words = shlex.split(line.rpartition(" || ")[2])
        assert words[:2] == ["aws", "iam"]
        getattr(client, words[2].replace("-", "_"))(**api_arguments(words[3:]))


def api_arguments(words: list[str]) -> dict[str, Any]:
    """Options of the AWS CLI as the API has them."""
    found: dict[str, list[str]] = {}
    for word in words:
        if word.startswith("--"):
            name = "".join(part.capitalize() for part in word[2:].split("-"))
            values = found.setdefault(name, [])
        else:
            values.append(word)
    return {name: _tags(values) if name == "Tags" else values[0] for name, values in found.items()}


def _tags(values: list[str]) -> list[dict[str, str]]:
    return [dict(part.split("=", 1) for part in value.split(",")) for value in values]


def filled_in(document: Mapping[str, Any], tags: Mapping[str, str]) -> dict[str, Any]:
    """A policy as AWS evaluates it for a caller with these tags: its variables replaced, and
    without the statements whose variable has no value. The emulator's own evaluator leaves
    variables as they are.
    """
    statements = []
    for statement in document["Statement"]:
        text = json.dumps(statement)
        for key, value in tags.items():
            text = text.replace(f"${{aws:PrincipalTag/{key}}}", json.dumps(value)[1:-1])
        if "${" not in text:
            statements.append(json.loads(text))
    return {**document, "Statement": statements}

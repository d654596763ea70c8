"""The documents' schemas and readers, side by side."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from sidecar.settings import team_settings
from solver_lambda.documents import observation, plan

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/golden"
READERS: dict[str, Callable[[bytes | str, str], Any]] = {
    "observation": observation.Observation.loads,
    "plan": plan.AdaptationPlan.loads,
    "settings": team_settings.TeamSettings.loads,
}
VERSIONS = {
    "observation": observation.VERSION,
    "plan": plan.VERSION,
    "settings": team_settings.VERSION,
}
SCHEMAS = {
    name: json.loads((ROOT / f"docs/develop/schemas/{name}.json").read_text()) for name in READERS
}
_REGISTRY: Registry[Any] = Registry().with_resources(
    (f"{name}.json", Resource.from_contents(schema)) for name, schema in SCHEMAS.items()
)
VALIDATORS = {
    name: Draft202012Validator(schema, registry=_REGISTRY) for name, schema in SCHEMAS.items()
}

Place = tuple[str | int, ...]


class Schema:
    """A part of a document's schema, with references followed.

    Attributes:
        table: what it says itself, and what it refers to.
        properties, items: of a table's keys, and of a list.
    """

    def __init__(self, document: str, table: dict[str, Any]) -> None:
        self.table = table
        self.properties = {
            key: Schema(document, item) for key, item in table.get("properties", {}).items()
        }
        self.items = Schema(document, table["items"]) if "items" in table else None
        if reference := table.get("$ref"):
            file, _, pointer = reference.partition("#/")
            name = file.removesuffix(".json") or document
            found: Any = SCHEMAS[name]
            for step in pointer.split("/"):
                found = found[step]
            referred = Schema(name, found)
            self.table = {**referred.table, **table}
            self.properties |= referred.properties
            self.items = self.items or referred.items

    @property
    def required(self) -> set[str]:
        return set(self.table.get("required", ()))

    @property
    def types(self) -> set[str]:
        given = self.table.get("type", [])
        return {given} if isinstance(given, str) else set(given)


def schema_of(name: str) -> Schema:
    return Schema(name, SCHEMAS[name])


def todays(name: str) -> Path:
    """The golden document of the present version."""
    return GOLDEN / f"{name}-{VERSIONS[name]}.json"


def golden(name: str) -> dict[str, Any]:
    """The document as it is written now, with no list longer than two."""
    return _shortened(json.loads(todays(name).read_text()))


def _shortened(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shortened(item) for key, item in value.items()}
    return [_shortened(item) for item in value[:2]] if isinstance(value, list) else value


def places(value: Any, schema: Schema, place: Place = ()) -> Iterator[tuple[Place, Schema]]:
    """Every place in a document, the whole included, and its schema."""
    yield place, schema
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, schema.properties[key], (*place, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from places(item, schema.items, (*place, number))

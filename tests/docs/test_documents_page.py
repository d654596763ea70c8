"""``docs/develop/documents.md`` has a row for every key of the schemas, and no other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from solver_lambda.documents.server_settings import BOUNDS
from tests.docs.documents import SCHEMAS, Schema, schema_of

TEXT = (Path(__file__).parents[2] / "docs/develop/documents.md").read_text()
OBSERVATION, PLAN = schema_of("observation"), schema_of("plan")


def items(schema: Schema, key: str) -> Schema:
    found = schema.properties[key].items
    assert found is not None
    return found


TABLES = {
    "## Observation": OBSERVATION,
    "### Observation: server": items(OBSERVATION, "servers"),
    "### Curve": items(OBSERVATION, "servers").properties["curve"],
    "### Planning": OBSERVATION.properties["planning"],
    "## Plan": PLAN,
    "### Plan: server": items(PLAN, "servers"),
    "### What if": items(PLAN, "what_if"),
    "## Settings": schema_of("settings"),
}


def rows(heading: str) -> Iterator[tuple[str, str, str]]:
    """Key, type and "may be left out" of each row in the table under a heading."""
    section = re.split(r"^#+ ", TEXT.partition(f"\n{heading}\n")[2], maxsplit=1, flags=re.M)[0]
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        for key in re.findall(r"`(\w+)`", cells[0]) if cells else ():
            yield key, cells[1], cells[2]


@pytest.mark.parametrize("heading", TABLES)
def test_the_table_has_the_keys_of_the_schema(heading: str) -> None:
    schema, found = TABLES[heading], list(rows(heading))
    assert sorted(key for key, _, _ in found) == sorted(schema.properties)
    assert {key for key, _, left_out in found if left_out == "no"} == schema.required
    for key, kind, left_out in found:
        assert left_out == "no" or left_out.startswith("yes"), key
        assert ("`null`" in kind) == ("null" in schema.properties[key].types), key


def test_every_bound_is_in_the_schemas() -> None:
    assert SCHEMAS["settings"]["$defs"]["bounds"]["properties"].keys() == BOUNDS.keys()

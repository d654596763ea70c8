"""``docs/develop/schemas`` allow what the readers read, and refuse what they refuse."""

from __future__ import annotations

import copy
import itertools
import json
import math
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from solver_lambda.documents.reader import DocumentError
from tests.docs.documents import (
    READERS,
    SCHEMAS,
    VALIDATORS,
    Place,
    Schema,
    golden,
    places,
    schema_of,
)
from tests.examples import examples

NAMES = sorted(READERS)
# What only the reader can see: a key beside another, a date, and how a number is written.
BEYOND_A_SCHEMA = re.compile(
    r"is below minimum|the minima sum to|are not a curve|has two servers named|the sizes sum to|"
    r"has no maxmemory_bytes|must be a time|must be a whole number, not 1\.0|printable"
)
ANY = (None, True, 0, 1, 1.0, -1, 0.5, 2, 2**60, 2**61 + 1, 2**64, 1e20, -1e20, "", "text", "keep")
MORE = ("2026-11-22", "apply", "\n", "x" * 5000, [], [1], [0.5], [{}], {}, {"x": 1})


def refusal(name: str, document: Any) -> str | None:
    """Why the reader refuses a document."""
    try:
        READERS[name](json.dumps(document), "d")
    except DocumentError as error:
        return str(error)
    return None


def check_that_both_agree(name: str, document: Any) -> None:
    why = refusal(name, document)
    if VALIDATORS[name].is_valid(document):
        assert why is None or BEYOND_A_SCHEMA.search(why)
    else:
        assert why is not None, "only the schema refuses it"


def changed(document: Any, place: Place, value: Any) -> Any:
    """Return the document with another value in one place."""
    if not place:
        return value
    document = copy.deepcopy(document)
    table = document
    for step in place[:-1]:
        table = table[step]
    table[place[-1]] = value
    return document


def value_at(document: Any, place: Place) -> Any:
    for step in place:
        document = document[step]
    return document


def wrong_values(schema: Schema, value: Any) -> Iterator[Any]:
    """Values beside each border that a schema draws, ``value`` being a good one."""
    table = schema.table
    for border, sign in (("minimum", -1), ("maximum", 1)):
        if border in table:
            most = table[border]
            yield most + sign if isinstance(most, int) else math.nextafter(most, sign * math.inf)
    if "maxLength" in table:
        yield "x" * (table["maxLength"] + 1)
    if "maxItems" in table:
        yield list(itertools.repeat(value[0], table["maxItems"] + 1))
    if "minItems" in table:
        yield []
    if "pattern" in table:
        yield "-x"
        yield "x" * 64
    if "enum" in table or "const" in table:
        yield "another"
    if schema.types and "null" not in schema.types:
        yield None
    if "string" in schema.types:
        yield from ("", 5)
    elif schema.types:
        yield "text"
    if schema.properties:
        yield {**value, "unknown": 1}
        for key in schema.required:
            yield {other: item for other, item in value.items() if other != key}


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_a_schema(name: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[name])


@pytest.mark.parametrize("name", NAMES)
def test_what_is_beyond_a_border_is_refused_by_both(name: str) -> None:
    document = golden(name)
    for place, schema in places(document, schema_of(name)):
        for value in wrong_values(schema, value_at(document, place)):
            wrong = changed(document, place, value)
            assert not VALIDATORS[name].is_valid(wrong), (place, value)
            assert refusal(name, wrong), (place, value)


@pytest.mark.parametrize("name", NAMES)
def test_both_agree_on_anything_in_any_place(name: str) -> None:
    document = golden(name)
    for place, schema in places(document, schema_of(name)):
        borders = [schema.table[key] for key in ("minimum", "maximum") if key in schema.table]
        for value in (*ANY, *MORE, *borders):
            check_that_both_agree(name, changed(document, place, value))


@pytest.mark.parametrize("name", NAMES)
def test_a_key_that_may_be_left_out_may_be_left_out(name: str) -> None:
    document = golden(name)
    for place, schema in places(document, schema_of(name)):
        for key in schema.properties.keys() - schema.required:
            table = {k: item for k, item in value_at(document, place).items() if k != key}
            less = changed(document, place, table)
            VALIDATORS[name].validate(less)
            assert refusal(name, less) is None, key


def values(schema: Schema) -> st.SearchStrategy[Any]:
    """Return what a schema allows, in short lists."""
    table = schema.table
    if "const" in table:
        return st.just(table["const"])
    if "enum" in table:
        return st.sampled_from(table["enum"])
    if "pattern" in table:
        return st.from_regex(table["pattern"].replace("$", r"\Z"))
    if schema.properties:
        given = {key: values(item) for key, item in schema.properties.items()}
        must = {key: item for key, item in given.items() if key in schema.required}
        may = {key: item for key, item in given.items() if key not in must}
        return st.fixed_dictionaries(must, optional=may)
    least, most = table.get("minimum"), table.get("maximum")
    kinds = {
        "null": lambda: st.none(),
        "boolean": lambda: st.booleans(),
        "integer": lambda: st.integers(least, most) | st.sampled_from([least, most]),
        "number": lambda: st.floats(least, most) | st.sampled_from([least, most]),
        "string": lambda: st.text("aZ09 :é", min_size=1, max_size=min(20, table["maxLength"])),
        "array": lambda: st.lists(
            values(schema.items), min_size=table.get("minItems", 0), max_size=3
        ),
    }
    return st.one_of([kinds[kind]() for kind in sorted(schema.types)])


def mended(name: str, document: dict[str, Any]) -> dict[str, Any]:
    """Put right what a schema cannot say."""
    servers = document.get("servers", [])
    for number, server in enumerate(servers):
        server["name"] = f"s{number}"
        most = document["budget_bytes"] // len(servers)
        if name == "plan" and document["decision"] == "apply":
            document["budget_bytes"] = max(document["budget_bytes"], len(servers))
            server["maxmemory_bytes"] = max(1, min(server["maxmemory_bytes"], most))
        if name == "observation":
            server["minimum_bytes"] = min(server["minimum_bytes"], most)
            if server.get("maximum_bytes") is not None:
                server["maximum_bytes"] = max(server["maximum_bytes"], server["minimum_bytes"])
            curve = server["curve"]
            sizes = sorted({size if size >= 1e-60 else 0 for size in curve["sizes_bytes"]})
            ratios = sorted(curve["miss_ratios"], reverse=True)
            count = min(len(sizes), len(ratios))
            server["curve"] = {"sizes_bytes": sizes[:count], "miss_ratios": ratios[:count]}
    if name == "settings":
        document["set_at"] = "2026-11-22T06:40:00+00:00"
    return document


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow])
def test_what_a_schema_allows_is_read(name: str, data: st.DataObject) -> None:
    document = mended(name, data.draw(values(schema_of(name))))
    VALIDATORS[name].validate(document)
    assert refusal(name, document) is None
    read = READERS[name](json.dumps(document), "d")
    VALIDATORS[name].validate(json.loads(read.dumps()))

"""Athena's text, read as Athena's by an SQL parser and run here, answers as infra.fleet does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlglot

from infra.fleet.__main__ import main
from infra.fleet.plan_store import HERE
from infra.fleet.questions import QUESTIONS
from infra.stacks.fleet_tables import PLAN_COLUMNS, hive_type
from workloads.bench.fleet_verb import write_plans


def in_duckdb(text: str) -> list[str]:
    return sqlglot.transpile(text, read="athena", write="duckdb")


def duckdb_type(kind: Any) -> str:
    (cast,) = in_duckdb(f"SELECT CAST(NULL AS {athena_type(hive_type(kind))}) AS x")
    return cast.partition(" AS ")[2].partition(") AS x")[0]


def athena_type(hive: str) -> str:
    return (
        hive.replace("array<struct<", "ARRAY(ROW(")
        .replace(">>", "))")
        .replace(":", " ")
        .replace("string", "VARCHAR")
    )


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the plans of two cells."""
    folder = tmp_path_factory.mktemp("stack")
    for cell in "ab":
        write_plans(folder / cell, 4, 12, seed=ord(cell))
    last = sorted((folder / "a/plans/cache-0001").iterdir())[-1]
    last.write_text(json.dumps(json.loads(last.read_text()) | {"what_if": []}))
    return folder


def test_athenas_text_gives_the_same_answers(stack: Path, capsys) -> None:
    database = duckdb.connect()
    columns = {
        "node": "VARCHAR",
        **{name: duckdb_type(kind) for name, kind in PLAN_COLUMNS.items()},
    }
    for cell in "ab":
        database.execute(
            f"CREATE TABLE plans_{cell} AS SELECT * FROM read_json($files, columns = {columns})",
            {"files": f"{stack}/{cell}/plans/*/*.json"},
        )
    for name in ("athena.sql", "views.sql"):
        for statement in in_duckdb((HERE / name).read_text()):
            database.execute(statement)
    sources = [str(stack / cell) for cell in "ab"]
    assert main([*sources, "--month", "2026-11", "--no-cache", "--json"]) == 0
    expected = json.loads(capsys.readouterr().out)
    for question in QUESTIONS:
        (statement,) = in_duckdb(question.file.read_text())
        rows = database.execute(statement).fetchall()
        names = [column[0] for column in database.description]
        assert rows, question.name
        assert [*expected[question.name][0]] == names
        found = [dict(zip(names, row, strict=True)) for row in rows]
        assert rounded(found, stack) == rounded(expected[question.name], stack)


def rounded(rows: list[dict[str, Any]], stack: Path) -> list[str]:
    sources = {str(stack / cell / "plans"): cell for cell in "ab"}
    return sorted(
        str(
            {
                key: f"{value:.9g}" if isinstance(value, int | float) else sources.get(value, value)
                for key, value in row.items()
            }
        )
        for row in rows
    )

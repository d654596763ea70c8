"""The plans as tables: what is new is read, what was read before is kept in a file."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from infra.fleet.document_batches import batches, why_refused
from infra.fleet.plan_sources import PlanKey, PlanSource

HERE = Path(__file__).parent
TABLES = ("plans", "plan_servers", "what_if")
MEMORY = "600MB"


class StoreError(Exception):
    """DuckDB is missing, or does not do what is asked; one sentence."""


class Loaded(NamedTuple):
    """Attributes:
    plans: how many there are now.
    read: how many of them were read just now.
    refused: why a document is no plan, a sentence for each.
    """

    plans: int
    read: int
    refused: list[str]


class PlanStore:
    """Plans of ``sources`` in DuckDB; ``file`` keeps them, ``None``: only in memory.

    Use as a context. Raises StoreError.
    """

    def __init__(self, file: Path | None) -> None:
        try:
            import duckdb
        except ImportError as error:
            raise StoreError(
                "the Python package 'duckdb' is missing (pip install '.[infra,fleet]')"
            ) from error
        self._error: type[Exception] = duckdb.Error
        try:
            if file is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
            self._database: Any = duckdb.connect(str(file) if file else ":memory:")
            self._database.execute(f"SET memory_limit = '{MEMORY}'")
            self._database.execute((HERE / "tables.sql").read_text())
        except (duckdb.Error, OSError) as error:
            raise StoreError(f"{file}: {_why_closed(error)}") from error

    def __enter__(self) -> PlanStore:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def load(self, sources: Iterable[PlanSource], from_cycle: int = 0) -> Loaded:
        """Make the tables have the plans that are in the sources now, from a cycle on.

        Raises:
            SourceError: a source cannot be read.
        """
        names, read, refused = [], 0, []
        for source in sources:
            names.append(source.name)
            there, known = source.versions(), self._known(source.name)
            # A document that was written again is a new one, as if the old one were gone.
            self._forget(
                source.name, [k for k, version in known.items() if there.get(k) != version]
            )
            new = [k for k, version in there.items() if known.get(k) != version]
            new = sorted(key for key in new if key.cycle >= from_cycle)
            for batch in batches(source, {key: there[key] for key in new}):
                refused += batch.refused + self._add(source, batch.file)
                read += batch.documents
        # Other sources in the file are not asked about now.
        self._rows("CREATE OR REPLACE TEMP TABLE chosen (source VARCHAR)")
        for name in names:
            self._rows("INSERT INTO chosen VALUES ($name)", name=name)
        self._rows((HERE / "copies.sql").read_text())
        for table in TABLES:
            self._rows(
                f"CREATE OR REPLACE TEMP VIEW {table} AS "  # noqa: S608
                f"SELECT told.told_of AS source, kept.* EXCLUDE (source) FROM kept_{table} AS kept "
                "JOIN told ON (told.source, told.node, told.cycle) "
                "= (kept.source, kept.node, kept.cycle)"
            )
        ((plans,),) = self._rows("SELECT count(*) FROM plans")
        return Loaded(plans, read - len(refused), refused)

    def newest_seconds(self) -> float:
        """Return when the newest plan was made; 0 if there is none."""
        ((seconds,),) = self._rows("SELECT coalesce(max(made_at_seconds), 0) FROM plans")
        return float(seconds)

    def from_the_future(self, now_seconds: float) -> list[str]:
        """Nodes with plans that were made later than now, a sentence for each."""
        text = (
            "SELECT source, node, count(*), max(made_at_seconds) - $now FROM plans "
            "WHERE made_at_seconds > $now GROUP BY source, node ORDER BY source, node"
        )
        return [
            f"{source}/{node}: plans from the future: {count:,}, by {ahead:,.0f} s and less"
            for source, node, count, ahead in self._rows(text, now=now_seconds)
        ]

    def ask(self, text: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return the names of the columns and the rows of one statement."""
        rows = self._rows(text)
        return [column[0] for column in self._database.description or ()], rows

    def _rows(self, text: str, **values: object) -> list[tuple[Any, ...]]:
        try:
            found: list[tuple[Any, ...]] = self._database.execute(text, values or None).fetchall()
        except self._error as error:
            raise StoreError(f"DuckDB: {_first_line(error)}") from error
        return found

    def _known(self, source: str) -> dict[PlanKey, str]:
        text = "SELECT node, cycle, version FROM kept_plans WHERE source = $source"
        return {PlanKey(*row[:2]): row[2] for row in self._rows(text, source=source)}

    def _forget(self, source: str, keys: list[PlanKey]) -> None:
        if not keys:
            return
        self._rows("CREATE OR REPLACE TEMP TABLE gone (node VARCHAR, cycle BIGINT)")
        for node, group in itertools.groupby(sorted(keys), key=lambda key: key.node):
            cycles = [key.cycle for key in group]
            self._rows("INSERT INTO gone SELECT $node, unnest($cycles)", node=node, cycles=cycles)
        # All or nothing: rows without their plan would count again when it comes back.
        self._rows("BEGIN")
        for table in TABLES:
            self._rows(
                f"DELETE FROM kept_{table} WHERE source = $source "  # noqa: S608
                "AND (node, cycle) IN (SELECT (node, cycle) FROM gone)",
                source=source,
            )
        self._rows("COMMIT")

    def _add(self, source: PlanSource, file: Path | None) -> list[str]:
        """Why some of the documents in a batch are no plans."""
        if file is None:
            return []
        self._rows((HERE / "new_documents.sql").read_text(), file=str(file))
        self._rows("BEGIN")
        for statement in _statements("add_plans.sql"):
            self._rows(statement, source=source.name)
        self._rows("COMMIT")
        text = "SELECT node, cycle FROM new_documents WHERE plan IS NULL ORDER BY node, cycle"
        bad = [PlanKey(*row) for row in self._rows(text)]
        return [why_refused(source, key, text) for key, text in source.read(bad)]


def _statements(name: str) -> list[str]:
    """Read the statements of a file of SQL, in which nothing else has a semicolon."""
    return [part for part in (HERE / name).read_text().split(";") if part.strip()]


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _why_closed(error: Exception) -> str:
    if "lock" in str(error):
        return "another run uses it: wait for its end, or say --no-cache"
    return _first_line(error)

"""The function's cold start is its imports."""

from __future__ import annotations

import pytest

from workloads.experiment.papers.import_cases import HANDLER, beyond_budget


def test_the_function_imports_numpy_and_nothing_expensive() -> None:
    assert beyond_budget() == []


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ("import redis", "redis beside numpy"),
        ("import ssl", "ssl, which"),
        ("import xmlrpc.server", "are allowed"),
    ],
)
def test_what_breaks_the_budget_is_named(more: str, named: str) -> None:
    assert any(named in sentence for sentence in beyond_budget(f"{HANDLER}; {more}"))

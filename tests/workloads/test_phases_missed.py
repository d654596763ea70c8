"""What a measurement of phases has to own up to."""

from __future__ import annotations

from typing import Any

import pytest

from workloads.experiment.papers.phases.missed import missed


def data_of(hits: list[float] | None, p50_seconds: float = 0.001) -> dict[str, Any]:
    """One paced shrink, whose hit ratio was found to move between these times."""
    change = {
        "found": {"hits": hits, "latency": None},
        "is_over": True,
        "phases": {"base": {"p50": p50_seconds}, "transition": None, "steady": None},
    }
    return {"objects": 1, "ways": {"paced": [{"shrink": change}]}}


@pytest.mark.parametrize("hits", [[0.0, 0.0], [-0.3, 5.0], [0.2, 0.9]])
def test_a_transition_that_the_change_made_is_not_missed(hits: list[float]) -> None:
    assert not missed(data_of(hits))


@pytest.mark.parametrize("hits", [[-0.1, 0.0], [-0.4, -0.2], [-0.9, 0.6]])
def test_one_that_lies_before_the_change_is(hits: list[float]) -> None:
    (sentence,) = missed(data_of(hits))
    assert "before the change" in sentence


def test_clients_behind_their_rate_are_told() -> None:
    (sentence,) = missed(data_of([0.0, 0.5], p50_seconds=1.556))
    assert "1,556.00 ms" in sentence

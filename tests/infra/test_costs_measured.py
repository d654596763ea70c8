"""The measurements that the bills rest on: the file, and whether it still fits the code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.costs.measured import MEASURED_FILE, MeasuredError, read_measured
from tests.infra.costs_examples import MEASURED
from workloads.bench.solver.function_verb import document_sizes, realistic_observation


def test_run_time_between_and_beyond_the_points() -> None:
    assert MEASURED.run_cpu_seconds(1) == 0.02
    assert MEASURED.run_cpu_seconds(2) == pytest.approx(0.03)
    assert MEASURED.run_cpu_seconds(3) == pytest.approx(0.04)
    assert MEASURED.run_cpu_seconds(10) == pytest.approx(0.11)
    assert MEASURED.run_cpu_seconds(20) == pytest.approx(0.21)


@given(st.integers(1, 500))
def test_run_time_never_falls_with_servers(servers: int) -> None:
    measured = read_measured()
    assert 0 < measured.run_cpu_seconds(servers) <= measured.run_cpu_seconds(servers + 1)


def test_documents_are_as_large_as_the_file_says() -> None:
    """The bill is made of observations; plans and log lines are short, and may find other words."""
    measured, now = read_measured(), document_sizes()
    for name, tolerance in (("observation_bytes", 0.1), ("plan_bytes", 0.5), ("log_bytes", 0.5)):
        stored = getattr(measured, name).of(10)
        found = now[name]["node"] + 10 * now[name]["server"]
        assert stored == pytest.approx(found, rel=tolerance), name


def test_a_document_is_a_part_for_the_node_and_one_for_each_server() -> None:
    predicted = read_measured().observation_bytes.of(8)
    assert predicted == pytest.approx(len(realistic_observation(8).dumps()), rel=0.25)


def test_says_when_and_how_it_was_measured() -> None:
    measured = read_measured()
    assert measured.date > "2026"
    assert "workloads bench function" in measured.how


def table(**changes: Any) -> str:
    return json.dumps({**json.loads(MEASURED_FILE.read_text()), **changes})


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("{", "not a file of measurements"),
        ("[]", "not a file of measurements"),
        (table(init_cpu_seconds=-1), "init_cpu_seconds must be a number"),
        (table(init_cpu_seconds=True), "init_cpu_seconds must be a number"),
        (table(init_cpu_seconds=None), "init_cpu_seconds must be a number"),
        (table(peak_memory_bytes=float("inf")), "peak_memory_bytes must be a number"),
        (table(run_cpu_seconds={}), "run_cpu_seconds must be an object"),
        (table(run_cpu_seconds={"0": 1}), "run_cpu_seconds must have numbers of servers"),
        (table(run_cpu_seconds={"few": 1}), "run_cpu_seconds must have numbers of servers"),
        (table(run_cpu_seconds={"3": "1"}), r"run_cpu_seconds\.3 must be a number"),
        (table(plan_bytes=7), "plan_bytes must be an object, not 7"),
        (table(plan_bytes={"node": 1}), r"plan_bytes\.server must be a number"),
    ],
)
def test_refuses_a_bad_file(text: str, named: str, tmp_path: Path) -> None:
    path = tmp_path / "measured.json"
    path.write_text(text)
    with pytest.raises(MeasuredError, match=named):
        read_measured(path)

"""The function's time and price by its memory: what is measured, and what follows from figures."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from solver_lambda.function.object_store import ObjectStore, ObjectStoreError
from workloads.experiment.papers import memory_runs
from workloads.experiment.papers.memory import (
    STUDY,
    best_mb,
    cheapest_mb,
    conclude,
    missed,
    p_value,
    usd_per_plan,
)
from workloads.experiment.papers.memory_runs import object_store

MB = 1 << 20


def figures(seconds: dict[int, tuple[float, float]], peak_bytes: int = 60 * MB) -> dict[str, Any]:
    """Return figures by size, of a cold and a warm run; each seen five times, a little apart."""
    return {
        "is_grouped": True,
        "chosen_mb": 512,
        "prices": {
            "gb_second_usd": 0.00001,
            "request_usd": 0.0000002,
            "date": "2026-11-01",
            "region": "us-east-2",
        },
        "runs": {
            "3": {
                str(size): {
                    "cold_seconds": [cold * (1 + k / 1000) for k in range(-2, 3)],
                    "warm_seconds": [warm * (1 + k / 1000) for k in range(-2, 3)],
                    "peak_memory_bytes": peak_bytes,
                }
                for size, (cold, warm) in seconds.items()
            }
        },
    }


# A fifth of a second of a processor, a hundredth for a warm run, and 60 ms of waiting.
USUAL = figures(
    {
        size: (0.2 * slow + 0.06, 0.01 * slow + 0.06)
        for size in memory_runs.SIZES_MB
        for slow in [max(1.0, memory_runs.WHOLE_PROCESSOR_MB / size)]
    }
)


def test_a_run_is_billed_by_begun_milliseconds_and_memory() -> None:
    assert usd_per_plan(USUAL, 512, 0.1001) == pytest.approx(0.101 * 0.5 * 0.00001 + 0.0000002)
    assert usd_per_plan(USUAL, 2048, 1.0) == pytest.approx(2 * 0.00001 + 0.0000002)


def test_who_computes_pays_the_same_and_who_waits_pays_for_memory() -> None:
    # A cold start with 128 MB takes 2.82 s and 0.353 GB-s, with 512 MB 0.75 s and 6 % more, with
    # 1,024 MB 0.41 s and 15 % more. A warm run waits, and with 256 MB costs 30 % more.
    assert cheapest_mb(USUAL, "3", "cold") == 128
    assert best_mb(USUAL, "3", "cold") == 512
    assert cheapest_mb(USUAL, "3", "warm") == 128
    assert best_mb(USUAL, "3", "warm") == 128
    # What only computes costs the same everywhere up to a whole processor.
    computing = figures({512: (2.0, 1.0), 1024: (1.0, 1.0), 1769: (0.579, 1.0), 3008: (0.579, 1.0)})
    assert best_mb(computing, "3", "cold") == 1769


def test_a_size_that_the_function_does_not_fit_in_is_not_chosen() -> None:
    large = figures({int(size): (1.0, 1.0) for size in USUAL["runs"]["3"]}, peak_bytes=300 * MB)
    assert cheapest_mb(large, "3", "cold") == 512
    rows = STUDY.tables(large)[0].rows
    assert [row[-1].endswith("does not fit") for row in rows] == [True, True] + [False] * 4


def test_neighbours_are_told_apart_only_by_enough_runs() -> None:
    assert p_value([1.0, 1.1, 1.2], [2.0, 2.1, 2.2]) is None
    # All five below all five: two of the 252 ways to lie, both ends counted.
    assert p_value([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]) == pytest.approx(2 / 252)
    assert p_value([1, 3, 5, 7], [2, 4, 6, 8]) > 0.5
    few = figures({512: (1.0, 0.1), 1024: (0.5, 0.1)})
    for runs in few["runs"]["3"].values():
        runs["cold_seconds"] = runs["cold_seconds"][:1]
    cells = STUDY.tables(few)[-1].rows[0]
    assert cells[1:3] == ["2.00", "too few runs"]
    assert cells[4] != "too few runs"


def test_it_says_what_follows_and_whether_the_function_has_it() -> None:
    told = conclude(USUAL)
    assert "128 MB is the cheapest size" in told
    assert "512 MB the fastest for the money (751 ms" in told
    assert told.endswith("Ours has 512 MB.")
    assert missed(USUAL) == []
    other = {**USUAL, "chosen_mb": 1769}
    assert missed(other) == ["The function has 1,769 MB, and 512 MB are the better size."]


def test_of_too_few_runs_there_is_no_verdict() -> None:
    few = figures({128: (2.8, 0.2), 256: (0.9, 0.1), 512: (0.89, 0.1)})
    assert missed(few)
    few["runs"]["3"]["256"]["cold_seconds"] = few["runs"]["3"]["256"]["cold_seconds"][:3]
    assert missed(few) == []
    assert STUDY.headlines(few) == []
    told = conclude(few)
    assert told.startswith("No verdict: fewer than 4 cold starts")
    assert "256 MB" not in told


def test_what_waits_is_not_stretched() -> None:
    assert memory_runs.stretched(0.3, 0.1, 1.0) == pytest.approx(0.3)
    assert memory_runs.stretched(0.3, 0.1, 4.0) == pytest.approx(0.2 + 0.4)


def test_the_store_keeps_what_is_put_once() -> None:
    objects = {"/from/observations/n/1.json": b"asked"}
    with object_store(objects, 0.0) as environment:
        store = ObjectStore(environment)
        assert store.get("from", "observations/n/1.json", max_bytes=100) == b"asked"
        assert store.put_new("to", "plans/n/1.json", b"planned")
        assert not store.put_new("to", "plans/n/1.json", b"again")
        with pytest.raises(ObjectStoreError, match="404"):
            store.get("from", "observations/n/2.json", max_bytes=100)
    assert objects["/to/plans/n/1.json"] == b"planned"


@pytest.mark.parametrize("is_grouped", [False, True])
def test_the_real_handler_makes_a_plan_in_a_process_of_its_own(is_grouped: bool) -> None:
    if is_grouped and not memory_runs.has_control_groups():
        pytest.skip("no control group can be made here")
    run = memory_runs.one_process(3, 1769, seed=1, is_grouped=is_grouped)
    # The store answers twice for each plan.
    least = 2 * memory_runs.S3_ANSWER_SECONDS
    assert run.warm_seconds >= least
    assert run.cold_seconds > least
    assert 20 * MB < run.peak_memory_bytes < 1000 * MB


def test_a_group_holds_the_process_and_its_share_and_is_gone_afterwards() -> None:
    with memory_runs.processor_share(0.25) as door:
        if door is None:
            pytest.skip("no control group can be made here")
        folder = door.parent
        code = 'echo $$ >"$0" && exec cat /proc/self/cgroup'
        done = subprocess.run(["sh", "-c", code, str(door)], capture_output=True, text=True)
        assert folder.name in done.stdout
        second = folder / "cpu.max"
        if second.exists():
            assert second.read_text().split() == ["5000", "20000"]
        else:
            assert (folder / "cpu.cfs_quota_us").read_text().strip() == "5000"
            assert (folder / "cpu.cfs_period_us").read_text().strip() == "20000"
    assert not folder.exists()


def test_without_control_groups_there_is_no_door(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_runs, "CONTROL_GROUPS", tmp_path / "nothing")
    assert not memory_runs.has_control_groups()


def test_a_function_that_fails_is_said_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_runs, "WORKER", "workloads.no_such_module")
    with pytest.raises(memory_runs.StudyError, match=r"the function at 512 MB: .*No module named"):
        memory_runs.one_process(3, 512, seed=1, is_grouped=False)

"""What infra.fleet does not count: what the reader refuses, and what is from the future."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra.fleet.__main__ import main
from infra.fleet.plan_sources import FolderPlans
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.documents.reader import DocumentError
from workloads.bench.fleet_verb import write_plans

Change = Callable[[dict[str, Any]], object]


def fleet(folder: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, Any, str]:
    """Return exit code, answers, and what is told beside."""
    code = main([str(folder), "--json", "--no-cache", *more])
    text, words = capsys.readouterr()
    return code, json.loads(text) if text else None, words


def server(**values: object) -> Change:
    return lambda plan: plan["servers"][0].update(values)


def top(**values: object) -> Change:
    return lambda plan: plan.update(values)


REFUSED: dict[str, Change] = {
    "negative rate": server(request_rate_per_second=-1e6),
    "a rate that overflows": server(request_rate_per_second=1e308),
    "infinite": server(eat_installed_seconds=float("inf")),
    "not a number": server(weight=float("nan")),
    "not a number that nobody counts": server(hit_ratio=float("nan")),
    "a name for a terminal": server(name="a|b\x1b[31m"),
    "a name that ends with a sign": server(name="sessions-"),
    "a long name": server(name="a" + "1" * 63),
    "a name with a blank": server(name="a b"),
    "negative size": server(maxmemory_before_bytes=-1),
    "a size with a fraction": server(maxmemory_bytes=1.5),
    "a limit as a text": server(installed_bytes="1"),
    "an unknown key of a server": server(rate=1),
    "no reason": lambda plan: plan["servers"][0].pop("reason"),
    "a long reason": server(reason="x" * 5000),
    "a reason with a line's end": server(reason="x\ny"),
    "a server twice": lambda plan: plan["servers"].append(plan["servers"][0]),
    "no servers": top(servers=[]),
    "servers as a table": top(servers={"name": "a"}),
    "a window as a text": top(window_seconds="36000000"),
    "an unknown key": top(unknown=1),
    "a gap as a text": top(optimality_gap="abc"),
    "a negative gap": top(optimality_gap=-1),
    "true as a number": top(run_seconds=True),
    "no budget": top(budget_bytes=0),
    "what-if of no budget": top(what_if=[{"budget_bytes": 0, "mean_access_time_seconds": 1}]),
    "what-if without a time": top(what_if=[{"budget_bytes": 1}]),
    "more than the budget": top(decision="apply", budget_bytes=1),
    "another version": top(version=2),
    "another kind": top(kind="spreds.observation"),
    "before all time": top(made_at_seconds=-1),
    "nested too deeply": lambda plan: plan.update(what_if=nested(200)),
}
TAKEN: dict[str, Change] = {
    "demand not told": server(weight=None, request_rate_per_second=None, installed_bytes=None),
    "nothing predicted": top(mean_access_time_seconds=None, what_if=None),
    "no other budget": top(what_if=[]),
    "letters of other scripts": server(reason='grün: "größer" \\ mehr/weniger ≥ 1'),
    "whole numbers for others": top(window_seconds=3600, optimality_gap=0),
    "an exponent": server(weight=1e-7),
    "keys in another order": lambda plan: plan.update(node=plan.pop("node")),
    "no limit, and nothing changes": lambda plan: (
        plan.update(decision="keep"),
        plan["servers"][0].update(maxmemory_bytes=0),
    ),
}


def nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


def test_it_counts_what_the_reader_takes_for_a_plan(capsys, tmp_path) -> None:
    write_plans(tmp_path, 1, len(REFUSED) + 3 * len(TAKEN))
    files = iter(sorted((tmp_path / "plans/cache-0000").iterdir()))
    taken = 0
    for name, change in REFUSED.items():
        path = next(files)
        path.write_text(changed(path, change))
        with pytest.raises(DocumentError):
            AdaptationPlan.loads(path.read_text(), name)
    for (name, change), form in itertools.product(
        TAKEN.items(), ({"indent": 1}, {"ensure_ascii": False}, {"separators": (",", ":")})
    ):
        path = next(files)
        path.write_text(changed(path, change, **form))
        AdaptationPlan.loads(path.read_text(), name)
        taken += 1
    code, _, words = fleet(tmp_path, capsys)
    assert f"{len(REFUSED)} documents are no plans" in words
    assert f"{taken} plans, {taken} new documents" in words
    assert "a key is not written" not in words
    assert code == 1
    assert "\x1b" not in words


def changed(path: Path, change: Change, **form: Any) -> str:
    document = json.loads(path.read_text())
    change(document)
    return json.dumps(document, **form)


def test_a_budget_that_cannot_be_added_to_stops_nothing(capsys, tmp_path) -> None:
    write_plans(tmp_path, 2, 1)
    (path,) = (tmp_path / "plans/cache-0001").iterdir()
    path.write_text(changed(path, top(budget_bytes=2**63 - 1, what_if=None)))
    code, answers, words = fleet(tmp_path, capsys)
    assert code == 1
    assert [row["node"] for row in answers["nodes"]] == ["cache-0000"]
    assert f"cache-0001/{path.name}: a number is too large" in words


@pytest.mark.parametrize("period", [["--month", "2026-11"], ["--days", "3"]])
def test_a_clock_that_is_ahead_hides_nobody(capsys, tmp_path, monkeypatch, period) -> None:
    write_plans(tmp_path, 3, 2)
    paths = [sorted((tmp_path / f"plans/cache-000{n}").iterdir())[-1] for n in range(3)]
    now = json.loads(paths[0].read_text())["made_at_seconds"] + 10
    monkeypatch.setattr(time, "time", lambda: now)
    paths[2].write_text(changed(paths[2], top(made_at_seconds=now + 3 * 86_400)))
    code, answers, words = fleet(tmp_path, capsys, *period)
    assert {row["node"] for row in answers["nodes"]} == {f"cache-000{n}" for n in range(3)}
    assert "plans/cache-0002: plans from the future: 1, by " in words
    assert "1 nodes have plans from the future" in words
    assert code == 1


def test_what_is_no_file_is_named_and_not_waited_for(capsys, tmp_path) -> None:
    write_plans(tmp_path, 1, 2)
    node = tmp_path / "plans/cache-0000"
    (node / "000000000001.json").mkdir()
    os.mkfifo(node / "000000000002.json")
    (node / "000000000003.json").symlink_to(node / "nowhere")
    code, answers, words = fleet(tmp_path, capsys)
    assert code == 1
    assert answers["nodes"]
    assert "cache-0000/000000000001.json: it is no file" in words
    assert "cache-0000/000000000002.json: it is no file" in words
    assert "2 documents are no plans" in words


def test_what_a_node_prunes_meanwhile_is_passed_over(capsys, tmp_path, monkeypatch) -> None:
    write_plans(tmp_path, 2, 3)
    listed = FolderPlans.versions

    def prune(source: FolderPlans) -> Any:
        found = listed(source)
        sorted((tmp_path / "plans/cache-0000").iterdir())[0].unlink()
        return found

    monkeypatch.setattr(FolderPlans, "versions", prune)
    code, answers, words = fleet(tmp_path, capsys)
    assert code == 0
    assert len(answers["nodes"]) == 2
    assert "5 plans, 5 new documents" in words


def test_no_name_moves_the_cursor_or_ends_a_cell(capsys, tmp_path) -> None:
    for name in ("a|b", "c\x1b[31m"):
        write_plans(tmp_path / name, 1, 2, seed=len(name))
    sources = [str(tmp_path / name) for name in ("a|b", "c\x1b[31m")]
    assert main([*sources, "--no-cache", "--markdown", "--ask", "nodes"]) == 0
    text = capsys.readouterr().out
    assert "/a\\|b/plans |" in text
    assert "/c\\x1b[31m/plans |" in text
    assert "\x1b" not in text

"""``python -m infra.fleet`` answers as plain Python does over the same documents."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from infra.fleet.__main__ import main
from infra.fleet.plan_store import TABLES
from tests.fleet import slow_twins
from workloads.bench.fleet_verb import GIB, WINDOW_SECONDS, plans_of_node, write_plans

NODES, PLANS = 8, 30
DEMAND = ("weight", "request_rate_per_second", "installed_bytes", "eat_installed_seconds")


def rewrite(path: Path, change: Any) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document, indent=1))


def without_demand(plan: dict[str, Any]) -> None:
    del plan["window_seconds"]
    for server in plan["servers"]:
        for key in DEMAND:
            del server[key]


def without_predictions(plan: dict[str, Any]) -> None:
    plan |= {"mean_access_time_seconds": None, "what_if": None}
    plan["servers"][0] |= {"eat_before_seconds": None, "eat_seconds": None}


def with_far_budgets(plan: dict[str, Any]) -> None:
    """Add budgets as sidecars since 0.2 ask for: answers go as far as those of older ones."""
    far = ((0.25, 60.0), (2.0, 1e-6), (4.0, 1e-7))
    plan["what_if"] += [
        {
            "budget_bytes": round(ratio * plan["budget_bytes"]),
            "mean_access_time_seconds": seconds,
            "hit_ratio": 0.5,
            "misses_per_second": 1.0,
            "optimality_gap": 0.0,
            "equal_sizes_seconds": seconds,
            "equal_sizes_misses_per_second": 1.0,
        }
        for ratio, seconds in far
    ]


def without_limit_as_found(plan: dict[str, Any]) -> None:
    plan["servers"][0] |= {"installed_bytes": 0}
    del plan["servers"][0]["eat_installed_seconds"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two stacks whose nodes have the same names, and all that plans may lack."""
    first, second = (tmp_path_factory.mktemp(name) / "plans" for name in ("first", "second"))
    for folder, seed in ((first, 1), (second, 2)):
        write_plans(folder.parent, NODES, PLANS, seed)
    files = {number: sorted((first / f"cache-000{number}").iterdir()) for number in range(NODES)}
    rewrite(files[1][-1], without_demand)
    rewrite(files[2][-1], without_predictions)
    rewrite(files[3][-1], without_limit_as_found)
    for path in files[4][: PLANS // 2]:
        rewrite(path, without_demand)
    rewrite(files[7][-1], lambda plan: plan.update(what_if=None))
    rewrite(files[3][-1], with_far_budgets)
    # It was renamed, and of another the first plans are in both places.
    for path in files[5][3:]:
        path.unlink()
    shutil.rmtree(second / "cache-0006")
    (second / "cache-0006").mkdir()
    for path in files[6][: PLANS // 2]:
        shutil.copy(path, second / "cache-0006")
    return first, second


@pytest.fixture(scope="module")
def plans(folders: tuple[Path, Path]) -> list[dict[str, Any]]:
    return slow_twins.documents(*folders)


@pytest.fixture(scope="module")
def now(plans: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = slow_twins.latest(plans, 86_400)
    # Without the one that was renamed, and one that is told of twice.
    assert len(found) == 2 * NODES - 2
    return found


def ask(
    capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0
) -> dict[str, list[dict[str, Any]]]:
    assert main([*map(str, arguments), "--json", "--no-cache"]) == code
    answers = json.loads(capsys.readouterr().out)
    assert isinstance(answers, dict)
    return answers


def rounded(rows: list[dict[str, Any]]) -> list[str]:
    """Return rows in no order, without the last digits, which change with the order of a sum."""
    return sorted(
        str({key: f"{v:.9g}" if isinstance(v, float) else v for key, v in row.items()})
        for row in rows
    )


def by_node(rows: list[dict[str, Any]], *columns: str) -> dict[tuple[str, str], tuple[Any, ...]]:
    return {(row["source"], row["node"]): tuple(row[c] for c in columns) for row in rows}


def assert_same(found: dict[Any, Any], twin: dict[Any, Any]) -> None:
    assert found.keys() == twin.keys()
    for key, values in twin.items():
        for one, other in zip(found[key], values, strict=True):
            if isinstance(other, float):
                assert one == pytest.approx(other, rel=1e-9, abs=1e-12), key
            else:
                assert one == other, key


def test_which_nodes_lack_memory(capsys, folders, now) -> None:
    rows = ask(capsys, *folders, "--ask", "nodes", "--lack", "0.1")["nodes"]
    twin = slow_twins.nodes(now, 0.1)
    verdicts = [verdict for verdict, _ in twin.values()]
    assert set(verdicts) == {"lacks memory", "has enough", "not known"}
    assert_same(by_node(rows, "verdict", "waiting_saved"), twin)
    told = [row["waiting_saved"] for row in rows if row["waiting_saved"] is not None]
    assert told == sorted(told, reverse=True)
    # One tells no demand, one of no other budget; the third predicts nothing, and is not there.
    assert len(told) == len(rows) - 2 == len(now) - 3


@pytest.mark.parametrize("step", [GIB // 4, GIB, 5 * GIB])
def test_what_a_step_is_worth_and_which_transfer_gains_most(capsys, folders, now, step) -> None:
    answers = ask(capsys, *folders, "--ask", "worth", "--ask", "transfers", "--step", step)
    assert_same(by_node(answers["worth"], "waiting_saved", "bound"), slow_twins.worth(now, step))
    found = {
        (row["from_source"], row["from_node"], row["to_source"], row["to_node"]): (
            row["waiting_saved"],
        )
        for row in answers["transfers"]
    }
    twin = slow_twins.transfers(now, step)
    assert twin
    # Fewer than twenty nodes: all pairs.
    assert_same(found, {pair: (gain,) for pair, gain in twin.items()})
    assert answers["transfers"][0]["waiting_saved"] == pytest.approx(max(twin.values()))


def test_what_was_saved_and_who_lost(capsys, folders, plans) -> None:
    answers = ask(capsys, *folders, "--ask", "saved", "--ask", "teams")
    saved = answers["saved"]
    columns = ("seconds_saved", "weighted_ratio", "seconds_saved_as_stated")
    assert_same(by_node(saved, *columns), slow_twins.saved(plans))
    assert 0 < saved[0]["seconds_saved_as_stated"] < saved[0]["seconds_saved"]
    assert (saved[0]["source"], saved[0]["node"]) == ("all", "all")
    assert saved[0]["plans"] == len({id(plan) for plan, _, _ in slow_twins.waits(plans)})
    assert saved[0]["weighted_ratio"] > 0.05
    found = {row["team"]: (row["seconds_lost"], row["seconds_saved"]) for row in answers["teams"]}
    twin = slow_twins.teams(plans)
    assert_same(found, twin)
    assert any(lost for lost, _ in twin.values())


def test_the_right_size_of_each_machine(capsys, folders, plans, now) -> None:
    rows = ask(capsys, *folders, "--ask", "sizes", "--enough", "0.05")["sizes"]
    twin = slow_twins.sizes(plans, now, 0.05)
    assert len({row["verdict"] for row in rows}) > 1
    assert_same(by_node(rows, "right_bytes", "bound"), twin)
    assert "at least" in {bound for _, bound in twin.values()}


def test_a_month_counts_alone(capsys, folders, plans) -> None:
    # 2026-11-06 to 2026-11-08.
    for month in ("2026-10", "2027-03"):
        assert main([str(folders[0]), "--month", month, "--no-cache"]) == 1
        said = capsys.readouterr()
        assert (said.out, said.err) == ("", f"fleet: {folders[0]}: no plan there is of {month}\n")
    whole = ask(capsys, folders[0], "--month", "2026-11")["saved"]
    assert_same(
        by_node(whole, "seconds_saved"),
        by_node(ask(capsys, folders[0])["saved"], "seconds_saved"),
    )
    days = 2.5 * WINDOW_SECONDS / 86_400
    last = ask(capsys, folders[0], "--days", days)["saved"]
    newest = max(plan["made_at_seconds"] for plan in plans)
    recent = [
        plan
        for plan in plans
        if plan["source"] == str(folders[0]) and plan["made_at_seconds"] >= newest - days * 86_400
    ]
    assert_same(
        {name: value[:1] for name, value in by_node(last, "seconds_saved").items()},
        {name: value[:1] for name, value in slow_twins.saved(recent).items()},
    )


def test_what_is_no_plan_is_named_and_the_rest_is_answered(capsys, folders, tmp_path) -> None:
    folder = tmp_path / "plans"
    shutil.copytree(folders[1], folder)
    answers = ask(capsys, folders[1])
    good = sorted((folder / "cache-0001").iterdir())[0]
    bad = {
        "000000000001": b"{",
        "000000000002": b"",
        "000000000003": b'{"kind": "spreds.observation"}',
        "000000000004": good.read_bytes(),  # another's
        "000000000005": good.read_bytes().replace(b'"servers":', b'"servers":7,"s":'),
        "000000000006": b"\xff\xfe\x00",
        "000000000007": good.read_bytes().replace(b'"decision":"keep"', b'"decision":"wait"'),
    }
    for name, text in bad.items():
        (folder / "cache-0001" / f"{name}.json").write_bytes(text)
    (folder / "cache-0001" / "notes.txt").write_text("not named like a plan")
    arguments = [str(folder), "--json", "--no-cache"]
    assert main(arguments) == 1
    text, words = capsys.readouterr()
    for name in bad:
        assert words.count(f"cache-0001/{name}.json: ") == 1, words
    assert "notes.txt" not in words
    assert "fleet: 7 documents are no plans" in words
    found = json.loads(text.replace(str(folder), str(folders[1])))
    for name, rows in answers.items():
        assert rounded(found[name]) == rounded(rows), name


def test_what_was_read_is_kept_and_what_is_gone_is_forgotten(capsys, tmp_path) -> None:
    folder, cache = tmp_path / "fleet", tmp_path / "kept" / "fleet.duckdb"
    write_plans(folder, 2, 5)

    def told(*sources: Path) -> tuple[str, list[dict[str, Any]]]:
        code = main([*map(str, sources), "--cache", str(cache), "--json", "--ask", "saved"])
        text, words = capsys.readouterr()
        assert code == 0
        return words, json.loads(text)["saved"]

    words, first = told(folder)
    assert "10 plans, 10 new documents" in words
    words, second = told(folder)
    assert "10 plans, 0 new documents" in words
    assert rounded(first) == rounded(second)
    (folder / "plans/cache-0000").rename(folder / "plans/renamed")
    for path in (folder / "plans/renamed").iterdir():
        path.unlink()
    new = next(plans_of_node("cache-0001", 1, seed=9))
    extra = folder / f"plans/cache-0001/{new.cycle - 3600:012d}.json"
    rewritten = json.loads(new.dumps()) | {"cycle": new.cycle - 3600}
    extra.write_text(json.dumps(rewritten))
    words, third = told(folder)
    assert "6 plans, 1 new documents" in words
    assert rounded(third) == rounded(ask(capsys, folder, "--ask", "saved")["saved"])
    # Another folder's plans in the same file are not asked about.
    write_plans(tmp_path / "other", 1, 3)
    assert "3 plans, 3 new documents" in told(tmp_path / "other")[0]
    assert "6 plans, 0 new documents" in told(folder)[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no-such-folder"], "no-such-folder: there is no such folder"),
        (
            ["."],
            ".: no plans there; a node that plans for itself puts them where [controller] folder",
        ),
        ([".", "--month", "11/2026"], "must be a month as 2026-11, not '11/2026'"),
        (
            [".", "--step", "much"],
            "must be a size such as '512MiB' (b, KiB, MiB, GiB, TiB), not 'much'",
        ),
        ([".", "--lack", "0"], "must be a number above 0, not '0'"),
    ],
)
def test_what_cannot_be_asked_is_said_in_a_sentence(
    capsys, tmp_path, monkeypatch, arguments, words
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        code = main([*arguments, "--no-cache"])
    except SystemExit as exit_:
        code = exit_.code
    assert code == 2
    assert words in capsys.readouterr().err


def test_without_duckdb_it_says_how_to_get_it(capsys, folders, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert main([str(folders[0]), "--no-cache"]) == 2
    words = "fleet: the Python package 'duckdb' is missing (pip install '.[infra,fleet]')\n"
    assert capsys.readouterr().err == words


def test_a_file_that_keeps_something_else_is_refused(capsys, folders, tmp_path) -> None:
    cache = tmp_path / "fleet.duckdb"
    cache.write_text("not a database, however long it is" * 1000)
    assert main([str(folders[0]), "--cache", str(cache)]) == 2
    words = capsys.readouterr().err
    assert words.startswith(f"fleet: {cache}: ")
    assert len(words.splitlines()) == 1


def test_buckets_of_all_cells_answer_as_folders_do(capsys, folders, monkeypatch) -> None:
    for key, value in {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "eu-central-1",
    }.items():
        monkeypatch.setenv(key, value)
    with mock_aws():
        client = boto3.client("s3")
        where = {"LocationConstraint": "eu-central-1"}
        for cell, folder in zip("ab", folders, strict=True):
            bucket = f"spreds-{cell}-plans-1-eu-central-1"
            client.create_bucket(Bucket=bucket, CreateBucketConfiguration=where)
            for path in folder.glob("*/*.json"):
                key = f"plans/{path.relative_to(folder)}"
                client.put_object(Bucket=bucket, Key=key, Body=path.read_bytes())
        assert main(["s3://nothing-*", "--no-cache"]) == 2
        assert "none of the account's 2 buckets has such a name" in capsys.readouterr().err
        assert main(["s3://not-there", "--no-cache"]) == 2
        assert "s3://not-there: " in capsys.readouterr().err
        found = ask(capsys, "s3://spreds-*plans-*")
    expected = ask(capsys, *folders)
    text = json.dumps(expected)
    for cell, folder in zip("ab", folders, strict=True):
        text = text.replace(str(folder), f"s3://spreds-{cell}-plans-1-eu-central-1")
    for name, rows in json.loads(text).items():
        assert rounded(found[name]) == rounded(rows), name


def test_what_knows_no_curve_yet_asks_for_no_memory(capsys, tmp_path) -> None:
    asked = ("--ask", "nodes", "--ask", "worth", "--ask", "sizes", "--ask", "transfers")
    write_plans(tmp_path, 3, 10)
    before = ask(capsys, tmp_path, *asked)
    files = sorted((tmp_path / "plans/cache-0001").iterdir())
    last, text = files[-1], files[-1].read_text()

    def warms_up(plan: dict[str, Any]) -> None:
        plan["servers"][0]["reason"] = "stays: warming_up: 40% of the last reads were of old keys"
        for more in plan["what_if"]:
            more["mean_access_time_seconds"] = plan["mean_access_time_seconds"]

    rewrite(last, warms_up)
    counted = ask(capsys, tmp_path, *asked)
    assert ask(capsys, tmp_path, "--ask", "saved")["saved"][0]["plans"] == 30
    last.unlink()
    for name, rows in ask(capsys, tmp_path, *asked).items():
        assert rounded(counted[name]) == rounded(rows), name
        assert rounded(rows) != rounded(before[name]), name
    # A server that has no curve for good leaves the others' to mean something.
    last.write_text(text)
    rewrite(last, lambda plan: plan["servers"][0].update(reason="stays: no_model: for noeviction"))
    assert {n: rounded(rows) for n, rows in ask(capsys, tmp_path, *asked).items()} == {
        name: rounded(rows) for name, rows in before.items()
    }


def test_where_no_transfer_gains_it_says_so(capsys, tmp_path) -> None:
    write_plans(tmp_path, 1, 3)
    assert main([str(tmp_path), "--no-cache", "--ask", "transfers", "--step", "512mb"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("512 MiB from one node to another now, by their last plans\n")
    assert text.endswith("\n(none gains)\n")


def test_a_question_of_ones_own(capsys, folders, plans) -> None:
    counted = "SELECT node, count(*) AS plans FROM plans GROUP BY node ORDER BY node"
    odd = "SELECT 'nan'::DOUBLE AS none, DATE '2026-11-27' AS day, 1 = 1 AS is_so"
    answers = ask(capsys, *folders, "--sql", counted, "--sql", odd, "--days", "9999")
    nodes = {(plan["source"], plan["node"], plan["cycle"]): plan["node"] for plan in plans}
    right = Counter(nodes.values())
    assert answers[counted] == [{"node": one, "plans": right[one]} for one in sorted(right)]
    assert answers[odd] == [{"none": None, "day": "2026-11-27", "is_so": True}]
    assert main([*map(str, folders), "--sql", odd, "--no-cache"]) == 0
    assert "nan   2026-11-27  True" in capsys.readouterr().out
    assert main([*map(str, folders), "--sql", "SELECT nothing FROM plans", "--no-cache"]) == 2
    assert "fleet: DuckDB: Binder Error" in capsys.readouterr().err


def test_csv_has_the_rows_of_one_question(capsys, folders) -> None:
    answers = ask(capsys, *folders, "--ask", "nodes")
    assert main([*map(str, folders), "--ask", "nodes", "--csv", "--no-cache"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert rows == [
        {name: "" if value is None else str(value) for name, value in row.items()}
        for row in answers["nodes"]
    ]
    for words in (["--csv"], ["--ask", "nodes", "--sql", "SELECT 1"]):
        with pytest.raises(SystemExit):
            main([*map(str, folders), *words])
        assert "--sql" in capsys.readouterr().err


def test_the_page_names_the_tables() -> None:
    root = Path(__file__).parents[2]
    page = (root / "docs" / "operate" / "fleet.md").read_text()
    views = re.findall(
        r"CREATE OR REPLACE VIEW (\w+)", (root / "infra/fleet/views.sql").read_text()
    )
    assert {name for name in [*TABLES, *views] if f"`{name}`" not in page} == set()


def test_words_for_people(capsys, folders) -> None:
    assert main([str(folders[0]), "--no-cache"]) == 0
    text, words = capsys.readouterr()
    assert "What 1 GiB more is worth now" in text
    assert "in the period" in text
    assert "predicted, not measured" in words
    assert "Nodes that lack memory" in text
    assert "not known" in text
    assert "source" not in text
    assert main([*map(str, folders), "--no-cache", "--rows", "3", "--markdown"]) == 0
    text = capsys.readouterr().out
    assert "| source | node | verdict |" in text
    assert "more: --rows)" in text

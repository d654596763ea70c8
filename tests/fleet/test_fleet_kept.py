"""What infra.fleet keeps between runs, and what two sources have in common."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import duckdb
import pytest
from moto import mock_aws

from infra.fleet.__main__ import main
from infra.fleet.plan_store import PlanStore
from workloads.bench.fleet_verb import write_plans


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "fleet.duckdb"


def ask(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    code = main([*map(str, arguments), "--json"])
    text, words = capsys.readouterr()
    assert code == 0, words
    answers = json.loads(text)
    assert isinstance(answers, dict)
    return answers


def but_for_last_digits(answers: dict[str, Any]) -> str:
    """DuckDB adds in the order in which its threads come."""
    text = json.dumps(answers, sort_keys=True)
    return json.dumps(json.loads(text, parse_float=lambda digits: f"{float(digits):.9g}"))


def make_busier(path: Path) -> bytes:
    plan = json.loads(path.read_text())
    for server in plan["servers"]:
        server["request_rate_per_second"] *= 7
    return json.dumps(plan).encode()


def test_a_plan_that_was_written_again_is_read_again(capsys, tmp_path, cache) -> None:
    write_plans(tmp_path / "one", 1, 4)
    before = ask(capsys, tmp_path / "one", "--cache", cache)
    path = sorted((tmp_path / "one/plans/cache-0000").iterdir())[-1]
    path.write_bytes(make_busier(path))
    after = ask(capsys, tmp_path / "one", "--cache", cache)
    assert after["worth"][0]["reads_per_second"] == pytest.approx(
        7 * before["worth"][0]["reads_per_second"]
    )
    unkept = ask(capsys, tmp_path / "one", "--no-cache")
    assert but_for_last_digits(after) == but_for_last_digits(unkept)
    # Another fleet comes to the same place.
    shutil.rmtree(tmp_path / "one")
    write_plans(tmp_path / "one", 1, 4, seed=5)
    kept = ask(capsys, tmp_path / "one", "--cache", cache)
    unkept = ask(capsys, tmp_path / "one", "--no-cache")
    assert but_for_last_digits(kept) == but_for_last_digits(unkept)


def test_an_object_that_was_written_again_is_read_again(
    capsys, tmp_path, cache, monkeypatch
) -> None:
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(key, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    write_plans(tmp_path, 1, 2)
    with mock_aws():
        client = boto3.client("s3")
        client.create_bucket(Bucket="plans-a")
        for path in sorted((tmp_path / "plans/cache-0000").iterdir()):
            where = {"Bucket": "plans-a", "Key": f"plans/cache-0000/{path.name}"}
            client.put_object(**where, Body=path.read_bytes())
        before = ask(capsys, "s3://plans-a", "--cache", cache)
        client.put_object(**where, Body=make_busier(path))
        after = ask(capsys, "s3://plans-a", "--cache", cache)
    rates = [found["worth"][0]["reads_per_second"] for found in (before, after)]
    assert rates[1] == pytest.approx(7 * rates[0])


class Killed(BaseException):
    pass


@pytest.mark.parametrize("table", ["kept_plans", "kept_plan_servers", "kept_what_if"])
def test_a_run_that_is_killed_while_it_forgets_changes_nothing(
    capsys, tmp_path, cache, monkeypatch, table
) -> None:
    write_plans(tmp_path / "fleet", 2, 4)
    before = ask(capsys, tmp_path / "fleet", "--cache", cache)
    (tmp_path / "fleet/plans/cache-0000").rename(tmp_path / "away")
    rows = PlanStore._rows

    def die(store: PlanStore, text: str, **values: object) -> list[tuple[Any, ...]]:
        found = rows(store, text, **values)
        if text.startswith(f"DELETE FROM {table} "):
            raise Killed
        return found

    with monkeypatch.context() as patch:
        patch.setattr(PlanStore, "_rows", die)
        with pytest.raises(Killed):
            main([str(tmp_path / "fleet"), "--cache", str(cache)])
    (tmp_path / "away").rename(tmp_path / "fleet/plans/cache-0000")
    after = ask(capsys, tmp_path / "fleet", "--cache", cache)
    assert but_for_last_digits(after) == but_for_last_digits(before)


def test_a_file_that_another_run_uses_is_said_in_a_sentence(capsys, tmp_path, cache) -> None:
    write_plans(tmp_path / "fleet", 1, 1)
    hold = "import duckdb, sys; d = duckdb.connect(sys.argv[1]); print('held', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(cache)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        assert main([str(tmp_path / "fleet"), "--cache", str(cache)]) == 2
        words = "another run uses it: wait for its end, or say --no-cache"
        assert capsys.readouterr().err == f"fleet: {cache}: {words}\n"
        other.communicate(b"\n")


def test_what_an_earlier_form_kept_is_read_again(capsys, tmp_path, cache) -> None:
    write_plans(tmp_path / "fleet", 2, 3)
    before = ask(capsys, tmp_path / "fleet", "--cache", cache)
    with duckdb.connect(str(cache)) as database:
        database.execute("ALTER TABLE kept_plans DROP COLUMN version")
        database.execute("UPDATE kept_plan_servers SET request_rate_per_second = 0")
    after = ask(capsys, tmp_path / "fleet", "--cache", cache)
    assert but_for_last_digits(after) == but_for_last_digits(before)


def test_a_partial_copy_changes_nothing(capsys, tmp_path) -> None:
    """Chained: the first has nothing that the third has."""
    live, archive = tmp_path / "live", tmp_path / "archive"
    write_plans(live, 3, 12)
    truth = ask(capsys, live, "--no-cache")
    for node in (live / "plans").iterdir():
        files = sorted(node.iterdir())
        for place, part in ((archive / "a", files[:6]), (archive / "b", files[4:9])):
            (place / "plans" / node.name).mkdir(parents=True)
            for path in part:
                shutil.copy(path, place / "plans" / node.name)
        for path in files[:7]:
            path.unlink()
    found = ask(capsys, archive / "a", archive / "b", live, "--no-cache")
    assert len(found["nodes"]) == 3
    assert but_for_last_digits(found) == but_for_last_digits(truth)


def test_a_plan_that_stood_in_for_one_of_the_bucket_is_of_the_same_node(capsys, tmp_path) -> None:
    """A node that has both was told as two, with twice its memory."""
    live, folder = tmp_path / "live", tmp_path / "folder"
    write_plans(live, 1, 6)
    (node,) = (live / "plans").iterdir()
    own = folder / "plans" / node.name
    own.mkdir(parents=True)
    *_, late, last = sorted(node.iterdir())
    shutil.move(last, own)  # the cloud was silent
    told = json.loads(late.read_bytes())
    told |= {"method": "hill_climbing", "made_at_seconds": told["made_at_seconds"] - 1}
    (own / late.name).write_text(json.dumps(told))  # or late
    found = ask(capsys, live, folder, "--no-cache")
    assert len({(row["source"], row["node"]) for row in found["nodes"]}) == 1


def test_nodes_of_one_name_in_two_stacks_are_two(capsys, tmp_path) -> None:
    for seed in (1, 2):
        write_plans(tmp_path / str(seed), 2, 3, seed)
    found = ask(capsys, tmp_path / "1", tmp_path / "2", "--no-cache")
    assert len({(row["source"], row["node"]) for row in found["nodes"]}) == 4

"""``python -m infra.costs``."""

from __future__ import annotations

import ast
import csv
import io
import json
import math
import re
import struct
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infra.costs.__main__ as costs_command
from infra.closed_pipe import PIPE_CLOSED
from infra.costs import page
from infra.costs.__main__ import main
from infra.costs.__main__ import main as costs
from infra.costs.figure import crossings, make
from infra.costs.measured import MEASURED_FILE, read_measured
from infra.costs.model import break_even
from infra.costs.price_list import PRICES_FILE, read_prices
from infra.costs.thesis import thesis_break_even
from infra.costs.workload import (
    CONTROLLERS,
    CYCLE_SAMPLES,
    LEAST_CYCLES_PER_DAY,
    SAMPLING_RATE,
    Workload,
)
from sidecar.config.node import CycleConfig
from sidecar.config.sampling import DEFAULT_RATE


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    assert main([*arguments, "--json"]) == code
    answer = json.loads(capsys.readouterr().out)
    assert isinstance(answer, dict)
    return answer


def test_hourly_cycles_of_one_node_stay_below_a_quarter_of_a_dollar(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer = run_json(capsys)
    function = answer["controllers"]["lambda"]
    assert answer["workload"]["cycles_per_day"] == 24
    assert function["nodes_usd"] < answer["target"]["usd"] == 0.25
    # The stack's alarms are told apart, and are not in it.
    assert function["stack_usd"] == pytest.approx(12 * 0.10 * answer["workload"]["alarms"])
    assert function["usd"] == pytest.approx(function["nodes_usd"] + function["stack_usd"])


def test_json_is_complete_and_adds_up(capsys: pytest.CaptureFixture[str]) -> None:
    answer = run_json(capsys, "--nodes", "3", "--delivery", "http")
    assert set(answer["controllers"]) == set(CONTROLLERS)
    for found in answer["controllers"].values():
        assert sum(term["usd"] for term in found["terms"]) == pytest.approx(found["usd"])
        with_free = sum(term["usd_with_free_tier"] for term in found["terms"])
        assert with_free == pytest.approx(found["usd_with_free_tier"])
    assert list(answer["cycles_per_day"]) == ["1", "24", "100", "288", "606", "1000", "10000"]
    thesis = answer["thesis"]
    assert sum(term["usd"] for term in thesis["terms"]) == pytest.approx(thesis["usd"])
    assert len(thesis["findings"]) == 4


def test_text_shows_each_part(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    text, messages = capsys.readouterr()
    assert messages == ""
    for words in (
        "below the target of $0.25",
        "stack: CloudWatch alarms",
        "= without free tier",
        "= with free tier",
        "Not included",
        "Table 8.7",
        "$1.92 takes 24 times the stated storage",
        "606 a day",
        "Lambda costs as much as an always-on t4g.micro, asked over HTTP,\n  with one node: never",
        "  at 24 cycles a day: without the free tier first at 640 nodes; with the free tier",
        "Lambda costs as much as an always-on Fargate service,\n  with one node: never, not even",
        "Recommended: embedded",
    ):
        assert words in text, words


def test_a_thousand_nodes_cost_less_than_200_dollars(capsys: pytest.CaptureFixture[str]) -> None:
    """All that they share included, without the free tier."""
    thousand, two = (
        run_json(capsys, "--nodes", nodes)["controllers"]["lambda"] for nodes in ("1000", "2000")
    )
    assert thousand["usd"] < 200
    assert two["nodes_usd"] == pytest.approx(2 * thousand["nodes_usd"])


def test_a_minutes_cycles_cost_more_than_five_dollars_for_their_puts_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Over S3 that goal cannot be met; over HTTP it can, where 26 nodes share the machine."""
    answer = run_json(capsys, "--cycles-per-day", "1440")["controllers"]
    (puts,) = (term["usd"] for term in answer["lambda"]["terms"] if term["name"] == "S3 PUT")
    assert puts == pytest.approx(525_600 * 2 * 5e-6)
    many = run_json(capsys, "--cycles-per-day", "1440", "--nodes", "26")["controllers"]["http"]
    assert many["usd"] / 26 < 5 < puts


def test_markdown_is_tables_of_what_the_json_has(capsys: pytest.CaptureFixture[str]) -> None:
    answer = run_json(capsys)
    assert main(["--markdown"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("# What SPREDS costs a year\n")
    tables = re.findall(r"(?:^\|.*\|\n?)+", text, re.MULTILINE)
    assert len(tables) == 4
    for table in tables:
        widths = {line.count("|") for line in table.splitlines()}
        assert len(widths) == 1, table
    names = [term["name"] for term in answer["controllers"]["lambda"]["terms"]]
    assert [line.split(" | ")[0] for line in tables[1].splitlines()[2:]] == [
        f"| {name}" for name in names
    ]
    for key, price in read_prices().prices.items():
        assert f"| {key} |" in tables[3]
        assert price.source in tables[3]


def test_polling_always_misses_the_target_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--polling", "always"]) == 0
    assert "NOT below the target" in capsys.readouterr().out


def test_recommends_within_the_time_limit(capsys: pytest.CaptureFixture[str]) -> None:
    in_cloud = ("--controllers", "instance,fargate,lambda")
    assert run_json(capsys, "--time-limit", "500ms")["recommended"] == "embedded"
    assert run_json(capsys, *in_cloud)["recommended"] == "lambda"
    assert run_json(capsys, *in_cloud, "--time-limit", "2s")["recommended"] == "instance"
    known = run_json(capsys, *in_cloud, "--time-limit", "500ms", "--latency", "lambda=400ms")
    assert known["recommended"] == "lambda"
    none = run_json(capsys, *in_cloud, "--time-limit", "500ms", code=1)
    assert none["recommended"] is None
    assert main([*in_cloud, "--time-limit", "500ms"]) == 1
    assert "No controller's plan arrives within 500 ms" in capsys.readouterr().out


def test_a_plan_shall_come_before_the_next_observation(capsys: pytest.CaptureFixture[str]) -> None:
    answer = run_json(capsys, "--cycles-per-day", "8640", "--controllers", "lambda,fargate")
    assert answer["time_limit_seconds"] == 10
    assert run_json(capsys, "--cycles-per-day", "8640", "--controllers", "fargate", code=1)


def test_there_are_as_many_machines_as_have_time_for_the_work(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By hand: a plan for 3 servers takes .01962 s of a processor."""
    arguments = ("--cycles-per-day", "10000", "--nodes", "10000")
    answer = run_json(capsys, *arguments)["controllers"]
    busy = 1e8 * 0.01962 / 86_400
    assert answer["instance"]["machines"] == answer["http"]["machines"] == math.ceil(busy / 0.2)
    assert answer["service"]["machines"] == math.ceil(busy / 0.25)
    assert answer["lambda"]["machines"] == answer["embedded"]["machines"] == 0
    assert main(list(arguments)) == 0
    assert "Planning keeps 22.7 processors busy." in capsys.readouterr().out


def test_no_column_runs_into_another(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--cycles-per-day", "10000", "--nodes", "1000000"]) == 0
    lines = capsys.readouterr().out.splitlines()
    begins = lines.index(next(line for line in lines if line.startswith("USD a year")))
    table = [line.split("  ") for line in lines[begins : begins + 20]]
    assert {len([cell for cell in line if cell.strip()]) for line in table} == {7}


def test_cycles_follow_from_reads(capsys: pytest.CaptureFixture[str]) -> None:
    """By hand: 100,000 reads a second are 86.4 million samples a day at 1 %, so 172.8 cycles."""
    busy = run_json(capsys, "--reads-per-second", "100000")
    assert busy["workload"]["cycles_per_day"] == pytest.approx(172.8)
    assert run_json(capsys, "--reads-per-second", "10")["workload"]["cycles_per_day"] == 24
    assert main(["--reads-per-second", "many"]) == 2
    assert "--reads-per-second must be a number" in capsys.readouterr().err
    default = CycleConfig()
    assert (default.samples, 86_400 / default.maximum_age_seconds, DEFAULT_RATE) == (
        CYCLE_SAMPLES,
        LEAST_CYCLES_PER_DAY,
        SAMPLING_RATE,
    )


def test_the_installation_is_read_from_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "stack.toml"
    path.write_text(
        'cycles_per_day = 48\nservers_per_node = 5\nretention_days = 30\ntopics = "two"\n'
        'nodes_per_cell = 20\n[nodes]\n"cache-{001..060}" = {}\n'
    )
    found = run_json(capsys, "--stack", str(path))["workload"]
    assert (found["nodes"], found["servers"], found["cycles_per_day"]) == (60, 5, 48)
    assert (found["nodes_per_cell"], found["topics"], found["retention_days"]) == (20, "two", 30)
    given = run_json(capsys, "--stack", str(path), "--nodes", "7")["workload"]
    assert (given["nodes"], given["servers"]) == (7, 5)
    path.write_text("nodes = 3\n")
    assert main(["--stack", str(path)]) == 2
    assert f"costs: {path}: nodes must be a table" in capsys.readouterr().err


def test_csv_has_what_the_json_has(capsys: pytest.CaptureFixture[str]) -> None:
    answer = run_json(capsys, "--nodes", "50")
    assert main(["--nodes", "50", "--csv"]) == 0
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    sums = {line["controller"]: float(line["cost"]) for line in lines if line["name"] == "a year"}
    assert sums == {name: found["usd"] for name, found in answer["controllers"].items()}
    for name, found in answer["controllers"].items():
        terms = [line for line in lines if (line["kind"], line["controller"]) == ("term", name)]
        assert sum(float(line["cost"]) for line in terms) == pytest.approx(found["usd"])
    told = {
        (line["unit"], line["controller"], line["name"].removeprefix("lambda costs as much, ")): (
            line["quantity"]
        )
        for line in lines
        if line["kind"] == "break-even"
    }
    assert told == {
        (unit, against, tier): "" if count is None else str(count)
        for unit, key in (
            ("cycles a day", "break_even_cycles_per_day"),
            ("nodes", "break_even_nodes"),
        )
        for against, by_tier in answer[key].items()
        for tier, count in by_tier.items()
    }


def test_another_currency_is_shown_as_what_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "prices.json"
    path.write_text(PRICES_FILE.read_text().replace('"currency": "USD"', '"currency": "CNY"'))
    assert main(["--prices", str(path)]) == 0
    text = capsys.readouterr().out
    ours = text[: text.index("cycles a day   ")]
    assert "CNY a year" in ours
    assert "= CNY " in ours
    assert not re.search(r"\$\d", ours.replace("$1 a\nmonth", ""))
    assert run_json(capsys, "--prices", str(path))["prices"]["currency"] == "CNY"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--cycles-per-day", "0"], "--cycles-per-day must be a number from 1 to 10,000, not '0'"),
        (["--cycles-per-day", "10001"], "--cycles-per-day"),
        (["--cycles-per-day", "nan"], "--cycles-per-day"),
        (["--servers", "few"], "--servers must be a number"),
        (["--servers", "2.5"], "--servers must be a whole number, not '2.5'"),
        (["--servers", "1025"], "--servers must be a number from 1 to 1,024, not '1025'"),
        (["--nodes", "0"], "--nodes"),
        (["--nodes-per-cell", "201"], "--nodes-per-cell must be a number from 1 to 200, not '201'"),
        (["--alarms", "-1"], "--alarms"),
        (["--memory", "100"], "--memory"),
        (["--retention-days", "0"], "--retention-days"),
        (
            ["--duration", "200"],
            "--duration must be a duration such as '200ms' (us, ms, s, m, h, d), not '200'",
        ),
        (["--duration", "0ms"], "--duration"),
        (["--duration", "61s"], "--duration must be at most 60s, when the function is ended, not"),
        (["--time-limit", "soon"], "--time-limit"),
        (["--latency", "lambda"], "--latency lambda must be a duration"),
        (
            ["--latency", "cron=3s"],
            "must be one of lambda, fargate, service, instance, ",
        ),
        (["--controllers", ""], "a controller must be one of"),
        (["--instance", "m5.huge"], "--instance must be one of"),
        (["--observation-bytes", "0"], "--observation-bytes"),
        (["--measured", "no-such-file"], "no-such-file"),
        (["--prices", "no-such-file"], "no-such-file"),
        (["--figure", "figure.nonsense"], "--figure figure.nonsense"),
    ],
)
def test_refuses_bad_arguments_in_a_sentence(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert named in err
    assert err.count("\n") == 1


def test_refuses_less_memory_than_was_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = tmp_path / "measured.json"
    table = json.loads(MEASURED_FILE.read_text())
    measured.write_text(json.dumps({**table, "peak_memory_bytes": 300 << 20}))
    assert main(["--measured", str(measured), "--memory", "256"]) == 2
    assert "--memory 256 is less than the 300 MB" in capsys.readouterr().err


def test_draws_the_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figure = tmp_path / "figure.png"
    assert main(["--figure", str(figure)]) == 0
    assert f"wrote {figure}" in capsys.readouterr().err
    content = figure.read_bytes()
    assert content.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", content[16:24])
    assert width > height > 500


def test_the_figure_says_date_and_region_and_where_lines_cross() -> None:
    measured, prices = read_measured(), read_prices()
    figure = make(Workload(nodes=1000), measured, prices)
    assert f"{prices.date}, {prices.region}" in figure.get_suptitle()
    left, right = figure.axes
    assert "in the sidecar: $0" in {line.get_label() for line in right.lines}
    marks = {text.get_text() for text in left.texts}
    assert marks == {
        f"{thesis_break_even():,} a day",
        f"{thesis_break_even(free_tier=True):,} a day",
    }
    many = break_even(Workload(nodes=1000), measured, prices)
    assert f"{many:,} a day" in {text.get_text() for text in right.texts}
    (embedded,) = (line for line in right.lines if "sidecar" in str(line.get_label()))
    assert right.get_ylim()[0] < min(embedded.get_ydata()) == 0


def test_lines_cross_between_points() -> None:
    cycles = np.array([1, 3, 5])
    assert crossings(cycles, np.array([0.0, 2.0, 4.0]), np.array([1.0, 1.0, 1.0])) == [(2.0, 1.0)]
    assert crossings(cycles, np.array([2.0, 2.0, 4.0]), np.array([1.0, 1.0, 1.0])) == []


def imported(nodes: Iterable[ast.AST]) -> set[str]:
    """The modules that import statements among ``nodes`` name."""
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


def test_it_plots_lazily() -> None:
    folder = Path(costs_command.__file__).parent
    for path in folder.glob("*.py"):
        tree = ast.parse(path.read_text())
        tops = {name.partition(".")[0] for name in imported(tree.body)}
        assert not tops & {"matplotlib", "boto3", "botocore", "aws_cdk"}, path


# --- docs/research/costs.md says what the cost model says; a reader who leaves early is no error.


def between_marks(text: str) -> str:
    return text.split(page.BEGIN)[1].split(page.END)[0].strip()


def test_the_page_has_what_the_model_says_now() -> None:
    found = between_marks(page.PAGE.read_text())
    assert found == page.made(read_measured(), read_prices()), (
        "run: python -m infra.costs.page --write"
    )


def test_its_table_is_what_the_command_answers(capsys: pytest.CaptureFixture[str]) -> None:
    text = between_marks(page.PAGE.read_text())
    columns = []
    for nodes in ("1", "40", "1000"):
        assert costs(["--nodes", nodes, "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)["controllers"]
        columns.append([f"{found['usd']:,.2f}" for found in answer.values()])
        function = answer["lambda"]
        if nodes == "1":
            assert f"is ${function['nodes_usd']:.2f} alone" in text
        if nodes == "1000":
            assert f"are ${function['usd']:.2f} a year" in text
    cells = [re.findall(r"[\d,.]+(?= \|)", line)[-3:] for line in text.splitlines() if "|" in line]
    assert cells[2:] == [list(row) for row in zip(*columns, strict=True)]


def test_no_figure_of_a_bill_stands_outside_of_what_is_made() -> None:
    text = page.PAGE.read_text()
    outside = text.replace(between_marks(text), "")
    assert not re.findall(r"\$\d", outside)


def test_writing_changes_what_is_between_the_marks_alone(tmp_path: Path) -> None:
    copy = tmp_path / "costs.md"
    right = page.PAGE.read_text()
    copy.write_text(right.replace(between_marks(right), "| Lambda | 1.00 |"))
    assert page.main(["--write", "--page", str(copy)]) == 0
    assert copy.read_text() == right


@pytest.mark.parametrize("text", ["no marks", f"{page.END}\n{page.BEGIN}\n"])
def test_a_page_without_marks_is_left_alone(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "costs.md"
    copy.write_text(text)
    assert page.main(["--write", "--page", str(copy)]) == 2
    assert copy.read_text() == text
    assert str(copy) in capsys.readouterr().err


@pytest.mark.parametrize("module", ["infra.costs.prices show", "infra.costs", "infra.costs.page"])
def test_a_reader_who_leaves_is_no_error(module: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", *module.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as command:
        assert command.stdout
        assert command.stderr
        command.stdout.close()
        assert command.stderr.read() == b""
    assert command.returncode == PIPE_CLOSED

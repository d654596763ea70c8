"""Teams' settings in a running sidecar: in force in the next cycle, named in its plan."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from sidecar.cli import main
from sidecar.commands.run.team_reports import TeamReports
from sidecar.config.node import load_config
from sidecar.control.history import history_path, read_history
from sidecar.daemon import Sidecar
from sidecar.settings.team_settings import MAX_SETTINGS_BYTES, TeamSettings
from sidecar.storage.store import FolderStore
from solver_lambda.documents.keys import settings_key
from solver_lambda.documents.plan import ServerPlan
from tests.sidecar.fixtures import StartServer, WriteNode
from workloads.local_node import wait_until

MORE = (
    '[cycle]\nmaximum_age = "500ms"\n[controller]\nkind = "embedded"\nfolder = "documents"\n'
    "[limits]\nmaximum_weight = 10\n"
)


@pytest.fixture
def path(write_node: WriteNode, start_server: StartServer) -> Path:
    urls = {name: start_server("12mb").url for name in ("a", "b")}
    return write_node(urls, budget="24mb", more=MORE)


@pytest.fixture
def sidecar(path: Path) -> Iterator[Sidecar]:
    made = Sidecar(load_config(path))
    thread = threading.Thread(target=made.run)
    thread.start()
    yield made
    made.stop()
    thread.join()


def _next_plan(sidecar: Sidecar) -> dict[str, ServerPlan]:
    """Wait for the plan of an observation that has been made since now."""
    cycles = sidecar.cycles
    wait = threading.Event()
    for _ in range(2000):
        plan = sidecar.last_plan
        # The one under way may have been observed before.
        if sidecar.cycles >= cycles + 2 and plan is not None:
            return {server.name: server for server in plan.servers}
        wait.wait(0.02)
    raise AssertionError(sidecar.metrics.snapshot())


def test_the_next_plan_says_which_version_it_used(path: Path, sidecar: Sidecar) -> None:
    assert _next_plan(sidecar)["a"].settings_version is None
    assert main(["weights", "set", "a", "--config", str(path), "--weight", "4"]) == 0
    store = FolderStore(path.parent / "documents")
    stored = store.get(settings_key("n1", "a"), MAX_SETTINGS_BYTES)
    assert stored is not None
    version = TeamSettings.loads(stored, "a").version
    plan = _next_plan(sidecar)
    assert (plan["a"].settings_version, plan["b"].settings_version) == (version, None)
    assert sidecar.last_observation is not None
    assert [server.weight for server in sidecar.last_observation.servers] == [4, 1]
    # Somebody writes past the command, and past the limit.
    store.put(settings_key("n1", "a"), TeamSettings("eve", "2026-11-21", {"weight": 99}).dumps())
    assert _next_plan(sidecar)["a"].settings_version == version
    assert sidecar.metrics.value("settings_refused")
    assert main(["weights", "unset", "a", "--config", str(path)]) == 0
    assert _next_plan(sidecar)["a"].settings_version is None
    # Sums in milliseconds are not to be compared across that.
    told = ["weights changed: a 1 -> 4", "weights changed: a 4 -> 1"]
    assert [mark["words"] for mark in sidecar.series()["marks"]] == told
    entries = read_history(history_path(path.parent / "state.json"))
    assert [entry["words"] for entry in entries if entry["kind"] == "yardstick"] == told


def test_after_a_restart_they_are_told_before_the_first_observation(
    path: Path, sidecar: Sidecar
) -> None:
    what = ["--weight", "4", "--backend-latency", "3ms"]
    assert main(["weights", "set", "a", "--config", str(path), *what]) == 0
    _next_plan(sidecar)
    again = Sidecar(load_config(path))
    told = again.status()["servers"][0]
    assert (told["weight"], told["backend_latency_seconds"]) == (4, 0.003)
    assert told["backend_latency_source"] == "team"


def test_a_failure_of_the_actuator_ends_the_sidecar(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sidecar = Sidecar(load_config(path))

    def fail() -> None:
        raise ArithmeticError("broken")

    monkeypatch.setattr(sidecar._actuator, "step", fail)
    with pytest.raises(ArithmeticError, match="broken"):
        sidecar.run()


def test_a_team_is_told_what_became_of_its_settings_by_its_own_rights(
    path: Path, sidecar: Sidecar, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["a", "--node", "n1", "--folder", str(path.parent / "documents")]

    def told(*more: str) -> str:
        capsys.readouterr()
        assert main(["weights", "show", *where, "--why", *more]) == 0
        return " ".join(capsys.readouterr().out.split())

    assert main(["weights", "set", "a", "--config", str(path), "--weight", "4"]) == 0
    assert told().startswith("Nothing is told of a yet: ")
    with TeamReports(sidecar):
        wait_until(lambda: "A read of it counts with weight 4 (its team's" in told(), told)
        assert re.match(r"As of \S+ \S+ \S+, plan \d+: a has 12 MiB \(maxmemory\)", told())
        assert json.loads(told("--json"))["sentences"][1].startswith("a has 12 MiB")
        # Somebody writes past the command, and past the limit.
        settings = TeamSettings("eve", "2026-11-21", {"weight": 99}).dumps()
        FolderStore(path.parent / "documents").put(settings_key("n1", "a"), settings)
        refused = (
            "What its team set last is not in force: settings/n1/a.json: weight must be at least"
        )
        wait_until(lambda: refused in told(), told)
        later = TeamSettings("eve", "9999-01-01T00:00:00+00:00", {"weight": 5}).dumps()
        FolderStore(path.parent / "documents").put(settings_key("n1", "a"), later)
        assert "has set since, at 9999-01-01T00:00:00+00:00, counts from the next plan" in told()
        assert main(["weights", "unset", "a", "--config", str(path)]) == 0
        wait_until(lambda: "A read of it counts with weight 1 (the default)" in told(), told)
    reports = path.parent / "documents" / "reports" / "n1"
    assert sorted(one.name for one in reports.iterdir()) == ["a.json", "b.json"]  # once for each
    (reports / "a.json").write_text('{"kind": "spreds.report", "version": 1, "at_seconds": -1}')
    assert main(["weights", "show", *where, "--why"]) == 2
    assert "reports/n1/a.json: at_seconds must be at least 0" in capsys.readouterr().err


def test_a_team_that_set_nothing_is_told_when_its_size_has_changed(
    path: Path, sidecar: Sidecar
) -> None:
    reports, report = TeamReports(sidecar), path.parent / "documents/reports/n1/b.json"

    def told() -> str | None:
        """After a plan; the report's text, if it was written."""
        report.unlink(missing_ok=True)
        _next_plan(sidecar)
        reports.look()
        return report.read_text() if report.exists() else None

    assert told() is not None
    assert told() is None
    with redis.Redis.from_url(sidecar.config.servers[1].url) as client:
        client.config_set("maxmemory", "9mb")
    wait_until(lambda: sidecar.status()["servers"][1]["held"], sidecar.status)
    assert "b has 9 MiB (maxmemory)" in str(told())
    assert told() is None


def test_reports_that_cannot_be_written_are_counted_and_told_once(
    path: Path, sidecar: Sidecar, caplog: pytest.LogCaptureFixture
) -> None:
    (path.parent / "documents").mkdir(exist_ok=True)
    (path.parent / "documents" / "reports").write_text("in the way")
    assert main(["weights", "set", "a", "--config", str(path), "--weight", "4"]) == 0
    with TeamReports(sidecar):
        unwritten = sidecar.metrics.value
        wait_until(lambda: unwritten("reports_unwritten") >= 2, lambda: sidecar.metrics.snapshot())
    assert caplog.text.count("teams cannot be told what became of their settings") == 1

"""A cloud or a service that gives no plans is told of, until it gives one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.base.log_setup import RepeatFilter
from sidecar.base.metrics import Metrics
from sidecar.cli import main
from sidecar.controllers.configured_controller import CloudController
from sidecar.controllers.controller import Failed
from sidecar.controllers.embedded import EmbeddedController
from sidecar.controllers.kept_folder import KeptFolder
from sidecar.controllers.remote_with_fallback import RemoteWithFallback
from sidecar.daemon import Sidecar
from sidecar.half_lives.going_back import going_back
from sidecar.plans.plan_check import TakePlan
from sidecar.storage.store import FolderStore
from solver_lambda.documents.keys import observation_key
from solver_lambda.documents.plan import AdaptationPlan
from tests.secret_file import write_secret
from tests.sidecar.daemon.test_closed_loop import CYCLE, Load, plan_of, wait_for
from tests.sidecar.fixtures import WriteNode
from workloads.bench.solver.function_verb import realistic_observation
from workloads.local_node import sidecar_in_thread, wait_until
from workloads.local_server import LocalServer, free_port
from workloads.node_programs import running_service

MB = 1 << 20
TOKEN = "only-for-tests-0123456789"
SECRET = {"SPREDS_TOKEN": TOKEN}


@pytest.fixture
def node(write_node: WriteNode, servers: list[LocalServer], tmp_path: Path) -> Callable[..., Path]:
    """Writes the node's file with a ``[controller]`` of this kind that asks this port."""
    urls = {"small": servers[0].url, "large": servers[1].url}

    def write(kind: str, port: int, token: str = TOKEN) -> Path:
        write_secret(tmp_path / "token", token + "\n")
        controller = f'[controller]\nkind = "{kind}"\nurl = "http://127.0.0.1:{port}/"\n'
        controller += 'plan_deadline = "3s"\n'
        return write_node(urls, budget="24mb", more=f'{CYCLE}{controller}token_file = "token"\n')

    return write


def silent_cycles(sidecar: Sidecar) -> int:
    silence = sidecar.status()["controller"]["silence"]
    return int(silence["cycles"]) if silence else 0


@pytest.mark.parametrize(
    ("kind", "meanwhile"), [("auto", "the sidecar plans itself"), ("http", "nothing moves")]
)
def test_a_service_that_is_away_is_told_of_until_it_plans_again(
    node: Callable[..., Path],
    servers: list[LocalServer],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    kind: str,
    meanwhile: str,
) -> None:
    with running_service(tmp_path / "first", SECRET) as service:
        port = service.port
    path = node(kind, port)
    with Load(servers), sidecar_in_thread(path) as sidecar:
        wait_for(lambda: silent_cycles(sidecar) >= 2, sidecar)
        (problem,) = sidecar.status()["problems"]
        assert problem.startswith("the service has not answered the last ")
        assert "cycles, since 20" in problem
        assert "Connection refused" in problem
        assert f"): {meanwhile}; " in problem
        assert main(["status", str(path)]) == 1
        said = " ".join(capsys.readouterr().out.split())
        assert "problem: the service has not answered" in said
        assert ("(planned here, as the service is silent)" in said) == (kind == "auto")
        with running_service(tmp_path / "second", SECRET, ("--port", str(port))):
            wait_for(lambda: not silent_cycles(sidecar), sidecar)
            assert sidecar.status()["problems"] == []
            assert main(["status", str(path)]) == 0
            assert "planned here" not in capsys.readouterr().out


def test_a_wrong_token_is_told_of_though_plans_are_made(
    node: Callable[..., Path], servers: list[LocalServer], tmp_path: Path
) -> None:
    with (
        running_service(tmp_path / "log", SECRET) as service,
        Load(servers),
        sidecar_in_thread(node("auto", service.port, "wrong-" + TOKEN)) as sidecar,
    ):
        wait_for(lambda: sidecar.cycles >= 2 and silent_cycles(sidecar) >= 2, sidecar)
        (problem,) = sidecar.status()["problems"]
        assert "says 401" in problem
        assert TOKEN not in problem


class LateDelivery:
    """Plays a cloud whose notifications come when the test says so."""

    def __init__(self) -> None:
        self.take: TakePlan = lambda _document, _source: False

    def start(self) -> None:
        pass

    def expect(self, key: str) -> None:
        pass

    def problem(self) -> str | None:
        return None

    def close(self) -> None:
        pass


def test_an_observation_counts_once_and_a_plan_that_is_believed_ends_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, delivery, metrics = FolderStore(tmp_path / "bucket"), LateDelivery(), Metrics()

    def make(take: TakePlan, failed: Failed) -> CloudController:
        delivery.take = take
        return CloudController(store, delivery, metrics, failed)

    def believes(document: bytes, _: str) -> bool:
        return document == b"plan"

    embedded = EmbeddedController(believes, metrics, KeptFolder(None, 1, metrics))
    controller = RemoteWithFallback("the cloud", make, believes, embedded, False, 30.0, metrics)
    first = realistic_observation(2)
    second = replace(first, cycle=first.cycle + 1, made_at_seconds=first.made_at_seconds + 60)
    (tmp_path / "bucket").write_text("no folder")
    controller.ask(first)
    wait_until(lambda: controller.silence is not None, metrics.snapshot)
    controller.overdue(first)
    assert controller.silence is not None
    assert (controller.silence.cycles, controller.silence.last_cycle) == (1, first.cycle)
    assert str(tmp_path) in controller.silence.reason
    (tmp_path / "bucket").unlink()
    controller.ask(second)
    controller.overdue(second)
    assert controller.silence.cycles == 2
    assert controller.silence.since_seconds == first.made_at_seconds
    words = "(no plan that could be taken came within 30s): nothing moves"
    assert words in controller.silence.words()
    assert not delivery.take(b"forged", "of somebody")
    assert controller.silence.cycles == 2
    assert delivery.take(b"plan", "late")
    assert controller.silence is None
    # Its beginning and its end stand in the log, and of the next one too.
    third = replace(second, cycle=second.cycle + 1, made_at_seconds=second.made_at_seconds + 60)
    controller.ask(third)
    controller.overdue(third)
    assert delivery.take(b"plan", "late")
    once = RepeatFilter()
    begin, end, begin_again, end_again = (
        record.getMessage()
        for record in caplog.records
        if record.getMessage().startswith("the cloud ") and once.filter(record)
    )
    assert begin.startswith("the cloud has not answered the last cycle, since ")
    assert end.startswith("the cloud answers again: it had not for 2 cycles, since ")
    assert begin_again.startswith("the cloud has not answered the last cycle, since ")
    assert end_again.startswith("the cloud answers again: it had not for a cycle, since ")
    controller.close()
    assert metrics.value("observations_failed") == 1
    assert metrics.value("stand_ins") == 0


def test_who_did_harm_has_no_say_in_the_way_back(tmp_path: Path) -> None:
    """He stays silent, or says in time that all sizes are to stay."""
    store, delivery, metrics = FolderStore(tmp_path), LateDelivery(), Metrics()
    taken: list[bytes] = []

    def make(take: TakePlan, failed: Failed) -> CloudController:
        delivery.take = take
        return CloudController(store, delivery, metrics, failed)

    def believes(document: bytes, _: str) -> bool:
        taken.append(document)
        return True

    embedded = EmbeddedController(believes, metrics, KeptFolder(None, 1, metrics))
    controller = RemoteWithFallback("the cloud", make, believes, embedded, False, 30.0, metrics)
    first = realistic_observation(2)
    sizes = [int(0.9 * server.maxmemory_bytes) for server in first.servers]
    servers = tuple(
        replace(server, minimum_bytes=size, maximum_bytes=size)
        for server, size in zip(first.servers, sizes, strict=True)
    )
    controller.ask(replace(first, servers=servers, goes_back=True))
    assert not delivery.take(b"keep", "in time")
    assert metrics.value("plans_refused", reason="going_back") == 1
    wait_until(lambda: taken, metrics.snapshot)
    controller.overdue(replace(first, goes_back=True))
    plan = AdaptationPlan.loads(taken[0], "embedded")
    assert [server.maxmemory_bytes for server in plan.servers] == sizes
    assert plan.reason.startswith("back:")
    assert controller.problem is not None
    assert "the plans of the cloud would have cost more than the " in controller.problem
    assert controller.silence is None
    second = replace(first, cycle=first.cycle + 1)
    controller.ask(second)
    wait_until((tmp_path / observation_key(second.node, second.cycle)).exists, metrics.snapshot)
    assert controller.problem is None
    assert delivery.take(b"plan", "in time")
    controller.close()
    put = tmp_path / observation_key(second.node, second.cycle)
    assert list(put.parent.iterdir()) == [put]
    assert metrics.value("ways_back") == 1
    assert metrics.value("stand_ins") == 0


def test_the_way_back_needs_no_service(
    node: Callable[..., Path], servers: list[LocalServer]
) -> None:
    first = {"small": 14 * MB, "large": 10 * MB}
    with Load(servers), sidecar_in_thread(node("http", free_port())) as sidecar:
        sidecar._planning_basis.judged = lambda seen, *_: going_back(seen, first)  # type: ignore[method-assign]
        wait_for(lambda: sidecar._store.now.targets_bytes == first, sidecar)
        wait_for(lambda: sidecar.last_plan, sidecar)
        assert plan_of(sidecar).reason.startswith("back:")
        assert any("goes back to these by itself" in one for one in sidecar.status()["problems"])

"""A cloud that accepts and never answers, and one that there is not: plans and the end go on."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from sidecar.base.metrics import Metrics
from sidecar.base.worker import NoThreadError, Worker
from sidecar.controllers.configured_controller import queue_client
from sidecar.delivery.http_delivery import HttpDelivery
from sidecar.delivery.plan_inbox import Verdict
from sidecar.delivery.sqs_delivery import long_poll_seconds
from sidecar.settings import background_settings
from sidecar.settings.background_settings import BackgroundSettings
from sidecar.settings.team_settings import TeamSettings
from sidecar.storage.aws import client
from tests.sidecar.black_hole import BlackHole
from tests.sidecar.fixtures import StartServer, WriteNode
from tests.sidecar.no_threads import refuse_threads
from tests.sidecar.sidecar_process import Program, sidecar_process, with_boto3, without_boto3
from workloads.local_node import wait_until

CLOUD = """[cycle]
maximum_age = "500ms"
[controller]
kind = "auto"
observations_bucket = "observations"
plans_bucket = "plans"
topic_arn = "arn:aws:sns:us-east-1:123456789012:plans"
delivery = "sqs"
queue_url = "{url}/queue"
endpoint_url = "{url}"
"""


@pytest.fixture
def write(
    write_node: WriteNode, start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Path]:
    """Writes the file of a node with this end."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    server = start_server("12mb")
    return lambda more: write_node({"a": server.url}, budget="24mb", more=more)


def test_auto_plans_and_stops_while_nobody_answers(write: Callable[[str], Path]) -> None:
    with BlackHole() as hole:
        more = CLOUD.format(url=hole.url) + 'plan_deadline = "200ms"\n'
        with sidecar_process(write(more), with_boto3) as process:
            process.read_until("the embedded solver stands in")
            process.read_until("plan: cycle")
            process.read_until("the embedded solver stands in")
            assert process.end() == 0
    assert hole.connections


def test_the_end_does_not_wait_for_calls_that_are_under_way(write: Callable[[str], Path]) -> None:
    with BlackHole() as hole:
        # No call ends by itself while this test lasts.
        more = CLOUD.format(url=hole.url) + 'plan_deadline = "10m"\n'
        with sidecar_process(write(more), with_boto3) as process:
            process.read_until("settings are not read in time")
            process.read_until("observed: cycle")
            # The settings, the queue and the observation.
            wait_until(lambda: len(hole.connections) >= 3, lambda: process.lines)
            assert process.end() == 0
        assert not any("Traceback" in line for line in process.lines)


@pytest.mark.parametrize(
    ("program", "words"),
    [(with_boto3, "http://not_a_host_.."), (without_boto3, "boto3 is missing")],
)
def test_a_reload_to_an_impossible_cloud_keeps_the_old_controller(
    write: Callable[[str], Path], program: Program, words: str
) -> None:
    embedded = '[cycle]\nmaximum_age = "500ms"\n[controller]\nkind = "embedded"\n'
    path = write(embedded)
    with sidecar_process(path, program) as process:
        process.read_until("plan: cycle")
        write(CLOUD.format(url="http://not_a_host_.."))
        os.kill(process.process.pid, signal.SIGHUP)
        assert words in process.read_until("the reload was refused")
        process.read_until("plan: cycle")
        write(embedded)
        os.kill(process.process.pid, signal.SIGHUP)
        process.read_until("reloaded: ")
        process.read_until("plan: cycle")
        assert process.end() == 0


@pytest.mark.parametrize("deadline", [0.2, 2.0, 9.9, 10.0, 30.0, 600.0])
def test_a_call_that_nobody_answers_fails_before_the_deadline(deadline: float) -> None:
    config = client("s3", "us-east-1", "http://127.0.0.1:1", limit_seconds=deadline).meta.config
    assert _longest_seconds(config) < deadline


@pytest.mark.parametrize("deadline", [2.0, 30.0, 600.0])
def test_a_long_poll_that_nobody_answers_fails_before_the_deadline(deadline: float) -> None:
    config = queue_client("us-east-1", "http://127.0.0.1:1", deadline).meta.config
    assert long_poll_seconds(deadline) < config.read_timeout
    assert _longest_seconds(config) < deadline


def _longest_seconds(config: Any) -> float:
    attempts = config.retries["total_max_attempts"]
    pauses_seconds = attempts - 1  # of a second at most
    return float(attempts * (config.connect_timeout + config.read_timeout) + pauses_seconds)


class StuckReader:
    """Reads when it may."""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.reads = 0
        self.in_force: dict[str, TeamSettings] = {}

    def read(self) -> dict[str, TeamSettings]:
        self.reads += 1
        assert self.may.wait(60)
        return {"a": TeamSettings("ana", "2026-01-01", {"weight": float(self.reads)})}


class BrokenReader(StuckReader):
    """Reads once, and then fails as nothing should."""

    def read(self) -> dict[str, TeamSettings]:
        self.may.set()
        if self.reads:
            raise KeyError("ETag")
        return super().read()


def test_a_reading_that_breaks_leaves_the_settings_and_ends_nothing() -> None:
    metrics = Metrics()
    settings = BackgroundSettings(BrokenReader(), metrics)  # type: ignore[arg-type]
    for failures in range(3):
        settings.ask()
        assert settings._reading is not None
        wait_until(settings._reading.done, dict)
        in_force = settings.answer()
        assert in_force is not None
        assert in_force.keys() == {"a"}
        assert metrics.value("settings_failures") == failures


def test_settings_that_come_late_hold_from_the_next_observation_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background_settings, "LONGEST_SECONDS", 0.0)
    reader, metrics = StuckReader(), Metrics()
    settings = BackgroundSettings(reader, metrics)  # type: ignore[arg-type]
    settings.ask()
    assert settings.answer() == {}
    assert metrics.value("settings_late") == 1
    settings.ask()
    assert settings.answer() == {}
    # The second did not queue up behind the first.
    reader.may.set()
    wait_until(lambda: settings._reading is None or settings._reading.done(), lambda: "reading")
    settings.ask()
    assert settings.in_force["a"].values["weight"] == 1.0
    settings.close()


def test_a_worker_that_is_closed_begins_nothing_more() -> None:
    worker, begun, may = Worker("test"), threading.Event(), threading.Event()
    first = worker.submit(lambda: begun.set() or may.wait(60))
    second = worker.submit(lambda: True)
    assert begun.wait(60)
    worker.close()
    may.set()
    assert first.result(60)
    wait_until(second.cancelled, lambda: second)


def test_a_worker_without_a_thread_says_so_and_begins_later() -> None:
    worker = Worker("test")
    with pytest.MonkeyPatch.context() as patch:
        refuse_threads(patch)
        error = worker.submit(lambda: True).exception(0)
    assert isinstance(error, NoThreadError)
    assert str(error) == "test: can't start new thread"
    assert worker.submit(lambda: True).result(60)
    worker.close()


class Inbox:
    """Takes everything."""

    def __init__(self) -> None:
        self.taken = 0

    def take(self, _: bytes, _sender: str = "") -> Verdict:
        self.taken += 1
        return Verdict.TAKEN


def test_a_delivery_takes_over_the_port_of_the_one_before() -> None:
    inboxes = Inbox(), Inbox()
    old = HttpDelivery(("127.0.0.1", 0), inboxes[0], Metrics())  # type: ignore[arg-type]
    old.start()
    listen = old._listen
    new = HttpDelivery(listen, inboxes[1], Metrics(), heir_of=old)  # type: ignore[arg-type]
    assert new.port == old.port
    old.close()
    new.start()
    try:
        connection = HTTPConnection("127.0.0.1", new.port, timeout=20)
        connection.request("POST", "/", b"{}")
        assert connection.getresponse().status == 200
        connection.close()
    finally:
        new.close()
    assert [inbox.taken for inbox in inboxes] == [0, 1]

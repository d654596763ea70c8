"""Bad notifications, sent over HTTP to a running sidecar: none is followed by a CONFIG SET."""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from sidecar.config import load_config
from sidecar.daemon import Sidecar
from sidecar.notification import MAX_BYTES
from solver_lambda.keys import plan_key
from solver_lambda.observation import Observation
from solver_lambda.plan import AdaptationPlan
from solver_lambda.planner import make_plan
from workloads.local_server import LocalServer

MB = 1 << 20
EVENT = "the S3 event of the plan"


@dataclass
class Running:
    """A sidecar that waits for the plan of its first observation.

    Attributes:
        plan: a good answer, which moves memory.
        key: where it lies in the plans bucket.
    """

    sidecar: Sidecar
    cloud: Any
    servers: list[LocalServer]
    port: int
    plan: AdaptationPlan
    key: str

    def put(self, plan: AdaptationPlan | bytes, key: str | None = None) -> None:
        body = plan if isinstance(plan, bytes) else plan.dumps()
        self.cloud.s3.put_object(Bucket="plans", Key=key or self.key, Body=body)

    def message(self, text: str = EVENT, **fields: Any) -> dict[str, Any]:
        """A good message but for what is said, signed."""
        text = self.cloud.event(self.key) if text is EVENT else text
        return dict(self.cloud.sign(self.cloud.message(text, **fields)))

    def post(self, body: bytes | dict[str, Any]) -> int:
        """Status of the answer."""
        if isinstance(body, dict):
            body = json.dumps(body).encode()
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request("POST", "/", body)
            return connection.getresponse().status
        finally:
            connection.close()

    def post_raw(self, request: bytes) -> int:
        """Status of the answer to a request that no client would send."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as connection:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            return int(connection.makefile("rb").readline().split()[1])

    def config_sets(self) -> list[int]:
        """CONFIG SET calls that each server has seen."""
        return [
            server.client.info("commandstats").get("cmdstat_config|set", {}).get("calls", 0)
            for server in self.servers
        ]

    def refused(self) -> dict[str, int]:
        return {
            name: count
            for name, count in self.sidecar.counters.snapshot().items()
            if "_refused_" in name or name == "notifications_deferred"
        }


def _answer(observation: Observation) -> AdaptationPlan:
    """A plan that moves 4 MB from the first server to the second."""
    plan = make_plan(observation, now_seconds=observation.made_at_seconds)
    sizes = [12 * MB, 20 * MB]
    servers = tuple(
        replace(server, maxmemory_bytes=size)
        for server, size in zip(plan.servers, sizes, strict=True)
    )
    return replace(plan, servers=servers, decision="apply")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def running(cloud: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder, port = tmp_path_factory.mktemp("node"), _free_port()
    settings = {"maxmemory": "16mb", "maxmemory-policy": "allkeys-lru"}
    with LocalServer(settings) as first, LocalServer(settings) as second:
        servers = [first, second]
        path = _write(folder, cloud, port, servers)
        sidecar = Sidecar(load_config(path))
        thread = threading.Thread(target=sidecar.run)
        thread.start()
        try:
            observation = _first_observation(sidecar, thread, servers)
            plan = _answer(observation)
            key = plan_key("n1", plan.cycle)
            made = Running(sidecar, cloud, servers, port, plan, key)
            made.put(plan)
            yield made
        finally:
            sidecar.stop()
            thread.join()


def _write(folder: Path, cloud: Any, port: int, servers: list[LocalServer]) -> Path:
    delivery = (
        f'delivery = "http"\nlisten = "127.0.0.1:{port}"\npublic_url = "http://localhost:{port}/"\n'
        'plan_deadline = "1h"\n'
    )
    tables = "".join(
        f'[[server]]\nname = "s{place}"\nurl = "{server.url}"\nbackend_latency = "50ms"\n'
        for place, server in enumerate(servers)
    )
    path = folder / "node.toml"
    path.write_text(
        f'node = "n1"\n[memory]\nbudget = "32mb"\n'
        f'[sampling]\nendpoint = "ipc://{folder}/samples"\nrate = 1\n'
        f'[cycle]\nsamples = 5000\n{cloud.controller(delivery)}{tables}'
    )
    return path


def _first_observation(
    sidecar: Sidecar, thread: threading.Thread, servers: list[LocalServer]
) -> Observation:
    """Some load, until the sidecar knows the curves of both servers well enough to ask."""
    while thread.is_alive():
        for server in servers:
            for key in range(300):
                if server.client.get(f"key{key}") is None:
                    server.client.set(f"key{key}", b"x" * 100)
        if sidecar.last_observation is not None:
            return sidecar.last_observation
    raise AssertionError("the sidecar ended")


def _time(**ago: float) -> str:
    return (datetime.now(UTC) - timedelta(**ago)).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _stolen_key(running: Running) -> dict[str, Any]:
    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    message = running.cloud.message(running.cloud.event(running.key))
    return dict(running.cloud.sign(message, stranger))


def _certificate(running: Running, **how: Any) -> dict[str, Any]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    url = running.cloud.add_certificate(key, **how)
    message = running.cloud.message(running.cloud.event(running.key), SigningCertURL=url)
    return dict(running.cloud.sign(message, key))


def _curve_certificate(running: Running) -> dict[str, Any]:
    url = running.cloud.add_certificate(ec.generate_private_key(ec.SECP256R1()))
    return running.message(SigningCertURL=url)


def _without(message: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in message.items() if name != key}


HOST = "https://sns.us-east-1.amazonaws.com"
PEM = "SimpleNotificationService-00000000.pem"

# Name: (what is sent, the reason that is counted).
BAD: dict[str, tuple[Callable[[Running], bytes | dict[str, Any]], str]] = {
    "forged with another key": (_stolen_key, "signature"),
    "message changed after signing": (
        lambda r: {**r.message("{}"), "Message": r.cloud.event(r.key)},
        "signature",
    ),
    "time changed after signing": (
        lambda r: {**r.message(Timestamp=_time(minutes=5)), "Timestamp": _time()},
        "signature",
    ),
    "id changed after signing": (lambda r: {**r.message(), "MessageId": "new"}, "signature"),
    "subject added after signing": (lambda r: {**r.message(), "Subject": "x"}, "signature"),
    "type changed after signing": (
        lambda r: {
            **r.message(Token="t", SubscribeURL="https://x"),
            "Type": "SubscriptionConfirmation",
        },
        "signature",
    ),
    "empty signature": (lambda r: {**r.message(), "Signature": ""}, "signature"),
    "signature not base64": (lambda r: {**r.message(), "Signature": "%%%"}, "signature"),
    "signature of zeros": (
        lambda r: {**r.message(), "Signature": base64.b64encode(bytes(256)).decode()},
        "signature",
    ),
    "expired": (lambda r: r.message(Timestamp=_time(hours=2)), "expired"),
    "from the future": (lambda r: r.message(Timestamp=_time(hours=-1)), "from_the_future"),
    "no time": (lambda r: r.message(Timestamp="yesterday"), "timestamp"),
    "wrong topic": (lambda r: r.message(TopicArn=f"{r.cloud.topic_arn}-other"), "topic"),
    "topic of another account": (
        lambda r: r.message(TopicArn="arn:aws:sns:us-east-1:999999999999:plans"),
        "topic",
    ),
    "wrong host": (
        lambda r: r.message(SigningCertURL=f"https://sns.us-east-1.example.com/{PEM}"),
        "certificate_url",
    ),
    "host that only begins as Amazon's": (
        lambda r: r.message(SigningCertURL=f"{HOST}.example.com/{PEM}"),
        "certificate_url",
    ),
    "host behind a user name": (
        lambda r: r.message(SigningCertURL=f"{HOST}@example.com/{PEM}"),
        "certificate_url",
    ),
    "certificate without TLS": (
        lambda r: r.message(SigningCertURL=f"http://sns.us-east-1.amazonaws.com/{PEM}"),
        "certificate_url",
    ),
    "certificate elsewhere at Amazon's": (
        lambda r: r.message(SigningCertURL=f"{HOST}/bucket/{PEM}"),
        "certificate_url",
    ),
    "certificate with a query": (
        lambda r: r.message(SigningCertURL=f"{HOST}/{PEM}?x=/{PEM}"),
        "certificate_url",
    ),
    "certificate with a line break": (
        lambda r: r.message(SigningCertURL=f"{HOST}/{PEM}\n"),
        "certificate_url",
    ),
    "certificate that has expired": (
        lambda r: _certificate(r, days=(-9, -1)),
        "certificate_date",
    ),
    "certificate of tomorrow": (lambda r: _certificate(r, days=(1, 9)), "certificate_date"),
    "certificate that is none": (lambda r: _certificate(r, text=b"hello"), "certificate"),
    "certificate that never ends": (
        lambda r: _certificate(r, text=b"x" * 100_000),
        "certificate",
    ),
    "certificate of another kind of key": (_curve_certificate, "certificate"),
    "version 1": (lambda r: r.message(SignatureVersion="1"), "signature_version"),
    "version 3": (lambda r: r.message(SignatureVersion="3"), "signature_version"),
    "no version": (lambda r: _without(r.message(), "SignatureVersion"), "incomplete"),
    "no id": (lambda r: _without(r.message(), "MessageId"), "incomplete"),
    "number for a text": (lambda r: {**r.message(), "Message": 7}, "incomplete"),
    "list for a subject": (lambda r: {**r.message(), "Subject": []}, "incomplete"),
    "end of a subscription": (lambda r: r.message(Type="Notification") | {"Type": "Unsub"}, "type"),
    "no type": (lambda r: _without(r.message(), "Type"), "type"),
    "truncated": (lambda r: json.dumps(r.message()).encode()[:-20], "not_json"),
    "empty": (lambda r: b"", "not_json"),
    "not text": (lambda r: b"\xff\xfe\x00", "not_json"),
    "list": (lambda r: b"[]", "not_json"),
    "nested deeply": (lambda r: b"[" * 100_000, "not_json"),
    "oversized": (lambda r: json.dumps(r.message()).encode() + b" " * MAX_BYTES, "oversized"),
    "no event": (lambda r: r.message("plans are ready"), "not_an_event"),
    "event without records": (lambda r: r.message('{"Records": null}'), "not_an_event"),
    "another bucket": (lambda r: r.message(r.cloud.event(r.key, bucket="mine")), "bucket"),
    "removal": (lambda r: r.message(r.cloud.event(r.key, event="ObjectRemoved:Delete")), "event"),
    "plan of another node": (lambda r: r.message(r.cloud.event(plan_key("n2", 7))), "key"),
    "key that climbs": (lambda r: r.message(r.cloud.event("plans/n1/../n1/7.json")), "key"),
    "no such plan": (lambda r: r.message(r.cloud.event(plan_key("n1", 7))), "no_plan"),
}


def _assert_nothing_follows(
    running: Running, counter: str, send: Callable[[], int], *, status: range
) -> None:
    before, calls = running.refused(), running.config_sets()
    assert send() in status
    after = running.refused()
    assert after.get(counter, 0) == before.get(counter, 0) + 1
    assert sum(after.values()) == sum(before.values()) + 1
    running.sidecar._actuator.step()
    assert running.config_sets() == calls
    assert running.sidecar.cycles == 0


@pytest.mark.parametrize("name", BAD)
def test_a_bad_notification_is_refused_and_nothing_follows(running: Running, name: str) -> None:
    make, reason = BAD[name]
    body = make(running)
    _assert_nothing_follows(
        running,
        f"notifications_refused_{reason}",
        lambda: running.post(body),
        status=range(400, 500),
    )


def test_a_replayed_notification_is_refused(running: Running) -> None:
    body = running.message('{"Service": "Amazon S3", "Event": "s3:TestEvent"}')
    assert running.post(body) == 200
    _assert_nothing_follows(
        running,
        "notifications_refused_replayed",
        lambda: running.post(body),
        status=range(400, 500),
    )


@pytest.mark.parametrize(
    ("request_bytes", "reason"),
    [
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 999\r\n\r\n{", "truncated"),
        (b"POST / HTTP/1.1\r\nHost: x\r\n\r\n{}", "length"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n{}", "length"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n{}", "oversized"),
    ],
)
def test_a_body_that_is_not_as_announced_is_refused(
    running: Running, request_bytes: bytes, reason: str
) -> None:
    _assert_nothing_follows(
        running,
        f"notifications_refused_{reason}",
        lambda: running.post_raw(request_bytes),
        status=range(400, 500),
    )


def test_a_certificate_that_cannot_be_had_now_asks_for_another_delivery(running: Running) -> None:
    url = f"{HOST}/SimpleNotificationService-ffffffff.pem"
    _assert_nothing_follows(
        running,
        "notifications_deferred",
        lambda: running.post(running.message(SigningCertURL=url)),
        status=range(503, 504),
    )


def _first_size(plan: AdaptationPlan, size_bytes: int) -> AdaptationPlan:
    first, *rest = plan.servers
    return replace(plan, servers=(replace(first, maxmemory_bytes=size_bytes), *rest))


# Name: (the plan that a good notification leads to, the reason that is counted).
BAD_PLANS: dict[str, tuple[Callable[[AdaptationPlan], AdaptationPlan | bytes], str]] = {
    "no JSON": (lambda plan: b"{", "malformed"),
    "oversized": (lambda plan: plan.dumps() + b" " * (1 << 20), "malformed"),
    "unknown key": (lambda plan: plan.dumps().replace(b'"node"', b'"n0de"', 1), "malformed"),
    "more than the budget": (lambda plan: _first_size(plan, 13 * MB), "malformed"),
    "foreign node": (lambda plan: replace(plan, node="n2"), "foreign_node"),
    "cycle that nobody asked": (lambda plan: replace(plan, cycle=plan.cycle - 1), "unasked_cycle"),
    "cycle of the future": (lambda plan: replace(plan, cycle=plan.cycle + 9), "unasked_cycle"),
    "below the minimum": (lambda plan: _first_size(plan, 1 * MB), "below_minimum"),
    "a server missing": (lambda plan: replace(plan, servers=plan.servers[:1]), "wrong_servers"),
    "another server": (
        lambda plan: replace(plan, servers=(replace(plan.servers[0], name="x"), plan.servers[1])),
        "wrong_servers",
    ),
    "another budget": (lambda plan: replace(plan, budget_bytes=64 * MB), "wrong_budget"),
    "made tomorrow": (
        lambda plan: replace(plan, made_at_seconds=plan.made_at_seconds + 86400),
        "from_the_future",
    ),
}


@pytest.mark.parametrize("name", BAD_PLANS)
def test_a_bad_plan_behind_a_good_notification_is_refused(running: Running, name: str) -> None:
    make, reason = BAD_PLANS[name]
    running.put(make(running.plan))
    try:
        _assert_nothing_follows(
            running,
            f"plans_refused_{reason}",
            lambda: running.post(running.message()),
            status=range(200, 201),
        )
    finally:
        running.put(running.plan)


def test_the_good_notification_is_carried_out_and_not_twice(running: Running) -> None:
    assert running.post(running.message(Subject="Amazon S3 Notification")) == 200
    assert running.sidecar.cycles == 1
    assert running.sidecar._actuator.wait_until_settled(30)
    sizes = [int(server.client.config_get("maxmemory")["maxmemory"]) for server in running.servers]
    assert sizes == [12 * MB, 20 * MB]
    assert running.post(running.message()) == 200
    assert running.sidecar.cycles == 1
    assert running.refused()["plans_refused_old_cycle"] == 1

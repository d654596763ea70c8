"""Bad notifications, sent over HTTP to a running sidecar: none is followed by a CONFIG SET."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from sidecar.delivery import signing_certificate as certificate_fetches
from sidecar.delivery.notification import MAX_MESSAGE_BYTES
from solver_lambda.documents.keys import plan_key
from tests.sidecar.waiting_sidecar import WaitingSidecar


def _time(**ago: float) -> str:
    return (datetime.now(UTC) - timedelta(**ago)).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _stolen_key(waiting: WaitingSidecar) -> dict[str, Any]:
    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    message = waiting.cloud.message(waiting.cloud.event(waiting.key))
    return dict(waiting.cloud.sign(message, stranger))


def _certificate(waiting: WaitingSidecar, **how: Any) -> dict[str, Any]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    url = waiting.cloud.add_certificate(key, **how)
    message = waiting.cloud.message(waiting.cloud.event(waiting.key), SigningCertURL=url)
    return dict(waiting.cloud.sign(message, key))


def _curve_certificate(waiting: WaitingSidecar) -> dict[str, Any]:
    url = waiting.cloud.add_certificate(ec.generate_private_key(ec.SECP256R1()))
    return waiting.message(SigningCertURL=url)


def _without(message: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in message.items() if name != key}


HOST = "https://sns.us-east-1.amazonaws.com"
PEM = "SimpleNotificationService-00000000.pem"

# Name: (what is sent, the reason that is counted).
BAD: dict[str, tuple[Callable[[WaitingSidecar], bytes | dict[str, Any]], str]] = {
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
    "half a character": (
        lambda r: {**r.message(), "Message": "\ud800"},
        "not_text",
    ),
    "list for a subject": (lambda r: {**r.message(), "Subject": []}, "incomplete"),
    "end of a subscription": (lambda r: r.message(Type="Notification") | {"Type": "Unsub"}, "type"),
    "no type": (lambda r: _without(r.message(), "Type"), "type"),
    "truncated": (lambda r: json.dumps(r.message()).encode()[:-20], "not_json"),
    "empty": (lambda r: b"", "not_json"),
    "not text": (lambda r: b"\xff\xfe\x00", "not_json"),
    "list": (lambda r: b"[]", "not_json"),
    "nested deeply": (lambda r: b"[" * 900 + b"]" * 900, "not_json"),
    # Which cost 65 ms before anything proved who sends them.
    "many lists": (lambda r: b"[" + b"[]," * 20_000 + b"[]]", "not_json"),
    "oversized": (
        lambda r: json.dumps(r.message()).encode() + b" " * MAX_MESSAGE_BYTES,
        "oversized",
    ),
    "no event": (lambda r: r.message("plans are ready"), "not_an_event"),
    "event without records": (lambda r: r.message('{"Records": null}'), "not_an_event"),
    "another bucket": (lambda r: r.message(r.cloud.event(r.key, bucket="mine")), "bucket"),
    "removal": (lambda r: r.message(r.cloud.event(r.key, event="ObjectRemoved:Delete")), "event"),
    "plan of another node": (lambda r: r.message(r.cloud.event(plan_key("n2", 7))), "key"),
    "key that climbs": (lambda r: r.message(r.cloud.event("plans/n1/../n1/7.json")), "key"),
    "no such plan": (lambda r: r.message(r.cloud.event(plan_key("n1", 7))), "no_plan"),
}


@pytest.fixture(autouse=True)
def many_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than one sender has in a minute."""
    monkeypatch.setattr(certificate_fetches, "MOST_OF_ONE", 1000)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_notification_is_refused_and_nothing_follows(
    waiting: WaitingSidecar, name: str
) -> None:
    make, reason = BAD[name]
    body = make(waiting)
    waiting.assert_refused(
        f"notifications_refused[reason={reason}]",
        lambda: waiting.post(body),
        range(400, 500),
    )


def test_a_replayed_notification_is_refused(waiting: WaitingSidecar) -> None:
    body = waiting.message('{"Service": "Amazon S3", "Event": "s3:TestEvent"}')
    assert waiting.post(body) == 200
    waiting.assert_refused(
        "notifications_refused[reason=replayed]",
        lambda: waiting.post(body),
        range(400, 500),
    )


@pytest.mark.parametrize(
    ("request_bytes", "reason"),
    [
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 999\r\n\r\n{", "truncated"),
        (b"POST / HTTP/1.1\r\nHost: x\r\n\r\n{}", "length"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n{}", "length"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n{}", "oversized"),
        # Python makes no number of so many digits.
        (b"POST / HTTP/1.1\r\nContent-Length: %s\r\n\r\n{}" % (b"1" * 5000), "oversized"),
    ],
)
def test_a_body_that_is_not_as_announced_is_refused(
    waiting: WaitingSidecar, request_bytes: bytes, reason: str
) -> None:
    waiting.assert_refused(
        f"notifications_refused[reason={reason}]",
        lambda: waiting.post_raw(request_bytes),
        range(400, 500),
    )


def test_a_certificate_that_cannot_be_had_now_asks_for_another_delivery(
    waiting: WaitingSidecar,
) -> None:
    url = f"{HOST}/SimpleNotificationService-ffffffff.pem"
    waiting.assert_refused(
        "notifications_deferred",
        lambda: waiting.post(waiting.message(SigningCertURL=url)),
        range(503, 504),
    )


def test_a_subscription_is_confirmed_by_its_token_and_not_by_its_address(
    waiting: WaitingSidecar,
) -> None:
    waiting.cloud.requests.clear()
    message = waiting.message(
        "You have chosen to subscribe",
        Type="SubscriptionConfirmation",
        Token="a-token",
        SubscribeURL=f"{waiting.cloud.endpoint_url}/subscribe",
    )
    assert waiting.post(message) == 200
    (request,) = waiting.cloud.requests
    path, body = request
    assert path == "/"
    wanted = {"Action": ["ConfirmSubscription"], "Token": ["a-token"]}
    wanted["TopicArn"] = [waiting.cloud.topic_arn]
    assert parse_qs(body.decode()).items() >= wanted.items()

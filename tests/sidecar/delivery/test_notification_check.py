"""Notifications without a sidecar: what each refusal says, at its edge, and what is not asked."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import urllib.error
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa

from sidecar.delivery import message_signature
from sidecar.delivery.message_signature import (
    MAX_CERTIFICATE_BYTES,
    CertificateUnavailableError,
    SignatureCheck,
    SignatureError,
    signed_text,
)
from sidecar.delivery.notification import (
    FUTURE_SECONDS,
    MAX_MESSAGE_BYTES,
    REMEMBERED_MESSAGES,
    Notification,
    NotificationCheck,
    NotificationRefusedError,
)
from solver_lambda.documents.keys import plan_key
from tests.sidecar.delivery.test_notifications_refused import BAD
from tests.sidecar.signed_cloud import SignedCloud

AGE = 3600.0
KEY = plan_key("n1", 3)
TOPIC = "arn:aws:sns:us-east-1:123456789012:plans"


def digest(message: dict[str, Any]) -> bytes:
    return hashlib.sha256(signed_text(message)).digest()


class Sender:
    """Messages as ``WaitingSidecar`` makes them, and who checks them."""

    def __init__(self, cloud: SignedCloud) -> None:
        self.cloud = cloud
        self.key = KEY
        self.now = datetime.now(UTC).replace(microsecond=0)
        self.signature = SignatureCheck(cloud.topic_arn, cloud.endpoint_url)
        self.check = NotificationCheck(
            topic_arn=cloud.topic_arn,
            plans_bucket=cloud.plans_bucket,
            node="n1",
            signature=self.signature,
            maximum_age_seconds=AGE,
            now=lambda: self.now.timestamp(),
        )

    def message(self, text: str | None = None, **fields: Any) -> dict[str, Any]:
        text = self.cloud.event(self.key) if text is None else text
        return self.cloud.sign(self.cloud.message(text, **fields))

    def at(self, **ago: float) -> dict[str, Any]:
        return self.message(Timestamp=(self.now - timedelta(**ago)).isoformat())

    def take(self, body: bytes | dict[str, Any]) -> Notification:
        return self.check.check(body if isinstance(body, bytes) else json.dumps(body).encode())

    def refusal(self, body: bytes | dict[str, Any]) -> str:
        with pytest.raises(NotificationRefusedError) as refused:
            self.take(body)
        assert str(refused.value).startswith(f"{refused.value.code}: ")
        return str(refused.value)


@pytest.fixture
def sender(cloud: SignedCloud) -> Sender:
    cloud.requests.clear()
    return Sender(cloud)


@pytest.mark.parametrize("name", [name for name in BAD if name != "no such plan"])
def test_each_bad_message_is_refused_for_its_reason(sender: Sender, name: str) -> None:
    make, reason = BAD[name]
    body: Any = make(sender)  # type: ignore[arg-type]  # it asks for nothing but messages
    assert sender.refusal(body).partition(":")[0] == reason


def test_a_good_one_says_which_plans_there_are(sender: Sender) -> None:
    first, second = sender.message(), sender.message(Subject="Amazon S3 Notification")
    assert sender.take(first) == Notification(digest(first), (KEY,))
    assert sender.take(second) == Notification(digest(second), (KEY,))
    # A certificate is fetched once.
    assert [path for path, _ in sender.cloud.requests] == [
        "/SimpleNotificationService-00000000.pem"
    ]
    assert sender.check.problem() is None


def test_a_message_may_tell_of_several_plans_or_of_none(sender: Sender) -> None:
    records = [json.loads(sender.cloud.event(plan_key("n1", n)))["Records"][0] for n in (1, 2)]
    found = sender.take(sender.message(json.dumps({"Records": records})))
    assert found.plan_keys == (plan_key("n1", 1), plan_key("n1", 2))
    test_event = sender.take(sender.message('{"Event": "s3:TestEvent"}'))
    assert test_event.plan_keys == ()
    assert test_event.token is None


def test_a_subscription_is_told_by_its_token(sender: Sender) -> None:
    message = sender.message(
        "hello", Type="SubscriptionConfirmation", Token="t", SubscribeURL="https://x"
    )
    assert sender.take(message) == Notification(digest(message), token="t")
    for missing in ("Token", "SubscribeURL"):
        less = {key: value for key, value in message.items() if key != missing}
        assert sender.refusal(less) == f"incomplete: {missing} is missing or not a text"


def test_age_is_judged_to_the_second(sender: Sender) -> None:
    sender.take(sender.at(seconds=AGE))
    assert sender.refusal(sender.at(seconds=AGE + 1)) == "expired: it is 3601 s old"
    sender.take(sender.at(seconds=-FUTURE_SECONDS))
    late = sender.at(seconds=-FUTURE_SECONDS - 1)
    assert sender.refusal(late) == f"from_the_future: it is of '{late['Timestamp']}'"
    assert sender.refusal(sender.message(Timestamp="soon")) == "timestamp: 'soon' is not a time"


def test_size_is_judged_to_the_byte(sender: Sender) -> None:
    body = json.dumps(sender.message()).encode()
    sender.take(body.ljust(MAX_MESSAGE_BYTES))
    words = f"oversized: {MAX_MESSAGE_BYTES + 1} bytes, at most {MAX_MESSAGE_BYTES}"
    assert sender.refusal(body.ljust(MAX_MESSAGE_BYTES + 1)) == words


def test_what_was_dealt_with_is_a_replay_and_the_oldest_are_forgotten(sender: Sender) -> None:
    first = sender.message()
    sender.take(first)
    sender.take(first)  # it was not dealt with
    sender.check.remember(digest(first))
    assert sender.refusal(first) == f"replayed: message '{first['MessageId']}' came before"
    for number in range(REMEMBERED_MESSAGES - 1):
        sender.check.remember(b"%d" % number)
    assert sender.refusal(first).startswith("replayed")
    sender.check.remember(b"one more")
    sender.take(first)


REFUSALS = {
    "topic": (lambda s: s.message(TopicArn="arn:x"), "topic: from topic 'arn:x'"),
    "type": (lambda s: {**s.message(), "Type": "Unsub"}, "type: type 'Unsub'"),
    "no type": (lambda s: {"a": 1}, "type: type None"),
    "JSON": (lambda s: b"{", "not_json: the notification: "),
    "text": (lambda s: {**s.message(), "Message": 7}, "incomplete: Message is missing or not"),
    "half a character": (
        lambda s: json.dumps(s.message()).encode()[:-1] + b', "Subject": "\\ud800"}',
        "not_text: Subject has half a character",
    ),
    "event": (lambda s: s.message("ready"), "not_an_event: not an event of S3: the message: "),
    "bucket": (
        lambda s: s.message(s.cloud.event(KEY, bucket="mine")),
        "bucket: about 'aws:s3' 'mine'",
    ),
    "source": (
        lambda s: s.message(s.cloud.event(KEY).replace("aws:s3", "aws:sqs")),
        "bucket: about 'aws:sqs' 'plans'",
    ),
    "removal": (
        lambda s: s.message(s.cloud.event(KEY, event="ObjectRemoved:Delete")),
        "event: 'ObjectRemoved:Delete' stores nothing",
    ),
    "key": (
        lambda s: s.message(s.cloud.event("plans/n1/x.json")),
        "key: 'plans/n1/x.json' is not a plan of node 'n1'",
    ),
    "node": (
        lambda s: s.message(s.cloud.event(plan_key("n2", 3))),
        f"key: '{plan_key('n2', 3)}' is not a plan of node 'n1'",
    ),
    "version": (
        lambda s: s.message(SignatureVersion="1"),
        "signature_version: signature version '1', not '2'",
    ),
    "address": (
        lambda s: s.message(SigningCertURL="https://x/y.pem"),
        "certificate_url: certificate URL 'https://x/y.pem' is not of sns.us-east-1.amazonaws.com",
    ),
    "no base64": (
        lambda s: {**s.message(), "Signature": "%"},
        "signature: the signature is not base64",
    ),
    "another text": (
        lambda s: {**s.message(), "MessageId": "new"},
        "signature: the signature does not fit the message",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_each_refusal_says_what_is_wrong(sender: Sender, name: str) -> None:
    make, words = REFUSALS[name]
    assert sender.refusal(make(sender)).startswith(words)


def test_nobody_is_asked_for_anything_before_topic_time_and_id_are_right(sender: Sender) -> None:
    done = sender.message()
    sender.check.remember(digest(done))
    for body in (sender.message(TopicArn="arn:x"), sender.at(days=1), done):
        sender.refusal(body)
    assert sender.cloud.requests == []


def test_a_certificate_counts_from_its_first_to_its_last_second(sender: Sender) -> None:
    url = sender.cloud.certificate_url
    certificate = x509.load_pem_x509_certificate(
        sender.cloud.certificates["/SimpleNotificationService-00000000.pem"]
    )
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    message = sender.message()
    for now in (begins, ends):
        SignatureCheck(TOPIC, sender.cloud.endpoint_url, lambda now=now: now).check(message)
    second = timedelta(seconds=1)
    words = f"^the certificate is valid from {re.escape(str(begins))} to {re.escape(str(ends))}$"
    for now in (begins - second, ends + second):
        with pytest.raises(SignatureError, match=words) as refused:
            SignatureCheck(TOPIC, sender.cloud.endpoint_url, lambda now=now: now).check(message)
        assert refused.value.code == "certificate_date"
    assert url in message.values()


def test_a_certificate_may_have_its_greatest_size_and_no_more(sender: Sender) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = sender.cloud.certificates["/SimpleNotificationService-00000000.pem"]
    fits = sender.cloud.add_certificate(key, text=pem.ljust(MAX_CERTIFICATE_BYTES, b"\n"))
    sender.take(sender.message(SigningCertURL=fits))
    large = sender.cloud.add_certificate(key, text=pem.ljust(MAX_CERTIFICATE_BYTES + 1, b"\n"))
    where = sender.cloud.endpoint_url + large.removeprefix("https://sns.us-east-1.amazonaws.com")
    words = f"certificate: {where} is too large for a certificate"
    assert sender.refusal(sender.message(SigningCertURL=large)) == words
    none = sender.cloud.add_certificate(key, text=b"hello")
    words = f"certificate: {none} is not a certificate"
    assert sender.refusal(sender.message(SigningCertURL=none)) == words


def test_eight_certificates_are_kept(sender: Sender) -> None:
    """A stranger who names ever new ones does not fill the memory."""
    pem = sender.cloud.certificates["/SimpleNotificationService-00000000.pem"]
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    urls = [sender.cloud.add_certificate(key, text=pem) for _ in range(9)]
    for url in urls[:8] * 2:
        sender.take(sender.message(SigningCertURL=url))
    assert len(sender.cloud.requests) == 8
    sender.take(sender.message(SigningCertURL=urls[8]))
    sender.take(sender.message(SigningCertURL=urls[8]))
    assert len(sender.cloud.requests) == 9
    sender.take(sender.message(SigningCertURL=urls[0]))
    assert len(sender.cloud.requests) == 10


def test_strangers_do_not_make_us_ask_for_certificates_without_end(sender: Sender) -> None:
    url = "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-{:08x}.pem"
    for number in range(1, 60):
        with pytest.raises(CertificateUnavailableError):
            sender.take(sender.message(SigningCertURL=url.format(0xF0000000 + number)))
    asked = len(sender.cloud.requests)
    assert asked < 30
    with pytest.raises(CertificateUnavailableError, match="too many certificates were asked for"):
        sender.take(sender.message(SigningCertURL=url.format(0xF0000099)))
    assert len(sender.cloud.requests) == asked
    assert "kept out until SNS' certificate is known: " in str(sender.check.problem())


def test_what_strangers_ask_for_keeps_out_nothing_where_sns_certificate_is_known(
    sender: Sender,
) -> None:
    sender.take(sender.message())
    url = "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-{:08x}.pem"
    for number in range(1, 60):
        with pytest.raises(CertificateUnavailableError):
            sender.take(sender.message(SigningCertURL=url.format(0xF0000000 + number)))
    assert "kept out if SNS changes its certificate: " in str(sender.check.problem())
    sender.take(sender.message())


def test_a_certificate_that_proved_a_message_stays_known_whatever_strangers_name(
    sender: Sender,
) -> None:
    sender.take(sender.message())
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    for number in range(12):
        other = sender.message(SigningCertURL=sender.cloud.add_certificate(key))
        with pytest.raises(NotificationRefusedError):
            sender.check.check(json.dumps(other).encode(), f"192.0.2.{number}")
    asked = len(sender.cloud.requests)
    sender.take(sender.message())
    assert len(sender.cloud.requests) == asked


@pytest.mark.parametrize(
    "name", ["0", "0123456", "0" * 65, "0000000g", "00000000/../0", "A0000000"]
)
def test_a_path_that_amazon_never_has_is_not_asked_for(sender: Sender, name: str) -> None:
    url = f"https://sns.us-east-1.amazonaws.com/SimpleNotificationService-{name}.pem"
    assert sender.refusal(sender.message(SigningCertURL=url)).startswith("certificate_url: ")
    assert sender.cloud.requests == []


def test_a_certificate_that_lies_elsewhere_or_nowhere_is_not_to_be_had_now(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-ffffffff.pem"
    with pytest.raises(CertificateUnavailableError, match="SimpleNotificationService-ffffffff"):
        sender.take(sender.message(SigningCertURL=url))
    opened: list[tuple[str, float]] = []

    def nobody(_: Any, address: str, timeout: float) -> Any:
        opened.append((address, timeout))
        raise urllib.error.URLError("nobody there")

    monkeypatch.setattr(urllib.request.OpenerDirector, "open", nobody)
    with pytest.raises(CertificateUnavailableError, match=f"^{re.escape(url)}: .*nobody there"):
        SignatureCheck(TOPIC).check(sender.message(SigningCertURL=url))
    with pytest.raises(CertificateUnavailableError):
        SignatureCheck(TOPIC, "http://emulator/").check(sender.message(SigningCertURL=url))
    assert opened == [(url, 5.0), (f"http://emulator/{url.rpartition('/')[2]}", 5.0)]
    refused: Any = message_signature._NoRedirect()
    assert refused.redirect_request(None, None, 302, "", {}, "https://elsewhere") is None


def test_the_clock_of_certificates_is_the_real_one(sender: Sender) -> None:
    now = SignatureCheck(TOPIC)._now()
    assert now.tzinfo is UTC
    assert abs((datetime.now(UTC) - now).total_seconds()) < 60


def test_what_is_signed_are_names_and_values_in_order() -> None:
    message = dict.fromkeys(("Type", "TopicArn", "Timestamp", "MessageId", "Message"), "v")
    message["Type"] = "Notification"
    text = b"Message\nv\nMessageId\nv\nTimestamp\nv\nTopicArn\nv\nType\nNotification\n"
    assert signed_text({**message, "Token": "not signed"}) == text
    with_subject = signed_text({**message, "Subject": "s"})
    assert with_subject == text.replace(b"Timestamp", b"Subject\ns\nTimestamp")


def test_signatures_have_no_other_signs(sender: Sender) -> None:
    message = sender.message()
    good = message["Signature"]
    assert base64.b64decode(good + "%%", validate=False)
    assert sender.refusal({**message, "Signature": good + "%%"}).endswith("is not base64")


@pytest.mark.parametrize("field", ["SignatureVersion", "SigningCertURL", "TopicArn", "Timestamp"])
def test_a_refusal_shows_the_beginning_of_what_is_long(sender: Sender, field: str) -> None:
    assert len(sender.refusal(sender.message(**{field: "1" * 100_000}))) < 300

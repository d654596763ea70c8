"""Checks SNS' message that a plan was stored, before anything in it is believed or fetched."""

from __future__ import annotations

import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import unquote_plus

from sidecar.delivery.message_signature import (
    SIGNED_FIELDS,
    SignatureCheck,
    SignatureError,
    signed_text,
)
from solver_lambda.documents.json_text import parse_json
from solver_lambda.documents.keys import plan_key
from solver_lambda.documents.reader import DocumentError, Fields, shown

# SNS takes four times as much, but S3 tells of one object in a message: 2,000 bytes, of 40 keys
# and tables. Whoever sends more lets us read it before anything proves who he is.
MAX_MESSAGE_BYTES = 64 * 1024
_MOST_NODES = 1000
FUTURE_SECONDS = 300.0
REMEMBERED_MESSAGES = 4096

_TYPES = ("Notification", "SubscriptionConfirmation")
_REQUIRED = (
    "Type",
    "MessageId",
    "TopicArn",
    "Message",
    "Timestamp",
    "SignatureVersion",
    "Signature",
    "SigningCertURL",
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_CYCLE = re.compile(r".*/(\d{1,12})\.json")


class NotificationRefusedError(Exception):
    """The message must be dropped; ``code`` is counted, the text is for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


@dataclass(frozen=True)
class Notification:
    """Holds a message that is what it says.

    Attributes:
        digest: of what SNS signed, by which a replay is known.
        plan_keys: of the plans that it announces; none for S3's test event.
        token: to confirm a subscription with, if that is what it asks.
    """

    digest: bytes
    plan_keys: tuple[str, ...] = ()
    token: str | None = None


class NotificationCheck:
    """Checks messages of one topic for one node. May be used by several threads.

    ``now`` is Unix time; an older message than ``maximum_age_seconds`` is refused.
    """

    def __init__(
        self,
        *,
        topic_arn: str,
        plans_bucket: str,
        node: str,
        signature: SignatureCheck,
        maximum_age_seconds: float,
        now: Callable[[], float],
    ) -> None:
        self._topic_arn = topic_arn
        self._plans_bucket = plans_bucket
        self._node = node
        self._signature = signature
        self._maximum_age_seconds = maximum_age_seconds
        self._now = now
        self._lock = threading.Lock()
        self._done: OrderedDict[bytes, None] = OrderedDict()

    def problem(self) -> str | None:
        """Say what may keep good messages out now, for people."""
        return self._signature.problem()

    def check(self, body: bytes, sender: str = "") -> Notification:
        """Check a message as it was delivered, by ``sender``.

        Raises:
            NotificationRefusedError: it must be dropped.
            CertificateUnavailableError: it cannot be judged now.
        """
        message = _read(body)
        # Before any fetch: a stranger must not make the sidecar ask anybody for anything.
        if message["TopicArn"] != self._topic_arn:
            raise NotificationRefusedError("topic", f"from topic {shown(message['TopicArn'])}")
        self._check_time(message["Timestamp"])
        digest = hashlib.sha256(signed_text(message)).digest()
        with self._lock:
            if digest in self._done:
                words = f"message {shown(message['MessageId'])} came before"
                raise NotificationRefusedError("replayed", words)
        try:
            self._signature.check(message, sender)
        except SignatureError as error:
            raise NotificationRefusedError(error.code, str(error)) from error
        if message["Type"] == "SubscriptionConfirmation":
            return Notification(digest, token=message["Token"])
        return Notification(digest, plan_keys=self._plan_keys(message["Message"]))

    def remember(self, digest: bytes) -> None:
        """Count the message as replayed from now on; call it when it has been dealt with."""
        with self._lock:
            self._done[digest] = None
            while len(self._done) > REMEMBERED_MESSAGES:
                self._done.popitem(last=False)

    def _check_time(self, text: str) -> None:
        try:
            at_seconds = datetime.fromisoformat(text).timestamp()
        except (ValueError, OverflowError) as error:
            raise NotificationRefusedError("timestamp", f"{shown(text)} is not a time") from error
        age_seconds = self._now() - at_seconds
        if age_seconds > self._maximum_age_seconds:
            raise NotificationRefusedError("expired", f"it is {age_seconds:.0f} s old")
        if age_seconds < -FUTURE_SECONDS:
            raise NotificationRefusedError("from_the_future", f"it is of {shown(text)}")

    def _plan_keys(self, text: str) -> tuple[str, ...]:
        try:
            event = parse_json(text, "the message", MAX_MESSAGE_BYTES, max_nodes=_MOST_NODES)
            if event.value("Event", None) == "s3:TestEvent":
                return ()
            return tuple(self._plan_key(record) for record in event.tables("Records"))
        except DocumentError as error:
            raise NotificationRefusedError(
                "not_an_event", f"not an event of S3: {error}"
            ) from error

    def _plan_key(self, record: Fields) -> str:
        s3 = record.table("s3")
        source, bucket = record.text("eventSource"), s3.table("bucket").text("name")
        if source != "aws:s3" or bucket != self._plans_bucket:
            raise NotificationRefusedError("bucket", f"about {shown(source)} {shown(bucket)}")
        event = record.text("eventName")
        if not event.startswith("ObjectCreated:"):
            raise NotificationRefusedError("event", f"{shown(event)} stores nothing")
        key = unquote_plus(s3.table("object").text("key"))
        match = _CYCLE.fullmatch(key)
        if not match or key != plan_key(self._node, int(match[1])):
            raise NotificationRefusedError(
                "key", f"{shown(key)} is not a plan of node {self._node!r}"
            )
        return key


def _read(body: bytes) -> dict[str, str]:
    if len(body) > MAX_MESSAGE_BYTES:
        raise NotificationRefusedError(
            "oversized", f"{len(body)} bytes, at most {MAX_MESSAGE_BYTES}"
        )
    try:
        message = parse_json(body, "the notification", MAX_MESSAGE_BYTES, max_nodes=_MOST_NODES)
    except DocumentError as error:
        raise NotificationRefusedError("not_json", str(error)) from error
    kind = message.value("Type", None)
    if kind not in _TYPES:
        raise NotificationRefusedError("type", f"type {shown(kind)}")
    more = ("Token", "SubscribeURL") if kind == "SubscriptionConfirmation" else ()
    texts = {key: message.value(key, None) for key in (*_REQUIRED, *more)}
    if message.has("Subject"):
        texts["Subject"] = message.value("Subject")
    for key, text in texts.items():
        if not isinstance(text, str):
            raise NotificationRefusedError("incomplete", f"{key} is missing or not a text")
        if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
            raise NotificationRefusedError("not_text", f"{key} has half a character")
        # What is signed is a list of lines, and a field must not look like two of them.
        if key in SIGNED_FIELDS[kind] and key != "Message" and _CONTROL.search(text):
            raise NotificationRefusedError("control_character", f"{key} is {shown(text)}")
    return texts

"""What comes from the cloud: SNS' notifications, S3's events, and HTTP that brings the former."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import random
import time
from collections.abc import Mapping
from typing import Any

from sidecar.delivery.message_signature import (
    CertificateUnavailableError,
    SignatureCheck,
    signed_text,
)
from sidecar.delivery.notification import NotificationCheck, NotificationRefusedError
from solver_lambda.documents.keys import parse_observation_key, plan_key
from solver_lambda.documents.reader import DocumentError
from solver_lambda.function.answering import RefusedError
from solver_lambda.function.handler import handler
from workloads.experiment.fuzz.mutators import JsonMutator, Parser
from workloads.experiment.fuzz.seeds import OBSERVATION_EVENTS, PLAN_EVENT
from workloads.experiment.signed_messages import new_key, notification, self_signed

_NODE, _BUCKET = "node-1", "bucket"
_TOPIC = "arn:aws:sns:us-east-1:123456789012:plans"
_CERTIFICATE = "/SimpleNotificationService-0123456789abcdef.pem"


class _LocalCertificate(SignatureCheck):
    """Finds the certificate here, under any of Amazon's addresses."""

    def __init__(self) -> None:
        super().__init__(_TOPIC, "http://127.0.0.1")
        self._pem = self_signed(new_key())

    def _fetch(self, url: str) -> bytes:  # noqa: ARG002
        return self._pem


class _Believing(_LocalCertificate):
    """Takes every signature for right, so that what is behind it is read, too."""

    def check(self, message: Mapping[str, Any], _sender: str = "") -> None:
        signed_text(message)


def delivery_parsers() -> list[Parser]:
    events = JsonMutator([json.dumps(event).encode() for event in OBSERVATION_EVENTS])
    return [
        _notifications(),
        Parser(
            "event",
            [json.dumps(event).encode() for event in OBSERVATION_EVENTS],
            events.changed,
            _EventReader().read,
            (RefusedError, DocumentError),
        ),
    ]


def _notifications() -> Parser:
    sender = _Sender()
    check, believing = _check(_LocalCertificate()), _check(_Believing())

    def read(data: bytes) -> None:
        check.check(data)

    def read_with_right_signature(data: bytes) -> None:
        notification = believing.check(data)
        keys = {plan_key(_NODE, int(key[-17:-5])) for key in notification.plan_keys}
        assert keys == set(notification.plan_keys)

    def read_both(data: bytes) -> None:
        # The first is what happens; what it refuses for the signature, the second goes on with.
        try:
            read(data)
        except NotificationRefusedError as error:
            if error.code != "signature":
                raise
        read_with_right_signature(data)

    documented = (NotificationRefusedError, CertificateUnavailableError)
    seeds = [sender.message(), sender.subscription()]
    return Parser("notification", seeds, sender.changed, read_both, documented, 0.5)


class _Sender:
    """Draws messages of SNS with S3's events in them."""

    def __init__(self) -> None:
        self._events = JsonMutator([json.dumps(PLAN_EVENT).encode()])
        self._messages = JsonMutator([self.message(), self.subscription()])

    def message(self, text: str | None = None) -> bytes:
        """Well-formed, with a signature that fits nothing."""
        event = json.dumps(PLAN_EVENT) if text is None else text
        nobody = {"MessageId": "00000000-0000-0000-0000-000000000000"}
        message = notification(_TOPIC, event, _CERTIFICATE, **nobody)
        signature = base64.b64encode(bytes(256)).decode()
        return json.dumps({**message, "Signature": signature}).encode()

    def subscription(self) -> bytes:
        table = json.loads(self.message())
        more = {"Type": "SubscriptionConfirmation", "Token": "t", "SubscribeURL": "https://x"}
        return json.dumps({**table, **more}).encode()

    def changed(self, draw: random.Random) -> bytes:
        """Draw a message in which the event is changed, or the message around it."""
        if draw.random() < 0.5:
            return self._messages.changed(draw)
        return self.message(self._events.changed(draw).decode("utf-8", "surrogateescape"))


class _EventReader:
    """Gives events to the function's handler, as far as it goes without S3."""

    def __init__(self) -> None:
        os.environ["SPREDS_OBSERVATIONS_BUCKET"] = "another bucket"

    def read(self, data: bytes) -> None:
        try:
            event = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise RefusedError("the service that calls the function reads JSON") from error
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            try:
                handler(event, None)
            except RefusedError as error:
                self._read_keys(event, error)
            finally:
                for line in printed.getvalue().splitlines():
                    json.loads(line)

    def _read_keys(self, event: Any, error: RefusedError) -> None:
        """The handler refuses the bucket first, and would read the keys afterwards."""
        if "bucket 'another bucket' only" not in str(error):
            raise error
        for record in event["Records"]:
            parse_observation_key(record["s3"]["object"]["key"])


def _check(signature: SignatureCheck) -> NotificationCheck:
    return NotificationCheck(
        topic_arn=_TOPIC,
        plans_bucket=_BUCKET,
        node=_NODE,
        signature=signature,
        maximum_age_seconds=86_400.0,
        now=time.time,
    )

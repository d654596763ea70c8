"""SNS as an attacker would like to be: signs messages, and serves certificates of its own."""

from __future__ import annotations

import json

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from workloads.experiment.harness.loopback_server import LoopbackServer, Question, Reply
from workloads.experiment.harness.signed_messages import (
    Message,
    new_key,
    notification,
    self_signed,
    signed,
)

TOPIC = "arn:aws:sns:us-east-1:123456789012:plans"
TEST_EVENT = json.dumps({"Service": "Amazon S3", "Event": "s3:TestEvent"})


class FalseSns(LoopbackServer):
    """Also the node's cloud, which answers nothing but certificates; a context manager.

    Attributes:
        redirects: sends elsewhere whoever asks for a certificate.
    """

    def __init__(self) -> None:
        self.redirects = False
        self._certificates: dict[str, bytes] = {}
        self.key = new_key()
        self.path = self.add(self.key)
        super().__init__(self._served)

    def _served(self, question: Question) -> Reply:
        if question.method == "PUT":
            return Reply(200)
        body = self._certificates.get(question.path)
        if body is None:
            return Reply(404)
        if self.redirects:
            return Reply(302, body, {"Location": f"/elsewhere{question.path}"})
        return Reply(200, body)

    def add(self, key: RSAPrivateKey, name: str = "sns.amazonaws.com") -> str:
        """Serve a certificate for ``name``, signed by itself; its path."""
        path = f"/SimpleNotificationService-{len(self._certificates):08x}.pem"
        self._certificates[path] = self._certificates[f"/elsewhere{path}"] = self_signed(key, name)
        return path

    def message(self, key: RSAPrivateKey | None = None, **fields: str) -> Message:
        """A notification of S3's test event, signed."""
        text = fields.pop("Message", TEST_EVENT)
        topic = fields.pop("TopicArn", TOPIC)
        return signed(notification(topic, text, self.path, **fields), key or self.key)

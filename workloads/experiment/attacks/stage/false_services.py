"""Services in place of the node's: a solver that answers as an attacker likes, and SNS."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

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
# What it is asked, and what came with it: the answer's body, and more headers.
Answer = Callable[[bytes, dict[str, str]], tuple[bytes, dict[str, str]]]


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


class HostileSolver(LoopbackServer):
    """Listens on the loopback address; a context manager.

    Attributes:
        asked: how often.
        answer: makes the answer.
    """

    def __init__(self, answer: Answer) -> None:
        self.asked = 0
        self.answer = answer
        super().__init__(self._solved)

    def _solved(self, question: Question) -> Reply:
        self.asked += 1
        return Reply(200, *self.answer(question.body, dict(question.headers)))


def forged_plan(question: bytes, reason: str, **sizes_bytes: int) -> bytes:
    """A plan that answers the observation in every formal point; servers that are not named keep
    their sizes."""
    asked: dict[str, Any] = json.loads(question)
    plan = {key: asked[key] for key in ("version", "node", "cycle", "budget_bytes")}
    plan |= {
        "kind": "spreds.plan",
        "observation_made_at_seconds": asked["made_at_seconds"],
        "made_at_seconds": time.time(),
        "method": "forged",
        "decision": "apply",
        "reason": reason,
        "servers": [
            {
                "name": server["name"],
                "maxmemory_before_bytes": server["maxmemory_bytes"],
                "maxmemory_bytes": sizes_bytes.get(server["name"], server["maxmemory_bytes"]),
                "reason": "forged",
            }
            for server in asked["servers"]
        ],
    }
    return json.dumps(plan).encode()

"""The emulator's SNS does what the guide says, where the tests of the loop rely on it."""

from __future__ import annotations

import base64
import json
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256

from solver_lambda.documents.keys import plan_key
from workloads.local_node import wait_until

SIGNED = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")


class Receiver:
    """An HTTP endpoint that answers with these statuses, the last one from then on."""

    def __init__(self, *statuses: int) -> None:
        self.received: list[tuple[dict[str, str], dict[str, Any]]] = []
        remaining = list(statuses)
        received = self.received

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(remaining.pop(0) if len(remaining) > 1 else remaining[0])
                self.end_headers()
                headers = {name.lower(): value for name, value in self.headers.items()}
                received.append((headers, json.loads(body)))

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/"

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def topic(deployed: Any) -> str:
    return str(deployed.outputs["PlansTopicArn"])


def subscribe(deployed: Any, topic: str, receiver: Receiver, node: str) -> None:
    sns, sqs = deployed.emulator.client("sns"), deployed.emulator.client("sqs")
    dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]
    policy = {"Records": {"s3": {"object": {"key": [{"prefix": f"plans/{node}/"}]}}}}
    sns.subscribe(
        TopicArn=topic,
        Protocol="http",
        Endpoint=receiver.url,
        Attributes={
            "FilterPolicyScope": "MessageBody",
            "FilterPolicy": json.dumps(policy),
            "RedrivePolicy": json.dumps({"deadLetterTargetArn": arn["QueueArn"]}),
        },
    )
    wait_until(lambda: receiver.received, lambda: "no confirmation")
    headers, message = receiver.received.pop()
    assert headers["x-amz-sns-message-type"] == message["Type"] == "SubscriptionConfirmation"
    for _ in range(2):  # a message may come twice
        sns.confirm_subscription(TopicArn=topic, Token=message["Token"])


@pytest.fixture
def receiver(request: pytest.FixtureRequest) -> Iterator[Receiver]:
    made = Receiver(*request.param)
    yield made
    made.stop()


def put_plan(deployed: Any, node: str) -> None:
    deployed.emulator.client("s3").put_object(
        Bucket=deployed.outputs["PlansBucket"], Key=plan_key(node, 1), Body=b"{}"
    )


@pytest.mark.parametrize("receiver", [(200, 500, 503, 200)], indirect=True)
def test_a_failed_delivery_is_tried_again_with_the_same_signed_message(
    deployed: Any, topic: str, receiver: Receiver
) -> None:
    subscribe(deployed, topic, receiver, "again")
    put_plan(deployed, "somebody-else")
    put_plan(deployed, "again")
    wait_until(lambda: len(receiver.received) == 3, lambda: receiver.received)
    headers, message = receiver.received[-1]
    assert [received[1] for received in receiver.received] == [message] * 3
    assert headers["x-amz-sns-topic-arn"] == topic
    assert headers["x-amz-sns-message-id"] == message["MessageId"]
    assert headers["x-amz-sns-subscription-arn"].startswith(topic)
    assert message["SignatureVersion"] == "2"
    path = urlsplit(message["SigningCertURL"]).path
    with urllib.request.urlopen(f"{deployed.emulator.endpoint_url}{path}") as answer:
        key = x509.load_pem_x509_certificate(answer.read()).public_key()
    assert isinstance(key, RSAPublicKey)
    text = "".join(f"{name}\n{message[name]}\n" for name in SIGNED)
    key.verify(base64.b64decode(message["Signature"]), text.encode(), PKCS1v15(), SHA256())


@pytest.mark.parametrize("receiver", [(200, 403)], indirect=True)
def test_a_refused_delivery_goes_to_the_dead_letter_queue_at_once(
    deployed: Any, topic: str, receiver: Receiver
) -> None:
    subscribe(deployed, topic, receiver, "refusing")
    put_plan(deployed, "refusing")
    sqs = deployed.emulator.client("sqs")
    dead = sqs.get_queue_url(QueueName="dead")["QueueUrl"]
    (letter,) = sqs.receive_message(QueueUrl=dead, WaitTimeSeconds=20)["Messages"]
    assert json.loads(letter["Body"])["MessageId"] == receiver.received[0][1]["MessageId"]
    assert len(receiver.received) == 1

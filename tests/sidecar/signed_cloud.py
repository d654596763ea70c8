"""AWS on this machine, with messages that are signed as SNS signs them."""

from __future__ import annotations

import base64
import io
import json
import threading
import uuid
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote_plus

import boto3
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from moto.core.config import default_user_config
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

from infra.emulator.signer import self_signed

FORBIDDEN = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


class _Silent(WSGIRequestHandler):
    """Logs nothing: the log's stream may be a test's captured one, closed by then."""

    def log(self, *args: Any) -> None:
        """Called for each request."""


class SignedCloud:
    """moto's S3, SNS and SQS on one port, and SNS' signing certificates under Amazon's paths.

    Attributes:
        topic_arn, plans_bucket, observations_bucket, queue_url: that exist.
        requests: paths and bodies of all that came.
        forbidden: paths begin so that S3 refuses to everybody.
    """

    def __init__(self) -> None:
        self.certificates: dict[str, bytes] = {}
        self.requests: list[tuple[str, bytes]] = []
        self.forbidden: tuple[str, ...] = ()
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.certificate_url = self.add_certificate(self._key)
        # A function that S3 starts does nothing, in place of a long search for Docker.
        default_user_config["lambda"]["use_docker"] = False
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._server = make_server(
            "127.0.0.1", 0, self._answer, threaded=True, request_handler=_Silent
        )
        self.endpoint_url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.s3, self.sns, self.sqs = (self.client(name) for name in ("s3", "sns", "sqs"))
        self.observations_bucket, self.plans_bucket = "observations", "plans"
        for bucket in (self.observations_bucket, self.plans_bucket):
            self.s3.create_bucket(Bucket=bucket)
        self.topic_arn: str = self.sns.create_topic(Name="plans")["TopicArn"]
        self.queue_url: str = self.sqs.create_queue(QueueName="n1")["QueueUrl"]

    def client(self, service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=self.endpoint_url,
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )

    def add_certificate(
        self,
        key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey,
        days: tuple[int, int] = (-1, 1),
        text: bytes | None = None,
    ) -> str:
        """Serve a certificate that is valid from and until so many days from now; its URL."""
        certificate = self_signed(key, "sns.amazonaws.com", days)
        pem = text or certificate.public_bytes(Encoding.PEM)
        path = f"/SimpleNotificationService-{len(self.certificates):08x}.pem"
        self.certificates[path] = pem
        return f"https://sns.us-east-1.amazonaws.com{path}"

    def sign(self, message: dict[str, Any], key: rsa.RSAPrivateKey | None = None) -> dict[str, Any]:
        """The message with its signature, after the SNS developer guide."""
        if message["Type"] == "Notification":
            names = ["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"]
        else:
            names = ["Message", "MessageId", "SubscribeURL", "Timestamp", "Token"]
            names += ["TopicArn", "Type"]
        lines = [line for name in names if name in message for line in (name, message[name])]
        text = ("\n".join(lines) + "\n").encode()
        signature = (key or self._key).sign(text, PKCS1v15(), SHA256())
        return {**message, "Signature": base64.b64encode(signature).decode()}

    def message(self, text: str, **fields: Any) -> dict[str, Any]:
        """A notification, not yet signed."""
        return {
            "Type": "Notification",
            "MessageId": str(uuid.uuid4()),
            "TopicArn": self.topic_arn,
            "Message": text,
            "Timestamp": datetime.now(UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z"),
            "SignatureVersion": "2",
            "SigningCertURL": self.certificate_url,
            **fields,
        }

    def event(self, key: str, **changes: str) -> str:
        """S3's event for a stored plan."""
        record = {
            "eventSource": "aws:s3",
            "eventName": changes.get("event", "ObjectCreated:Put"),
            "s3": {
                "bucket": {"name": changes.get("bucket", self.plans_bucket)},
                "object": {"key": quote_plus(key)},
            },
        }
        return json.dumps({"Records": [record]})

    def controller(self, delivery: str, kind: str = "lambda", more: str = "") -> str:
        """Return the ``[controller]`` of a node that uses it."""
        return (
            f'[controller]\nkind = "{kind}"\nobservations_bucket = "observations"\n'
            f'plans_bucket = "plans"\ntopic_arn = "{self.topic_arn}"\n'
            f'endpoint_url = "{self.endpoint_url}"\n{delivery}\n{more}\n'
        )

    def _answer(self, environ: Any, start_response: Any) -> Any:
        pem = self.certificates.get(environ["PATH_INFO"])
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        self.requests.append((environ["PATH_INFO"], body))
        if environ["PATH_INFO"].startswith(self.forbidden):
            start_response("403 Forbidden", [("Content-Length", str(len(FORBIDDEN)))])
            return [FORBIDDEN]
        if pem is None:
            return self._moto(environ, start_response)
        start_response("200 OK", [("Content-Length", str(len(pem)))])
        return [pem]

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

"""SNS as an attacker would like to be: signs messages, and serves certificates of its own."""

from __future__ import annotations

import base64
import json
import uuid
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from workloads.experiment.attacks.stage.hostile_solver import LoopbackServer, QuietHandler

TOPIC = "arn:aws:sns:us-east-1:123456789012:plans"
HOST = "sns.us-east-1.amazonaws.com"
TEST_EVENT = json.dumps({"Service": "Amazon S3", "Event": "s3:TestEvent"})
_SIGNED = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")

Message = dict[str, str]


class FalseSns(LoopbackServer):
    """Also the node's cloud, which answers nothing but certificates; a context manager.

    Attributes:
        redirects: sends elsewhere whoever asks for a certificate.
    """

    def __init__(self) -> None:
        self.redirects = False
        self._certificates: dict[str, bytes] = {}
        self.key = generate_private_key(public_exponent=65537, key_size=2048)
        self.path = self.add(self.key)
        sns = self

        class Handler(QuietHandler, BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = sns._certificates.get(self.path)
                if body is not None and sns.redirects:
                    self.send_response(302)
                    self.send_header("Location", f"/elsewhere{self.path}")
                else:
                    self.send_response(404 if body is None else 200)
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def do_PUT(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

        super().__init__(Handler)

    def add(self, key: RSAPrivateKey, name: str = "sns.amazonaws.com") -> str:
        """Serve a certificate for ``name``, signed by itself; its path."""
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .sign(key, SHA256())
        )
        path = f"/SimpleNotificationService-{len(self._certificates):08x}.pem"
        pem = certificate.public_bytes(Encoding.PEM)
        self._certificates[path] = self._certificates[f"/elsewhere{path}"] = pem
        return path

    def message(self, key: RSAPrivateKey | None = None, **fields: str) -> Message:
        """A notification of S3's test event, signed."""
        message = {
            "Type": "Notification",
            "MessageId": str(uuid.uuid4()),
            "TopicArn": TOPIC,
            "Message": TEST_EVENT,
            "Timestamp": datetime.now(UTC).isoformat(),
            "SignatureVersion": "2",
            "SigningCertURL": f"https://{HOST}{self.path}",
            **fields,
        }
        text = "".join(f"{name}\n{message[name]}\n" for name in _SIGNED if name in message)
        signature = (key or self.key).sign(text.encode(), PKCS1v15(), SHA256())
        return {**message, "Signature": base64.b64encode(signature).decode()}

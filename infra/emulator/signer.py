"""Signs messages as SNS does, with a key and a certificate of our own."""

from __future__ import annotations

import base64
import datetime
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

SIGNED_KEYS = ("Message", "MessageId", "SubscribeURL", "Subject", "Timestamp", "Token", "TopicArn")

Message = dict[str, Any]


def self_signed(
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey,
    host: str,
    days: tuple[int, int] = (-1, 365),
) -> x509.Certificate:
    """A certificate for ``host``, valid from and until so many days from now."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + datetime.timedelta(days=days[0]))
        .not_valid_after(now + datetime.timedelta(days=days[1]))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(key, hashes.SHA256())
    )


class Signer:
    """An RSA key and its self-signed certificate."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        certificate = self_signed(self._key, "sns.amazonaws.com")
        self.certificate = certificate.public_bytes(serialization.Encoding.PEM)
        self.path = f"/SimpleNotificationService-{certificate.serial_number:040x}.pem"

    def sign(self, message: Message, version: str, region: str) -> Message:
        """``message`` with its signature over SNS' canonical form of the keys that count."""
        text = "".join(f"{key}\n{message[key]}\n" for key in SIGNED_KEYS if key in message)
        text += f"Type\n{message['Type']}\n"
        digest = hashes.SHA256() if version == "2" else hashes.SHA1()  # noqa: S303 as SNS' version 1
        signature = self._key.sign(text.encode(), padding.PKCS1v15(), digest)
        return {
            **message,
            "SignatureVersion": version,
            "Signature": base64.b64encode(signature).decode(),
            "SigningCertURL": f"https://sns.{region}.amazonaws.com{self.path}",
        }

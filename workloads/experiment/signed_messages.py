"""Makes messages as SNS signs them, by a key of our own and a certificate for its name."""

from __future__ import annotations

import base64
import json
import uuid
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

HOST = "sns.us-east-1.amazonaws.com"
_SIGNED = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")

Message = dict[str, str]


def new_key(bits: int = 2048) -> RSAPrivateKey:
    """Make a key as long as SNS' are, unless it is said otherwise."""
    return generate_private_key(public_exponent=65537, key_size=bits)


def self_signed(key: RSAPrivateKey, name: str = "sns.amazonaws.com") -> bytes:
    """A certificate of today, PEM."""
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now, day = datetime.now(UTC), timedelta(days=1)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject)
    builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - day).not_valid_after(now + day)
    return builder.sign(key, SHA256()).public_bytes(Encoding.PEM)


def notification(topic_arn: str, text: str, certificate: str, **fields: str) -> Message:
    """Return what SNS sends, but for the signature; ``certificate`` is a path at its host."""
    return {
        "Type": "Notification",
        "MessageId": str(uuid.uuid4()),
        "TopicArn": topic_arn,
        "Message": text,
        "Timestamp": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "SignatureVersion": "2",
        "SigningCertURL": f"https://{HOST}{certificate}",
        **fields,
    }


def signed(message: Message, key: RSAPrivateKey) -> Message:
    """Return the message with its signature."""
    text = "".join(f"{name}\n{message[name]}\n" for name in _SIGNED if name in message)
    signature = key.sign(text.encode(), PKCS1v15(), SHA256())
    return {**message, "Signature": base64.b64encode(signature).decode()}


def stored(bucket: str, key: str) -> str:
    """S3's event that an object was put."""
    where = {"bucket": {"name": bucket}, "object": {"key": key}}
    record = {"eventSource": "aws:s3", "eventName": "ObjectCreated:Put", "s3": where}
    return json.dumps({"Records": [record]})

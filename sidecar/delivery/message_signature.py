"""Signatures of SNS messages, version 2 (RSA with SHA-256).

After AWS, "Verifying the signatures of Amazon SNS messages" (SNS Developer Guide): the signed text
is some of the message's fields in alphabetical order, each name and value on lines of their own.
"""

from __future__ import annotations

import base64
import binascii
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256

CERTIFICATE_URL = re.compile(
    r"https://sns\.[a-z0-9-]+\.amazonaws\.com(\.cn)?/SimpleNotificationService-[0-9a-f]+\.pem"
)
MAX_CERTIFICATE_BYTES = 64 * 1024
FETCH_SECONDS = 5.0
_CACHED_CERTIFICATES = 8

_SIGNED_FIELDS = {
    # Subject is signed only where there is one.
    "Notification": ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"),
    "SubscriptionConfirmation": (
        "Message",
        "MessageId",
        "SubscribeURL",
        "Timestamp",
        "Token",
        "TopicArn",
        "Type",
    ),
}


class SignatureError(Exception):
    """The message is not what its signature covers; ``code`` is counted."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class CertificateUnavailableError(Exception):
    """The certificate cannot be fetched now; a later delivery may succeed."""


def signed_text(message: Mapping[str, Any]) -> bytes:
    """What SNS signs of a message."""
    fields = _SIGNED_FIELDS[message["Type"]]
    return "".join(f"{key}\n{message[key]}\n" for key in fields if key in message).encode()


class SignatureCheck:
    """Checks signatures; fetches each certificate once.

    ``endpoint_url`` is an emulator's address: certificates, whose URLs must still be Amazon's, are
    fetched from the same path there.
    """

    def __init__(
        self,
        endpoint_url: str | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._endpoint_url = endpoint_url
        self._now = now
        self._certificates: dict[str, x509.Certificate] = {}

    def check(self, message: Mapping[str, Any]) -> None:
        """Check a message whose ``Type`` is a key of the signed fields.

        Raises:
            SignatureError: it must be refused.
            CertificateUnavailableError: it cannot be judged now.
        """
        if message["SignatureVersion"] != "2":
            raise SignatureError(
                "signature_version", f"signature version {message['SignatureVersion']!r}, not '2'"
            )
        url = message["SigningCertURL"]
        if not CERTIFICATE_URL.fullmatch(url):
            raise SignatureError("certificate_url", f"certificate URL {url!r} is not Amazon's")
        try:
            signature = base64.b64decode(message["Signature"], validate=True)
        except (binascii.Error, ValueError) as error:
            raise SignatureError("signature", "the signature is not base64") from error
        certificate = self._certificate(url)
        now = self._now()
        if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
            raise SignatureError(
                "certificate_date",
                f"the certificate is valid from {certificate.not_valid_before_utc} "
                f"to {certificate.not_valid_after_utc}",
            )
        key = certificate.public_key()
        if not isinstance(key, RSAPublicKey):
            raise SignatureError("certificate", "the certificate's key is not RSA")
        try:
            key.verify(signature, signed_text(message), PKCS1v15(), SHA256())
        except InvalidSignature as error:
            raise SignatureError("signature", "the signature does not fit the message") from error

    def _certificate(self, url: str) -> x509.Certificate:
        known = self._certificates.get(url)
        if known is not None:
            return known
        try:
            certificate = x509.load_pem_x509_certificate(self._fetch(url))
        except ValueError as error:
            raise SignatureError("certificate", f"{url} is not a certificate") from error
        if len(self._certificates) >= _CACHED_CERTIFICATES:
            self._certificates.clear()
        self._certificates[url] = certificate
        return certificate

    def _fetch(self, url: str) -> bytes:
        if self._endpoint_url:
            url = self._endpoint_url.rstrip("/") + urlsplit(url).path
        try:
            # The address is Amazon's by the pattern, or the operator's emulator.
            with _OPENER.open(url, timeout=FETCH_SECONDS) as answer:
                body = answer.read(MAX_CERTIFICATE_BYTES + 1)
        except (urllib.error.URLError, OSError, ValueError) as error:
            raise CertificateUnavailableError(f"{url}: {error}") from error
        if len(body) > MAX_CERTIFICATE_BYTES:
            raise SignatureError("certificate", f"{url} is too large for a certificate")
        return bytes(body)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A certificate that lies elsewhere is not Amazon's."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)

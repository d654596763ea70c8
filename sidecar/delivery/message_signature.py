"""Checks signatures of SNS messages, version 2 (RSA with SHA-256).

After AWS, "Verifying the signatures of Amazon SNS messages" (SNS Developer Guide): the signed text
is some of the message's fields in alphabetical order, each name and value on lines of their own.
"""

from __future__ import annotations

import base64
import binascii
import logging
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
from cryptography.hazmat.primitives.hashes import SHA256

from sidecar.config.addresses import shown_url
from sidecar.delivery.signing_certificate import (
    CertificateError,
    CertificateFetches,
    Signer,
    TooManyFetchesError,
    signing_key,
    system_roots,
)
from solver_lambda.documents.reader import shown

log = logging.getLogger(__name__)

CERTIFICATE_PATH = re.compile(r"/SimpleNotificationService-[0-9a-f]{8,64}\.pem")
MAX_CERTIFICATE_BYTES = 64 * 1024
FETCH_SECONDS = 5.0
_CACHED_CERTIFICATES = 8

SIGNED_FIELDS = {
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
    """Return what SNS signs of a message: unambiguous where no field but ``Message`` has a line
    break."""
    fields = SIGNED_FIELDS[message["Type"]]
    return "".join(f"{key}\n{message[key]}\n" for key in fields if key in message).encode()


class SignatureCheck:
    """Checks signatures of one topic's messages; fetches each certificate once.

    ``emulator_url``: certificates, whose URLs must still be Amazon's, are fetched from the same
    path there, and need nobody who vouches for them. ``roots`` vouch for Amazon's.
    """

    def __init__(
        self,
        topic_arn: str,
        emulator_url: str | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        roots: Callable[[], list[x509.Certificate]] = system_roots,
    ) -> None:
        self._signer = Signer.of(topic_arn)
        self._emulator_url = emulator_url
        self._now = now
        self._roots = roots
        # Certificates that proved a message are kept apart: no stranger can make them go.
        self._proven: dict[str, list[x509.Certificate]] = {}
        self._fetched: dict[str, list[x509.Certificate]] = {}
        self._fetches = CertificateFetches(now)
        if emulator_url is not None:
            log.warning(
                "SNS is an emulator at %s: whoever answers there can sign notifications",
                shown_url(emulator_url),
            )

    def problem(self) -> str | None:
        """Say what may keep good messages out now, for people."""
        return self._fetches.problem(is_known=bool(self._proven))

    def check(self, message: Mapping[str, Any], sender: str = "") -> None:
        """Check a message whose ``Type`` is a key of the signed fields; ``sender`` delivered it.

        Raises:
            SignatureError: it must be refused.
            CertificateUnavailableError: it cannot be judged now.
        """
        if message["SignatureVersion"] != "2":
            raise SignatureError(
                "signature_version",
                f"signature version {shown(message['SignatureVersion'])}, not '2'",
            )
        url = message["SigningCertURL"]
        here = f"https://{self._signer.host}"
        if not url.startswith(here) or not CERTIFICATE_PATH.fullmatch(url[len(here) :]):
            words = f"certificate URL {shown(url)} is not of {self._signer.host}"
            raise SignatureError("certificate_url", words)
        try:
            signature = base64.b64decode(message["Signature"], validate=True)
        except (binascii.Error, ValueError) as error:
            raise SignatureError("signature", "the signature is not base64") from error
        roots = None if self._emulator_url else self._roots
        known = self._proven.get(url) or self._fetched.get(url)
        chain = known or self._fetch_chain(url, sender)
        try:
            key = signing_key(chain, self._signer, self._now(), roots)
            key.verify(signature, signed_text(message), PKCS1v15(), SHA256())
        except CertificateError as error:
            raise SignatureError(error.code, str(error)) from error
        except InvalidSignature as error:
            raise SignatureError("signature", "the signature does not fit the message") from error
        if known is None:
            self._fetches.was_good(sender)
        if url not in self._proven:
            _keep(self._proven, url, chain)

    def _fetch_chain(self, url: str, sender: str) -> list[x509.Certificate]:
        # A topic changes its certificate once in months, and SNS sends again what is deferred.
        try:
            self._fetches.count(sender)
        except TooManyFetchesError as error:
            raise CertificateUnavailableError(f"{url}: {error}") from error
        try:
            chain = x509.load_pem_x509_certificates(self._fetch(url))
        except ValueError as error:
            raise SignatureError("certificate", f"{url} is not a certificate") from error
        _keep(self._fetched, url, chain)
        return chain

    def _fetch(self, url: str) -> bytes:
        handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
        if self._emulator_url:
            url = self._emulator_url.rstrip("/") + urlsplit(url).path
            # Imported here: it needs boto3, which only a cloud needs.
            from sidecar.storage.emulator_guard import GuardedHandler

            handlers.append(GuardedHandler(self._emulator_url))
        opener = urllib.request.build_opener(*handlers)
        try:
            # The address is Amazon's, whose TLS is checked, or the operator's emulator.
            with opener.open(url, timeout=FETCH_SECONDS) as answer:
                body = answer.read(MAX_CERTIFICATE_BYTES + 1)
        except (urllib.error.URLError, OSError, ValueError) as error:
            raise CertificateUnavailableError(f"{url}: {error}") from error
        if len(body) > MAX_CERTIFICATE_BYTES:
            raise SignatureError("certificate", f"{url} is too large for a certificate")
        return bytes(body)


def _keep(
    certificates: dict[str, list[x509.Certificate]], url: str, chain: list[x509.Certificate]
) -> None:
    if len(certificates) >= _CACHED_CERTIFICATES:
        certificates.clear()
    certificates[url] = chain


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A certificate that lies elsewhere is not Amazon's."""

    def redirect_request(self, *_: Any) -> None:
        return None

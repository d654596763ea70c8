"""Whose certificates sign the messages of one SNS topic.

Amazon serves the certificate alone, without those that lead to a root, from ``sns.REGION.SUFFIX``.
It is issued to ``sns.SUFFIX``, or in some regions to ``sns-signing.REGION.SUFFIX`` or
``sns-REGION.SUFFIX`` (AWS SDK for Java, ``SnsHostProvider``). So the TLS of the download says that
it is Amazon's, and the chain is checked where it comes with it.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

LEAST_KEY_BITS = 2048
_SUFFIXES = {"aws": "amazonaws.com", "aws-us-gov": "amazonaws.com", "aws-cn": "amazonaws.com.cn"}
# Both of its regions have the certificate of one.
_GOVERNMENT_NAME = "sns-us-gov-west-1.amazonaws.com"


class CertificateError(Exception):
    """It is not to be believed; ``code`` is counted."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Signer:
    """Who signs for a topic.

    Attributes:
        host: where its certificates lie, and nowhere else.
        names: one of them is in each.
    """

    host: str
    names: frozenset[str]

    @classmethod
    def of(cls, topic_arn: str) -> Signer:
        """By partition and region of an ARN that the configuration has checked."""
        _, partition, _, region, *_ = topic_arn.split(":")
        suffix = _SUFFIXES[partition]
        host = f"sns.{region}.{suffix}"
        names = {host, f"sns.{suffix}", f"sns-{region}.{suffix}", f"sns-signing.{region}.{suffix}"}
        if partition == "aws-us-gov":
            names.add(_GOVERNMENT_NAME)
        return cls(host, frozenset(names))


def system_roots() -> list[x509.Certificate]:
    """Those by which this machine believes any server."""
    found = ssl.create_default_context().get_ca_certs(binary_form=True)
    return [x509.load_der_x509_certificate(one) for one in found]


def signing_key(
    chain: Sequence[x509.Certificate],
    signer: Signer,
    now: datetime,
    roots: Callable[[], list[x509.Certificate]] | None,
) -> RSAPublicKey:
    """The key of the first one, which the others lead to one of the ``roots``. ``None`` for the
    roots: an emulator's own, which need not lead anywhere.

    Raises:
        CertificateError: it is not SNS' certificate for this topic.
    """
    leaf = chain[0]
    begins, ends = leaf.not_valid_before_utc, leaf.not_valid_after_utc
    if not begins <= now <= ends:
        words = f"the certificate is valid from {begins} to {ends}"
        raise CertificateError("certificate_date", words)
    key = leaf.public_key()
    if not isinstance(key, RSAPublicKey) or key.key_size < LEAST_KEY_BITS:
        words = f"the certificate's key is not RSA with {LEAST_KEY_BITS} bits or more"
        raise CertificateError("certificate", words)
    names = sorted(_names(leaf) & signer.names)
    if not names:
        words = f"the certificate is not for {signer.host}, but for {_listed(_names(leaf))}"
        raise CertificateError("certificate_name", words)
    if roots is None:
        return key
    if leaf.issuer == leaf.subject:
        raise CertificateError("certificate_chain", "the certificate is signed by itself")
    if _is_authority(leaf):
        raise CertificateError("certificate_chain", "the certificate is an authority's")
    if len(chain) > 1:
        _check_chain(chain, names[0], now, roots)
    return key


def _check_chain(
    chain: Sequence[x509.Certificate],
    name: str,
    now: datetime,
    roots: Callable[[], list[x509.Certificate]],
) -> None:
    builder = PolicyBuilder().time(now.replace(tzinfo=None))
    try:
        builder = builder.store(Store(roots()))
        builder.build_server_verifier(x509.DNSName(name)).verify(chain[0], list(chain[1:]))
    except (VerificationError, ValueError) as error:
        words = f"the certificate's chain leads to nobody that this machine believes: {error}"
        raise CertificateError("certificate_chain", words) from error


def _names(certificate: x509.Certificate) -> set[str]:
    """The subject's name, and the other ones."""
    found = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    names = {str(one.value).lower() for one in found}
    try:
        more = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return names
    return names | {name.lower() for name in more.value.get_values_for_type(x509.DNSName)}


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        found = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    except x509.ExtensionNotFound:
        return False
    return found.value.ca


def _listed(names: set[str]) -> str:
    return ascii(", ".join(sorted(names)))[1:-1] or "nobody"

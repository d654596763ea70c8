"""Knows whose certificates sign the messages of one SNS topic.

Amazon serves the certificate alone, without those that lead to a root, from ``sns.REGION.SUFFIX``.
It is issued to ``sns.SUFFIX``, or in some regions to ``sns-signing.REGION.SUFFIX`` or
``sns-REGION.SUFFIX`` (AWS SDK for Java, ``SnsHostProvider``). So the TLS of the download says that
it is Amazon's, and the chain is checked where it comes with it.

``CertificateFetches`` bounds how often strangers may make the sidecar fetch a certificate, so that
none keeps out the others.

Whoever reaches the port can name a certificate that nobody has fetched yet.
"""

from __future__ import annotations

import ipaddress
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

MOST_OF_ONE = 5
MOST_SENDERS = 64
WINDOW = timedelta(minutes=1)
_NETWORK_BITS = {4: 24, 6: 48}


class TooManyFetchesError(Exception):
    """This one must wait; one sentence."""


class CertificateFetches:
    """Allows so many in a minute of each sender, and of so many senders. If there are more senders,
    one of the network with the most gives up its place, unless the new one's network would have as
    many.

    Any thread may call. A sender is an address, or any other name of who delivers.
    """

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._since = now()
        self._counts: dict[str, int] = {}
        self._refused: tuple[datetime, str] | None = None

    def count(self, sender: str) -> None:
        """Count a sender's fetch. Raises TooManyFetchesError: nothing was counted."""
        with self._lock:
            now = self._now()
            if now - self._since >= WINDOW:
                self._since, self._counts = now, {}
            if not self._has_place(sender) or self._counts.get(sender, 0) >= MOST_OF_ONE:
                self._refused = now, sender
                raise TooManyFetchesError("too many certificates were asked for")
            self._counts[sender] = self._counts.get(sender, 0) + 1

    def was_good(self, sender: str) -> None:
        """The last one that was counted proved a message: it counts no more."""
        with self._lock:
            if self._counts.get(sender, 0):
                self._counts[sender] -= 1

    def problem(self, *, is_known: bool) -> str | None:
        """Say for people that SNS' own certificate may be kept out, as strangers' were refused
        within the last minute; else ``None``. SNS' own must be fetched if it is not known yet, or
        if SNS changes it."""
        refused = self._refused
        if refused is None or self._now() - refused[0] >= WINDOW:
            return None
        kept_out = (
            "if SNS changes its certificate" if is_known else "until SNS' certificate is known"
        )
        return (
            f"notifications: strangers ask for too many certificates, the last one from "
            f"{refused[1] or 'the queue'}, so plans may be kept out {kept_out}: let only SNS reach "
            "controller.listen, or take the queue"
        )

    def _has_place(self, sender: str) -> bool:
        if sender in self._counts or len(self._counts) < MOST_SENDERS:
            return True
        networks = Counter(map(_network_of, self._counts))
        crowd, most = networks.most_common(1)[0]
        if networks[_network_of(sender)] + 1 >= most:
            return False
        del self._counts[next(one for one in self._counts if _network_of(one) == crowd)]
        return True


def _network_of(sender: str) -> str:
    try:
        address = ipaddress.ip_interface(sender).ip
    except ValueError:
        return sender
    return str(ipaddress.ip_network((address, _NETWORK_BITS[address.version]), strict=False))


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
    """Tells who signs for a topic.

    Attributes:
        host: where its certificates lie, and nowhere else.
        names: one of them is in each.
    """

    host: str
    names: frozenset[str]

    @classmethod
    def of(cls, topic_arn: str) -> Signer:
        """Find the signer by partition and region of an ARN that the configuration has checked."""
        _, partition, _, region, *_ = topic_arn.split(":")
        suffix = _SUFFIXES[partition]
        host = f"sns.{region}.{suffix}"
        names = {host, f"sns.{suffix}", f"sns-{region}.{suffix}", f"sns-signing.{region}.{suffix}"}
        if partition == "aws-us-gov":
            names.add(_GOVERNMENT_NAME)
        return cls(host, frozenset(names))


def system_roots() -> list[x509.Certificate]:
    """Return those by which this machine believes any server."""
    found = ssl.create_default_context().get_ca_certs(binary_form=True)
    return [x509.load_der_x509_certificate(one) for one in found]


def signing_key(
    chain: Sequence[x509.Certificate],
    signer: Signer,
    now: datetime,
    roots: Callable[[], list[x509.Certificate]] | None,
) -> RSAPublicKey:
    """Return the key of the first one, which the others lead to one of the ``roots``. ``None`` for
    the roots: an emulator's own, which need not lead anywhere.

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
    """Return the subject's name, and the other ones."""
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

"""Tests whose certificates sign messages: by host, name, key, date and chain."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from sidecar.config.controller_config import CloudConfig
from sidecar.delivery.message_signature import SignatureCheck, SignatureError
from sidecar.delivery.notification import NotificationRefusedError
from sidecar.delivery.signing_certificate import (
    CertificateError,
    Signer,
    signing_key,
    system_roots,
)
from tests.sidecar.delivery.test_notification_check import TOPIC, Sender
from tests.sidecar.signed_cloud import SignedCloud

NOW = datetime.now(UTC)
SIGNER = Signer.of(TOPIC)
HOST = "sns.us-east-1.amazonaws.com"


def new_key(bits: int = 2048) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


KEY, AUTHORITY_KEY = new_key(), new_key()


def certificate(
    name: str | None = "sns.amazonaws.com",
    issuer: str = "authority",
    key: rsa.RSAPrivateKey = KEY,
    signed_by: rsa.RSAPrivateKey = AUTHORITY_KEY,
    more_names: tuple[str, ...] = (),
    is_authority: bool | None = False,
    ends: timedelta = timedelta(days=9),
) -> x509.Certificate:
    """Make a certificate as an authority would sign it."""
    common = [x509.NameAttribute(x509.NameOID.COMMON_NAME, name)] if name else []
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(common))
        .issuer_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(days=9))
        .not_valid_after(NOW + ends)
    )
    key_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(signed_by.public_key())
    builder = builder.add_extension(key_id, critical=False)
    if more_names:
        names = x509.SubjectAlternativeName([x509.DNSName(one) for one in more_names])
        builder = builder.add_extension(names, critical=False)
    if is_authority is not None:
        builder = builder.add_extension(x509.BasicConstraints(is_authority, None), critical=True)
    if is_authority:
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        builder = builder.add_extension(usage, critical=True)
        own_id = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        builder = builder.add_extension(own_id, critical=False)
    else:
        use = x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.SERVER_AUTH])
        builder = builder.add_extension(use, critical=False)
    return builder.sign(signed_by, SHA256())


def roots(*found: x509.Certificate) -> Any:
    return lambda: list(found)


ROOT = certificate("authority", key=AUTHORITY_KEY, is_authority=True)
MIDDLE_KEY = new_key()
MIDDLE = certificate("middle", key=MIDDLE_KEY, is_authority=True)
LEAF = certificate(
    issuer="middle", signed_by=MIDDLE_KEY, more_names=("sns.amazonaws.com",), is_authority=None
)


def test_the_host_and_the_names_are_those_of_the_topics_region_and_partition() -> None:
    assert SIGNER.host == HOST
    assert SIGNER.names == {
        HOST,
        "sns.amazonaws.com",
        "sns-us-east-1.amazonaws.com",
        "sns-signing.us-east-1.amazonaws.com",
    }
    china = Signer.of("arn:aws-cn:sns:cn-north-1:123456789012:plans")
    assert china.host == "sns.cn-north-1.amazonaws.com.cn"
    assert "sns-cn-north-1.amazonaws.com.cn" in china.names
    government = Signer.of("arn:aws-us-gov:sns:us-gov-east-1:123456789012:plans")
    assert government.host == "sns.us-gov-east-1.amazonaws.com"
    assert "sns-us-gov-west-1.amazonaws.com" in government.names


@pytest.mark.parametrize(
    "good",
    [
        certificate(),
        certificate("SNS.amazonaws.com"),
        certificate(None, more_names=("x", "sns-signing.us-east-1.amazonaws.com")),
        certificate(is_authority=None),
    ],
)
def test_what_amazon_serves_is_taken_alone(good: x509.Certificate) -> None:
    assert signing_key([good], SIGNER, NOW, roots()) == KEY.public_key()


SELF = certificate(issuer="sns.amazonaws.com", signed_by=KEY)
BAD = {
    "another host": (certificate("s3.amazonaws.com"), "certificate_name", "is not for sns.us"),
    "another region": (
        certificate(HOST.replace("east-1", "west-2")),
        "certificate_name",
        "but for sns.us-west-2.amazonaws.com",
    ),
    "nobody": (certificate(None), "certificate_name", "but for nobody"),
    "a short key": (certificate(key=new_key(1024)), "certificate", "not RSA with 2048 bits"),
    "by itself": (SELF, "certificate_chain", "signed by itself"),
    "an authority": (certificate(is_authority=True), "certificate_chain", "an authority's"),
    "expired": (
        certificate(ends=timedelta(days=-1)),
        "certificate_date",
        "the certificate is valid from",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_sns_own_is_refused(name: str) -> None:
    bad, code, words = BAD[name]
    with pytest.raises(CertificateError, match=words) as refused:
        signing_key([bad], SIGNER, NOW, roots(ROOT))
    assert refused.value.code == code


def test_a_chain_leads_to_a_root_of_this_machine() -> None:
    assert signing_key([LEAF, MIDDLE], SIGNER, NOW, roots(ROOT)) == KEY.public_key()
    stranger = certificate("authority", key=new_key(), is_authority=True)
    for chain, believed in (([LEAF, MIDDLE], roots()), ([LEAF, stranger], roots(ROOT))):
        with pytest.raises(CertificateError, match="leads to nobody") as refused:
            signing_key(chain, SIGNER, NOW, believed)
        assert refused.value.code == "certificate_chain"
    assert len(system_roots()) > 0


def test_only_an_emulator_may_sign_its_own_certificate(cloud: SignedCloud) -> None:
    sender = Sender(cloud)
    assert signing_key([SELF], SIGNER, NOW, None) == KEY.public_key()

    class Served(SignatureCheck):
        def _fetch(self, _url: str) -> bytes:
            return SELF.public_bytes(Encoding.PEM)

    message = cloud.sign(cloud.message(cloud.event(sender.key)), KEY)
    Served(TOPIC, "http://127.0.0.1").check(message)
    with pytest.raises(SignatureError, match="signed by itself") as refused:
        Served(TOPIC).check(message)
    assert refused.value.code == "certificate_chain"


@pytest.mark.parametrize(
    ("url", "is_emulator"),
    [
        (None, False),
        ("http://localhost:4566", True),
        ("http://amazonaws.com.evil:1", True),
        ("https://vpce-1.sns.us-east-1.vpce.amazonaws.com", False),
        ("https://sns.cn-north-1.amazonaws.com.cn", False),
    ],
)
def test_an_address_of_amazon_is_no_emulator(url: str | None, is_emulator: bool) -> None:
    cloud = CloudConfig("o", "p", "us-east-1", TOPIC, "sqs", "https://q", endpoint_url=url)
    assert cloud.emulator_url == (url if is_emulator else None)


@pytest.mark.parametrize(
    "host", ["sns.s3.amazonaws.com", "sns.us-west-2.amazonaws.com", f"{HOST}.cn", f"x{HOST}"]
)
def test_certificates_lie_at_the_topics_own_host(cloud: SignedCloud, host: str) -> None:
    sender = Sender(cloud)
    url = f"https://{host}/SimpleNotificationService-00000000.pem"
    refused = sender.refusal(sender.message(SigningCertURL=url))
    assert refused == f"certificate_url: certificate URL '{url}' is not of {HOST}"


def test_a_field_that_moves_into_another_is_no_other_message(cloud: SignedCloud) -> None:
    """The signed text is the same, and so would the signature be."""
    sender = Sender(cloud)
    first = sender.message(Subject="Amazon S3 Notification")
    sender.check.remember(sender.take(first).digest)
    moved = {**first, "MessageId": f"{first['MessageId']}\nSubject\n{first['Subject']}"}
    del moved["Subject"]
    assert sender.refusal(moved).startswith("control_character: MessageId is ")
    with pytest.raises(NotificationRefusedError, match=r"^replayed: "):
        sender.check.check(json.dumps({**first, "UnsubscribeURL": "https://other"}).encode())
    for field in ("Subject", "Timestamp"):
        for sign in ("\n", "\r", "\x00", "\u2028"):
            assert sender.refusal(sender.message(**{field: f"a{sign}b"})).startswith(
                f"control_character: {field} is "
            )
    # In the text of the event itself there may be line breaks.
    spread = json.dumps(json.loads(cloud.event(sender.key)), indent=1)
    assert sender.take(sender.message(spread)).plan_keys == (sender.key,)

"""Signs S3 requests by AWS Signature Version 4, on the standard library alone.

The function does without boto3, whose import costs more than numpy's and would double its cold
start. Source: the S3 API reference, "Authenticating Requests (AWS Signature Version 4)".
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote

_ALGORITHM = "AWS4-HMAC-SHA256"


class Credentials(NamedTuple):
    """Holds the keys of an AWS identity; ``session_token`` only for a role's."""

    access_key_id: str
    secret_access_key: str
    session_token: str | None = None


def encoded_path(path: str) -> str:
    """Return a path as it is both sent and signed: S3 wants it encoded once."""
    return quote(path, safe="/-_.~")


def signed_headers(
    method: str,
    host: str,
    path: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    credentials: Credentials,
    region: str,
    now_seconds: float,
) -> dict[str, str]:
    """Return ``headers`` with those that authenticate the request.

    ``path`` is encoded already, ``host`` has the port unless it is the scheme's own, and the
    names of ``headers`` are in lower case. There is no query.
    """
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_seconds))
    digest = hashlib.sha256(body).hexdigest()
    signed = {**headers, "host": host, "x-amz-content-sha256": digest, "x-amz-date": moment}
    if credentials.session_token:
        signed["x-amz-security-token"] = credentials.session_token
    names = ";".join(sorted(signed))
    canonical_headers = "".join(f"{name}:{signed[name].strip()}\n" for name in sorted(signed))
    canonical = "\n".join((method, path, "", canonical_headers, names, digest))
    scope = f"{moment[:8]}/{region}/s3/aws4_request"
    to_sign = "\n".join((_ALGORITHM, moment, scope, hashlib.sha256(canonical.encode()).hexdigest()))
    key = b"AWS4" + credentials.secret_access_key.encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
    signed["authorization"] = (
        f"{_ALGORITHM} Credential={credentials.access_key_id}/{scope}, "
        f"SignedHeaders={names}, Signature={signature}"
    )
    return signed

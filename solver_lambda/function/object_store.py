"""Uses the two S3 buckets: read an observation, write its plan once."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from solver_lambda.function.request_signature import Credentials, encoded_path, signed_headers

if TYPE_CHECKING:
    from http.client import HTTPConnection
    from ssl import SSLContext

TIMEOUT_SECONDS = 5.0
ATTEMPTS = 4
FIRST_PAUSE_SECONDS = 0.1
MAX_ERROR_BYTES = 500
# Where Fargate hands a task's credentials out.
_CONTAINER_ENDPOINT = "http://169.254.170.2"


class ObjectStoreError(RuntimeError):
    """S3 did not do what was asked; the message names the bucket, the key and its answer."""


class ObjectStore:
    """Speaks to S3 over HTTP with as little as the function needs.

    It reads ``environment`` as the AWS libraries do. The region is from AWS_REGION (or
    AWS_DEFAULT_REGION). Another endpoint is from AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL; the
    bucket is then in the path instead of the host. The credentials are from AWS_ACCESS_KEY_ID,
    AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or from the container's endpoint
    (AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI). With SPREDS_ACCOUNT_ID, S3 refuses
    buckets of any other account.

    A request is tried ``ATTEMPTS`` times at most: again after a failed connection, a 5xx or a
    throttling answer (429), with a pause that doubles from ``FIRST_PAUSE_SECONDS``.
    """

    def __init__(
        self,
        environment: Mapping[str, str] = os.environ,
        *,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._environment = environment
        self._pause = pause
        self._region = (
            environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us-east-1"
        )
        self._endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get(
            "AWS_ENDPOINT_URL"
        )
        self._owner = environment.get("SPREDS_ACCOUNT_ID", "")

    def get(self, bucket: str, key: str, *, max_bytes: int) -> bytes:
        """Return the object's content.

        Raises:
            ObjectStoreError: it is not there, longer than ``max_bytes``, or S3 refuses.
        """
        status, content = self._request("GET", bucket, key, max_bytes=max_bytes)
        if status != 200:
            raise self._refused("GET", bucket, key, status, content)
        if len(content) > max_bytes:
            raise ObjectStoreError(f"s3://{bucket}/{key} is longer than {max_bytes} bytes")
        return content

    def put_new(self, bucket: str, key: str, content: bytes) -> bool:
        """Write a JSON object unless the key is taken; whether it was written.

        Raises:
            ObjectStoreError: S3 refuses.
        """
        headers = {"content-type": "application/json", "if-none-match": "*"}
        status, answer = self._request("PUT", bucket, key, content, headers)
        if status == 412:
            return False
        if status != 200:
            raise self._refused("PUT", bucket, key, status, answer)
        return True

    def _request(
        self,
        method: str,
        bucket: str,
        key: str,
        content: bytes = b"",
        headers: Mapping[str, str] | None = None,
        max_bytes: int = 0,
    ) -> tuple[int, bytes]:
        """Return status and content, cut if longer than ``max_bytes``; failures are tried again."""
        if self._endpoint:
            url = urlsplit(f"{self._endpoint.rstrip('/')}/{encoded_path(f'{bucket}/{key}')}")
        else:
            suffix = ".cn" if self._region.startswith("cn-") else ""
            host = f"{bucket}.s3.{self._region}.amazonaws.com{suffix}"
            url = urlsplit(f"https://{host}/{encoded_path(key)}")
        credentials = find_credentials(self._environment)
        owner = {"x-amz-expected-bucket-owner": self._owner} if self._owner else {}
        failure = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                self._pause(FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))
            signed = signed_headers(
                method,
                url.netloc,
                url.path,
                content,
                {**owner, **(headers or {})},
                credentials=credentials,
                region=self._region,
                now_seconds=time.time(),
            )
            try:
                status, answer = _exchange(method, url, content, signed, max_bytes)
            except OSError as error:
                failure = f"{type(error).__name__}: {error}"
                continue
            # 409: another conditional PUT of this key is under way.
            if status < 500 and status not in (409, 429):
                return status, answer
            failure = f"{status} {_summary(answer)}"
        raise ObjectStoreError(
            f"{method} s3://{bucket}/{key} failed {ATTEMPTS} times, last with {failure}"
        )

    def _refused(
        self, method: str, bucket: str, key: str, status: int, answer: bytes
    ) -> ObjectStoreError:
        # S3 answers 403 to both.
        why = f", or the bucket is not of the account {self._owner}" if self._owner else ""
        return ObjectStoreError(
            f"{method} s3://{bucket}/{key} was refused with {status} {_summary(answer)}"
            f"{why if status == 403 else ''}"
        )


def _summary(answer: bytes) -> str:
    """Return the code in S3's XML answer, or else its beginning, on one line."""
    text = answer[:MAX_ERROR_BYTES].decode(errors="replace")
    code = re.search("<Code>(.*?)</Code>", text)
    return code[1] if code else " ".join(text.split())


def connect_to(url: SplitResult) -> HTTPConnection:
    """Return a connection to the host of a URL, opened by its first request."""
    # With all of TLS it takes a third of the function's own import time, and the embedded
    # controller never needs it.
    from http.client import HTTPConnection, HTTPSConnection

    if url.scheme == "https":
        return HTTPSConnection(url.netloc, timeout=TIMEOUT_SECONDS, context=_tls_context())
    return HTTPConnection(url.netloc, timeout=TIMEOUT_SECONDS)


@cache
def _tls_context() -> SSLContext:
    """Return one context for all requests: to read the certificates that we trust is most of what
    one costs."""
    import ssl

    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _exchange(
    method: str, url: SplitResult, content: bytes, headers: Mapping[str, str], max_bytes: int
) -> tuple[int, bytes]:
    """Send one HTTP request. Raises OSError."""
    from http.client import HTTPException

    connection = connect_to(url)
    path = f"{url.path}?{url.query}" if url.query else url.path
    try:
        connection.request(method, path, content or None, dict(headers))
        response = connection.getresponse()
        return response.status, response.read(max(max_bytes, MAX_ERROR_BYTES) + 1)
    except HTTPException as error:
        raise OSError(f"{type(error).__name__}: {error}") from error
    finally:
        connection.close()


def find_credentials(environment: Mapping[str, str]) -> Credentials:
    """Return the credentials of this function or task.

    Raises:
        ObjectStoreError: there are none, or the container's endpoint does not give them.
    """
    if environment.get("AWS_ACCESS_KEY_ID") and environment.get("AWS_SECRET_ACCESS_KEY"):
        return Credentials(
            environment["AWS_ACCESS_KEY_ID"],
            environment["AWS_SECRET_ACCESS_KEY"],
            environment.get("AWS_SESSION_TOKEN"),
        )
    relative = environment.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
    full = environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
    if not relative and not full:
        raise ObjectStoreError(
            "no AWS credentials: neither AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY nor "
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI is set"
        )
    url = urlsplit(_CONTAINER_ENDPOINT + relative if relative else str(full))
    token = environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN")
    if file := environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
        with open(file) as opened:
            token = opened.read().strip()
    try:
        status, answer = _exchange(
            "GET", url, b"", {"authorization": token} if token else {}, 1 << 16
        )
        if status != 200:
            raise ObjectStoreError(f"the container's credentials endpoint answered {status}")
        found = json.loads(answer)
        return Credentials(found["AccessKeyId"], found["SecretAccessKey"], found.get("Token"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ObjectStoreError(
            f"the container's credentials endpoint gave none: {type(error).__name__}: {error}"
        ) from error

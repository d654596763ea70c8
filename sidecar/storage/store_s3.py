"""Makes a bucket in S3 a store of documents."""

from __future__ import annotations

from typing import Any

from sidecar.storage.aws import USUAL_SECONDS, aws_errors, client
from sidecar.storage.store import StoreError, StoreUnreachableError, Version

_ABSENT = ("NoSuchKey", "404")
_FORBIDDEN = ("AccessDenied", "403")
# An empty document has no first byte, so every range of it is refused.
_EMPTY = ("InvalidRange", "416")
# Of a list, with 1000 keys each; whoever answers may say of each that more follow.
MOST_PAGES = 10


class S3Store:
    """Keeps documents in one bucket. A call fails within ``limit_seconds`` if nobody answers. It
    fails at once if the bucket is not of the account ``owner`` (``None``: whose it is, is not
    asked)."""

    def __init__(
        self,
        bucket: str,
        region: str,
        endpoint_url: str | None,
        limit_seconds: float = USUAL_SECONDS,
        owner: str | None = None,
    ) -> None:
        self._bucket = bucket
        self._s3 = client("s3", region, endpoint_url, limit_seconds)
        self._errors = aws_errors()
        self._owner = owner
        if owner:
            self._s3.meta.events.register("before-parameter-build.s3", self._name_owner)

    def __str__(self) -> str:
        return f"s3://{self._bucket}"

    def put(self, key: str, body: bytes) -> None:
        self._call(
            "put_object",
            Bucket=self._bucket,
            Key=key,
            Body=body,
            ContentType="application/json",
        )

    def get(self, key: str, max_bytes: int) -> bytes | None:
        try:
            answer = self._s3.get_object(Bucket=self._bucket, Key=key, Range=f"bytes=0-{max_bytes}")
            return bytes(answer["Body"].read(max_bytes + 1))
        except self._errors as error:
            # With the right to list only a prefix, an absent key is answered as forbidden (403).
            if error_code(error) in _ABSENT or (
                error_code(error) in _FORBIDDEN and self._is_absent(key)
            ):
                return None
            if error_code(error) in _EMPTY:
                return b""
            raise self._failure(key, error) from error

    def _is_absent(self, key: str) -> bool:
        """Whether we may list the key, and it is not there."""
        try:
            listed = self._s3.list_objects_v2(Bucket=self._bucket, Prefix=key)
        except self._errors:
            return False
        return all(item.get("Key") != key for item in listed.get("Contents", []))

    def version(self, key: str) -> Version:
        try:
            answer = self._s3.get_object(Bucket=self._bucket, Key=key)
            answer["Body"].close()
            return Version(f"{answer['ETag']} {answer['LastModified']}")
        except KeyError as error:
            raise self._no_s3(key, error) from error
        except self._errors as error:
            code = error_code(error)
            if code in _ABSENT or code in _FORBIDDEN:
                return Version(None, is_certain=code in _ABSENT)
            raise self._failure(key, error) from error

    def versions(self, prefix: str) -> dict[str, str]:
        found: dict[str, str] = {}
        more: dict[str, str] = {}
        try:
            for _ in range(MOST_PAGES):
                answer = self._s3.list_objects_v2(Bucket=self._bucket, Prefix=prefix, **more)
                found |= {item["Key"]: item["ETag"] for item in answer.get("Contents", [])}
                if not answer.get("IsTruncated"):
                    return found
                more = {"ContinuationToken": answer["NextContinuationToken"]}
        except KeyError as error:
            raise self._no_s3(prefix, error) from error
        except self._errors as error:
            raise self._failure(prefix, error) from error
        raise StoreError(
            f"{self}/{prefix}: the list of what is there has more than {MOST_PAGES} pages"
        )

    def delete(self, key: str) -> None:
        self._call("delete_object", Bucket=self._bucket, Key=key)

    def _call(self, operation: str, **parameters: Any) -> None:
        try:
            getattr(self._s3, operation)(**parameters)
        except self._errors as error:
            raise self._failure(parameters["Key"], error) from error

    def _name_owner(self, params: dict[str, Any], **_: Any) -> None:
        """Name the owner in each request, before it is built."""
        params["ExpectedBucketOwner"] = self._owner

    def _no_s3(self, key: str, missing: KeyError) -> StoreError:
        return StoreError(f"{self}/{key}: whoever answers is not S3: the answer has no {missing}")

    def _failure(self, key: str, error: Exception) -> StoreError:
        code = error_code(error)
        kind = StoreError if code else StoreUnreachableError
        if code not in _FORBIDDEN:
            return kind(f"{self}/{key}: {error}")
        # S3 answers both the same.
        why = f", or the bucket is not of the account {self._owner}" if self._owner else ""
        return kind(f"{self}/{key}: the rights in use do not include that{why} ({error})")


def error_code(error: Exception) -> str:
    """Return the code in AWS' answer, such as ``NoSuchKey``; empty if there was no answer."""
    response = getattr(error, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))

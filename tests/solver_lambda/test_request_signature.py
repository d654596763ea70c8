"""Our signatures against botocore's."""

from __future__ import annotations

import datetime
import time

import botocore.auth
import pytest
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotocoreCredentials
from hypothesis import given
from hypothesis import strategies as st

from solver_lambda.function.request_signature import Credentials, encoded_path, signed_headers

NOW_SECONDS = 1_700_000_000.0


def botocore_signature(
    method: str, url: str, body: bytes, headers: dict[str, str], token: str | None
) -> str:
    """The authorization header that botocore makes for S3 at NOW_SECONDS."""
    signer = botocore.auth.S3SigV4Auth(
        BotocoreCredentials("AKID", "secret/+=", token), "s3", "eu-west-3"
    )
    request = AWSRequest(method, url, headers=dict(headers), data=body)
    request.context["client_config"] = None
    moment = datetime.datetime.fromtimestamp(NOW_SECONDS, datetime.UTC)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            botocore.auth,
            "get_current_datetime",
            lambda remove_tzinfo=True: moment.replace(tzinfo=None) if remove_tzinfo else moment,
        )
        patch.setattr(signer, "_should_sha256_sign_payload", lambda _: True)
        signer.add_auth(request)
    return request.headers["Authorization"]


@given(
    method=st.sampled_from(["GET", "PUT"]),
    key=st.text(
        st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=40
    ).filter(lambda key: "//" not in key and not set(key.split("/")) & {"", ".", ".."}),
    body=st.binary(max_size=100),
    token=st.sampled_from([None, "session-token=="]),
    port=st.sampled_from(["", ":4566"]),
)
def test_a_signature_is_the_one_that_botocore_makes(method, key, body, token, port):
    host = f"bucket.s3.eu-west-3.amazonaws.com{port}"
    path = "/" + encoded_path(key)
    headers = {"content-type": "application/json", "if-none-match": "*"} if body else {}
    ours = signed_headers(
        method,
        host,
        path,
        body,
        headers,
        credentials=Credentials("AKID", "secret/+=", token),
        region="eu-west-3",
        now_seconds=NOW_SECONDS,
    )
    assert ours["authorization"] == botocore_signature(
        method, f"https://{host}{path}", body, headers, token
    )
    assert ours["x-amz-date"] == time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(NOW_SECONDS))

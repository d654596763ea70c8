"""Reading and writing objects over real HTTP, and what is tried again."""

from __future__ import annotations

import datetime
import json
import ssl
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import botocore.auth
import pytest
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotocoreCredentials
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from infra.emulator.signer import self_signed
from solver_lambda.function import object_store
from solver_lambda.function.object_store import (
    ATTEMPTS,
    ObjectStore,
    ObjectStoreError,
    find_credentials,
)
from solver_lambda.function.request_signature import Credentials, encoded_path, signed_headers

KEY = "observations/node-1/ü +%.json"


def test_what_another_client_wrote_is_read(s3_environment, s3):
    s3.put_object(Bucket="observations", Key=KEY, Body=b"{}")
    assert ObjectStore(s3_environment).get("observations", KEY, max_bytes=2) == b"{}"


def test_what_is_written_is_what_another_client_reads(s3_environment, s3):
    assert ObjectStore(s3_environment).put_new("plans", KEY, b'{"a": 1}')
    found = s3.get_object(Bucket="plans", Key=KEY)
    assert found["Body"].read() == b'{"a": 1}'
    assert found["ContentType"] == "application/json"


def test_a_key_that_is_taken_keeps_its_content(s3_environment, s3):
    store = ObjectStore(s3_environment)
    assert store.put_new("plans", KEY, b"first")
    assert not store.put_new("plans", KEY, b"second")
    assert s3.get_object(Bucket="plans", Key=KEY)["Body"].read() == b"first"


def test_an_object_longer_than_allowed_is_refused(s3_environment, s3):
    s3.put_object(Bucket="observations", Key=KEY, Body=b"12345")
    with pytest.raises(ObjectStoreError, match="longer than 4 bytes"):
        ObjectStore(s3_environment).get("observations", KEY, max_bytes=4)


def test_a_missing_object_is_named(s3_environment):
    with pytest.raises(ObjectStoreError, match=r"GET s3://observations/nothing .* 404 NoSuchKey$"):
        ObjectStore(s3_environment).get("observations", "nothing", max_bytes=10)


class ScriptedServer:
    """An HTTP server that gives the answers it was told to, and keeps what it was asked."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, bytes]] = []
        self.asked: list[tuple[str, dict[str, str]]] = []
        script = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                script.asked.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
                status, body = script.answers.pop(0)
                if not status:
                    self.connection.close()
                    return
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def stop(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def scripted() -> Iterator[ScriptedServer]:
    server = ScriptedServer()
    yield server
    server.stop()


def store_on(scripted: ScriptedServer, pauses: list[float], url: str | None = None) -> ObjectStore:
    return ObjectStore(
        {
            "AWS_ENDPOINT_URL": "http://not-this-one.invalid",
            "AWS_ENDPOINT_URL_S3": url or scripted.url,
            "AWS_ACCESS_KEY_ID": "id",
            "AWS_SECRET_ACCESS_KEY": "secret",
        },
        pause=pauses.append,
    )


@pytest.mark.parametrize("failure", [500, 503, 429, 409])
def test_a_passing_failure_is_tried_again(scripted, failure):
    pauses: list[float] = []
    scripted.answers = [(failure, b"SlowDown"), (failure, b"SlowDown"), (200, b"here")]
    assert store_on(scripted, pauses).get("bucket", "key", max_bytes=10) == b"here"
    assert pauses == [0.1, 0.2]
    assert [path for path, _ in scripted.asked] == ["/bucket/key"] * 3


def test_a_lasting_failure_is_given_up_with_its_answer(scripted):
    pauses: list[float] = []
    scripted.answers = [(503, b"SlowDown")] * ATTEMPTS
    with pytest.raises(ObjectStoreError, match=rf"failed {ATTEMPTS} times, .*503.*SlowDown"):
        store_on(scripted, pauses).get("bucket", "key", max_bytes=10)
    assert len(pauses) == ATTEMPTS - 1


def test_a_broken_connection_is_tried_again(scripted):
    scripted.answers = [(0, b""), (200, b"here")]
    assert store_on(scripted, []).get("bucket", "key", max_bytes=10) == b"here"


def test_a_refusal_is_not_tried_again(scripted):
    scripted.answers = [(403, b"AccessDenied")]
    with pytest.raises(ObjectStoreError, match=r"403 AccessDenied$"):
        store_on(scripted, []).get("bucket", "key", max_bytes=10)
    assert len(scripted.asked) == 1


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Key and certificate of ``localhost``; the process trusts the file, and what it was told."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = self_signed(key, "localhost")
    path = tmp_path / "localhost.pem"
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(secret + certificate.public_bytes(Encoding.PEM))
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    object_store._tls_context.cache_clear()
    yield path
    object_store._tls_context.cache_clear()


@pytest.fixture
def over_tls(scripted: ScriptedServer, trusted: Path) -> str:
    """The port of ``scripted``, which now speaks TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(trusted)
    scripted.server.socket = context.wrap_socket(scripted.server.socket, server_side=True)
    return str(scripted.server.server_port)


def test_requests_share_what_tls_needs(scripted, over_tls, trusted):
    scripted.answers = [(200, b"one"), (200, b"two")]
    url = f"https://localhost:{over_tls}"
    assert store_on(scripted, [], url).get("bucket", "key", max_bytes=10) == b"one"
    trusted.unlink()  # whoever reads it again trusts nobody
    assert store_on(scripted, [], url).get("bucket", "key", max_bytes=10) == b"two"


def test_a_host_that_its_certificate_does_not_name_is_not_talked_to(scripted, over_tls):
    with pytest.raises(ObjectStoreError, match="SSLCertVerificationError"):
        store_on(scripted, [], f"https://127.0.0.1:{over_tls}").get("bucket", "key", max_bytes=10)
    assert scripted.asked == []


def test_a_container_gets_its_credentials_from_its_endpoint(scripted, tmp_path):
    token = tmp_path / "token"
    token.write_text("let me in\n")
    found = {"AccessKeyId": "id", "SecretAccessKey": "secret", "Token": "session"}
    scripted.answers = [(200, json.dumps(found).encode())]
    environment = {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{scripted.url}/v2/creds?id=1",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(token),
    }
    assert find_credentials(environment) == Credentials("id", "secret", "session")
    path, headers = scripted.asked[0]
    assert path == "/v2/creds?id=1"
    assert headers["authorization"] == "let me in"


@pytest.mark.parametrize("answer", [(500, b""), (200, b"no JSON"), (200, b"{}"), (200, b"[]")])
def test_an_endpoint_without_credentials_is_an_error(scripted, answer):
    scripted.answers = [answer]
    with pytest.raises(ObjectStoreError, match="credentials endpoint"):
        find_credentials({"AWS_CONTAINER_CREDENTIALS_FULL_URI": scripted.url})


def test_without_any_credentials_the_variables_are_named():
    with pytest.raises(ObjectStoreError, match="AWS_ACCESS_KEY_ID"):
        find_credentials({"AWS_ACCESS_KEY_ID": "alone"})


def test_without_an_endpoint_the_bucket_is_in_the_host(monkeypatch):
    asked = []

    def exchange(method, url, content, headers, max_bytes):
        asked.append((method, url.geturl(), headers["host"]))
        return 200, b"here"

    monkeypatch.setattr("solver_lambda.function.object_store._exchange", exchange)
    store = ObjectStore(
        {
            "AWS_REGION": "eu-west-3",
            "AWS_ACCESS_KEY_ID": "id",
            "AWS_SECRET_ACCESS_KEY": "secret",
        }
    )
    assert store.get("bucket", "a/b c", max_bytes=10) == b"here"
    host = "bucket.s3.eu-west-3.amazonaws.com"
    assert asked == [("GET", f"https://{host}/a/b%20c", host)]


def test_s3_is_told_whose_the_bucket_has_to_be(scripted):
    """No emulator looks at it."""
    environment = {
        "AWS_ENDPOINT_URL": scripted.url,
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }
    refused = b"<Error><Code>AccessDenied</Code></Error>"
    scripted.answers = [(200, b"here"), (403, refused), (403, refused)]
    owned = ObjectStore(environment | {"SPREDS_ACCOUNT_ID": "123456789012"})
    owned.get("bucket", "key", max_bytes=10)
    with pytest.raises(ObjectStoreError, match="403 AccessDenied, or the bucket is not of the acc"):
        owned.get("bucket", "key", max_bytes=10)
    with pytest.raises(ObjectStoreError, match=r"403 AccessDenied$"):
        ObjectStore(environment).get("bucket", "key", max_bytes=10)
    header = "x-amz-expected-bucket-owner"
    assert [headers.get(header) for _, headers in scripted.asked] == ["123456789012"] * 2 + [None]
    # Signed, so that nobody takes it away.
    assert header in scripted.asked[0][1]["authorization"]
    assert header not in scripted.asked[2][1]["authorization"]


@pytest.mark.parametrize(
    ("region", "host"),
    [
        ("us-gov-west-1", "bucket.s3.us-gov-west-1.amazonaws.com"),
        ("cn-north-1", "bucket.s3.cn-north-1.amazonaws.com.cn"),
    ],
)
def test_the_address_is_that_of_the_regions_partition(monkeypatch, region, host):
    asked = []

    def exchange(method, url, *_):
        asked.append((method, url.netloc))
        return 200, b""

    monkeypatch.setattr(object_store, "_exchange", exchange)
    environment = {
        "AWS_REGION": region,
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }
    ObjectStore(environment).get("bucket", "key", max_bytes=10)
    assert asked == [("GET", host)]


# --- Our signatures against botocore's.


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

"""The account that a bucket has to belong to goes with each request; no emulator looks at it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sidecar.config.controller_config import read_controller
from sidecar.storage.store import StoreError
from sidecar.storage.store_s3 import S3Store
from solver_lambda.documents.reader import DocumentError, Fields

OWNER = "123456789012"


class RefusingS3:
    """Answers each request as S3 does if the bucket is another account's."""

    def __init__(self) -> None:
        self.owners: list[str | None] = []
        owners = self.owners

        class Handler(BaseHTTPRequestHandler):
            def _refuse(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                owners.append(self.headers["x-amz-expected-bucket-owner"])
                body = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
                self.send_response(403)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_PUT = do_DELETE = _refuse  # noqa: N815

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
def refusing(monkeypatch: pytest.MonkeyPatch) -> Iterator[RefusingS3]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    made = RefusingS3()
    yield made
    made.stop()


@pytest.mark.parametrize("owner", [OWNER, None])
def test_each_request_names_the_owner_and_a_refusal_says_so(
    refusing: RefusingS3, owner: str | None
) -> None:
    store = S3Store("bucket", "us-east-1", refusing.url, owner=owner)
    said = (
        f"or the bucket is not of the account {OWNER}"
        if owner
        else r"do not include that \(.*Access Denied\)$"
    )
    with pytest.raises(StoreError, match=said):
        store.put("key", b"{}")
    with pytest.raises(StoreError, match=said):
        store.get("key", 9)
    with pytest.raises(StoreError, match=said):
        store.delete("key")
    assert len(refusing.owners) >= 4
    assert set(refusing.owners) == {owner}


@pytest.mark.parametrize(
    ("account", "is_good"), [(OWNER, True), ("12345", False), ("x" * 12, False)]
)
def test_an_account_has_twelve_digits(account: str, is_good: bool) -> None:
    table = {
        "kind": "lambda",
        "observations_bucket": "o",
        "plans_bucket": "p",
        "topic_arn": f"arn:aws:sns:us-east-1:{OWNER}:t",
        "queue_url": "https://sqs.example.com/q",
        "account_id": account,
    }
    fields = Fields(table, "node.toml", "controller")
    if is_good:
        cloud = read_controller(fields, Path()).cloud
        assert cloud is not None
        assert cloud.account_id == account
        return
    with pytest.raises(DocumentError, match="account_id must be the 12 digits of an account"):
        read_controller(fields, Path())

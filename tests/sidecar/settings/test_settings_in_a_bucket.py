"""How often a bucket is asked for settings, and that no change is lost for it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from sidecar.base.metrics import Metrics
from sidecar.cli import main
from sidecar.config.node import SidecarConfig, load_config
from sidecar.settings.remembered_settings import RememberedSettings
from sidecar.settings.settings_documents import (
    LISTED_EVERY_SECONDS,
    BucketDocuments,
    mark_changed,
)
from sidecar.settings.settings_reader import SettingsReader
from sidecar.settings.team_settings import TeamSettings
from sidecar.storage.store import StoreError
from sidecar.storage.store_s3 import MOST_PAGES, S3Store
from solver_lambda.documents.keys import settings_key, settings_marker_key
from tests.sidecar.answering import answering
from tests.sidecar.black_hole import BlackHole
from tests.sidecar.fixtures import WriteNode
from tests.sidecar.signed_cloud import SignedCloud
from workloads.local_node import wait_until

NODE = "n1"
KEY, MARKER = settings_key(NODE, "sessions"), settings_marker_key(NODE)
URLS = {"sessions": "redis://127.0.0.1:1", "pages": "redis://127.0.0.1:2"}


@pytest.fixture
def config(write_node: WriteNode) -> SidecarConfig:
    return load_config(write_node(URLS, budget="40mb"))


class Bucket:
    """A bucket of the emulated cloud, and what is asked of it.

    Attributes:
        asked: operations and keys (or prefixes), since it was last emptied.
        meanwhile: called before each request, with its operation and key.
    """

    def __init__(self, cloud: SignedCloud) -> None:
        self.store = S3Store("observations", "us-east-1", cloud.endpoint_url)
        self.others = S3Store("observations", "us-east-1", cloud.endpoint_url)
        self.asked: list[str] = []
        self.meanwhile: Callable[[str], None] = lambda _: None
        self.store._s3.meta.events.register("provide-client-params.s3", self._note)

    def _note(self, params: dict[str, Any], model: Any, **_: Any) -> None:
        self.asked.append(f"{model.name} {params.get('Key') or params['Prefix']}")
        self.meanwhile(self.asked[-1])

    def asked_since(self) -> list[str]:
        asked, self.asked = self.asked, []
        return asked

    def change(self, weight: float, server: str = "sessions", *, marked: bool = True) -> None:
        """Change settings as a team does it, elsewhere."""
        self.others.put(settings_key(NODE, server), _settings(weight).dumps())
        if marked:
            mark_changed(self.others, NODE, server)


def _settings(weight: float) -> TeamSettings:
    return TeamSettings("ann", "2026-11-21T12:00:00+00:00", {"weight": weight})


@pytest.fixture
def bucket(cloud: SignedCloud) -> Iterator[Bucket]:
    made = Bucket(cloud)
    yield made
    for key in made.others.versions("settings/"):
        made.others.delete(key)


@pytest.fixture
def reader(bucket: Bucket, config: SidecarConfig) -> SettingsReader:
    return SettingsReader(bucket.store, config, Metrics())


def weights(reader: SettingsReader) -> dict[str, float]:
    return {name: settings.values["weight"] for name, settings in reader.read().items()}


GET_MARKER, LIST = f"GetObject {MARKER}", f"ListObjectsV2 settings/{NODE}/"


@pytest.mark.parametrize("was_ever_changed", [False, True])
def test_one_request_a_reading_while_nothing_changes(
    was_ever_changed: bool, bucket: Bucket, reader: SettingsReader
) -> None:
    if was_ever_changed:
        bucket.change(2.0)
    first = weights(reader)
    assert bucket.asked_since() == [GET_MARKER, LIST, *([f"GetObject {KEY}"] * was_ever_changed)]
    for _ in range(3):
        assert weights(reader) == first
    assert bucket.asked_since() == [GET_MARKER] * 3


def test_only_what_changed_is_fetched(bucket: Bucket, reader: SettingsReader) -> None:
    bucket.change(2.0)
    bucket.change(3.0, "pages")
    assert weights(reader) == {"sessions": 2.0, "pages": 3.0}
    bucket.asked_since()
    bucket.change(4.0, "pages")
    assert weights(reader) == {"sessions": 2.0, "pages": 4.0}
    changed = f"GetObject {settings_key(NODE, 'pages')}"
    assert bucket.asked_since() == [GET_MARKER, LIST, changed]


def test_a_change_and_back_again_is_seen(bucket: Bucket, reader: SettingsReader) -> None:
    for weight in (2.0, 3.0, 2.0):
        bucket.change(weight)
        assert weights(reader) == {"sessions": weight}


@pytest.mark.parametrize("moment", [GET_MARKER, LIST, f"GetObject {KEY}"])
def test_a_change_during_a_reading_is_read_next_time_at_the_latest(
    moment: str, bucket: Bucket, reader: SettingsReader
) -> None:
    bucket.change(2.0)

    def change(asked: str) -> None:
        if asked == moment:
            bucket.meanwhile = lambda _: None
            bucket.change(3.0)

    bucket.meanwhile = change
    reader.read()
    assert weights(reader) == {"sessions": 3.0}


@pytest.mark.parametrize("moment", [GET_MARKER, LIST, f"GetObject {KEY}"])
def test_what_could_not_be_read_is_read_next_time(
    moment: str, bucket: Bucket, reader: SettingsReader, caplog: pytest.LogCaptureFixture
) -> None:
    bucket.change(2.0)
    assert weights(reader) == {"sessions": 2.0}
    bucket.change(3.0)

    def fail(asked: str) -> None:
        if asked == moment:
            bucket.meanwhile = lambda _: None
            raise EndpointConnectionError(endpoint_url="nobody")

    bucket.meanwhile = fail
    assert weights(reader) == {"sessions": 2.0}
    assert "the last ones hold: s3://observations/settings/n1/" in caplog.text
    assert weights(reader) == {"sessions": 3.0}


def test_documents_without_a_marker_are_found_within_a_day(bucket: Bucket) -> None:
    now = 1000.0
    documents = BucketDocuments(bucket.store, NODE, lambda: now)
    assert documents.look() == set()
    bucket.change(2.0, marked=False)
    now += LISTED_EVERY_SECONDS - 1
    assert documents.look() == set()
    now += 1
    assert documents.look() == {KEY}
    assert documents.get(KEY) == _settings(2.0).dumps()


def test_settings_of_no_server_are_told_once(
    bucket: Bucket, reader: SettingsReader, caplog: pytest.LogCaptureFixture
) -> None:
    bucket.change(2.0, "sesions")
    reader.read()
    bucket.change(3.0, "sesions")
    reader.read()
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert record.getMessage() == "settings/n1/sesions.json is ignored: the node has no such server"


def test_more_documents_than_one_answer_lists(bucket: Bucket) -> None:
    keys = {settings_key(NODE, f"server-{number}") for number in range(5)}
    for key in keys:
        bucket.others.put(key, b"{}")

    def two_at_most(params: dict[str, Any], **_: Any) -> None:
        params["MaxKeys"] = 2

    bucket.store._s3.meta.events.register("provide-client-params.s3.ListObjectsV2", two_at_most)
    assert BucketDocuments(bucket.store, NODE).look() == keys
    assert bucket.asked_since() == [GET_MARKER, LIST, LIST, LIST]


def test_a_forbidden_marker_is_absent_where_a_list_has_none(answers: Any) -> None:
    """S3 calls an absent key forbidden unless the caller may list the whole bucket."""
    answers.add_client_error("get_object", "AccessDenied", http_status_code=403)
    answers.add_response("list_objects_v2", {}, {"Bucket": "b", "Prefix": "settings/n1/"})
    answers.add_client_error("get_object", "AccessDenied", http_status_code=403)
    documents = BucketDocuments(S3Store("b", "us-east-1", None), NODE)
    assert documents.look() == documents.look() == set()


@pytest.mark.parametrize("code", ["AccessDenied", "InvalidObjectState"])
def test_a_marker_that_cannot_be_read_hides_no_change(
    code: str, answers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Any team of the node may write it so: under a key of its own, or into an archive."""
    documents = BucketDocuments(S3Store("b", "us-east-1", None), NODE)
    for number in range(2):
        caplog.clear()
        key = settings_key(NODE, f"server-{number}")
        answers.add_client_error("get_object", code, http_status_code=403)
        contents = [{"Key": MARKER, "ETag": '"1"'}, {"Key": key, "ETag": '"2"'}]
        answers.add_response("list_objects_v2", {"Contents": contents})
        assert documents.look() == {key}
        assert "settings/n1/changed: " in caplog.text
        assert caplog.text.count("settings are listed each time") == 1


def test_a_marker_that_is_always_the_same_hides_no_change(bucket: Bucket) -> None:
    """Its time tells that it was written."""
    documents = BucketDocuments(bucket.store, NODE)
    bucket.others.put(MARKER, b"same")
    assert documents.look() == set()
    bucket.others.put(KEY, _settings(2.0).dumps())
    first = bucket.others.version(MARKER)

    def written_anew() -> bool:
        bucket.others.put(MARKER, b"same")
        return bucket.others.version(MARKER) != first

    wait_until(written_anew, lambda: "S3 tells seconds")
    assert documents.look() == {KEY}


def test_a_list_without_end_is_left(answers: Any) -> None:
    for page in range(MOST_PAGES):
        more = {"IsTruncated": True, "NextContinuationToken": f"{page}"}
        answers.add_response("list_objects_v2", more)
    with pytest.raises(StoreError, match=r"s3://b/settings/n1/: .* more than 10 pages"):
        S3Store("b", "us-east-1", None).versions("settings/n1/")


def test_a_list_that_is_refused_is_asked_for_again(answers: Any) -> None:
    documents = BucketDocuments(S3Store("b", "us-east-1", None), NODE)
    for _ in range(2):
        answers.add_client_error("get_object", "AccessDenied", http_status_code=403)
        answers.add_client_error("list_objects_v2", "AccessDenied", http_status_code=403)
        with pytest.raises(StoreError, match=r"s3://b/settings/n1/: .*AccessDenied"):
            documents.look()


def test_a_change_holds_whose_marker_cannot_be_written(
    bucket: Bucket,
    cloud: SignedCloud,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    real = S3Store.put

    def put(store: S3Store, key: str, body: bytes) -> None:
        if key == MARKER:
            raise StoreError("no right to write it")
        real(store, key, body)

    monkeypatch.setattr(S3Store, "put", put)
    where = ["--node", NODE, "--bucket", "observations", "--region", "us-east-1"]
    where += ["--endpoint-url", cloud.endpoint_url]
    assert main(["weights", "set", "sessions", "--weight", "4", *where]) == 0
    told = capsys.readouterr().err
    assert told == (
        "spreds: the change is stored, but the sidecar may find it only after a day, because the "
        "marker of changes could not be written: no right to write it\n"
        f"spreds: node {NODE} has told nothing of a server sessions so far: nobody reads this if "
        "it has none\n"
    )
    assert bucket.others.versions("settings/").keys() == {KEY}


def test_settings_outlive_a_restart_while_nobody_answers(
    bucket: Bucket, config: SidecarConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "state.json.settings"
    bucket.change(3.0)
    first = SettingsReader(bucket.store, config, Metrics(), RememberedSettings(path))
    assert first.in_force == {}
    before = first.read()
    assert before["sessions"].values == {"weight": 3.0}
    with BlackHole() as hole:
        away = S3Store("observations", "us-east-1", hole.url, limit_seconds=0.5)
        second = SettingsReader(away, config, Metrics(), RememberedSettings(path))
        assert second.in_force == second.read() == before
    # What was taken away meanwhile is gone with the first answer, also from the file.
    bucket.others.delete(KEY)
    third = SettingsReader(bucket.store, config, Metrics(), RememberedSettings(path))
    assert third.in_force == before
    assert third.read() == {}
    assert RememberedSettings(path).documents == {}
    # Nor does a broken file, or one with what the operator no longer allows, do any harm.
    for text in ("{", '{"sessions": 3}', '{"sessions": {}}'):
        path.write_text(text)
        assert not SettingsReader(
            bucket.store, config, Metrics(), RememberedSettings(path)
        ).in_force
    assert "settings of sessions ignored" in caplog.text


@pytest.mark.parametrize(
    "body",
    [
        b"<html>maintenance</html>",
        b"",
        b"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
        b"<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>",
    ],
)
def test_whoever_answers_in_the_place_of_s3_is_told_from_it(body: bytes) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    with answering(head.encode() + body) as url:
        store = S3Store("observations", "us-east-1", url.partition("/plans")[0])
        with pytest.raises(StoreError):
            store.version(MARKER)
        if body.startswith(b"<ListBucketResult>"):
            with pytest.raises(StoreError):
                store.versions(f"settings/{NODE}/")

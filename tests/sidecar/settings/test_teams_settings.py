"""Teams' settings: written by the command, read by the sidecar, bounded by the operator."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.base.log_setup import RepeatFilter
from sidecar.base.metrics import Metrics
from sidecar.cli import main
from sidecar.config.node import ServerConfig, SidecarConfig, load_config
from sidecar.config.settings_limits import SettingsLimits
from sidecar.observing.team_wishes import effective
from sidecar.settings.settings_documents import mark_changed
from sidecar.settings.settings_reader import SettingsReader
from sidecar.settings.team_report import report_document
from sidecar.settings.team_settings import TeamSettings
from sidecar.storage.store import MOST_NAMES, FolderStore, Store, StoreError
from sidecar.storage.store_s3 import S3Store
from solver_lambda.documents.json_text import parse_json
from solver_lambda.documents.keys import report_key, settings_key
from solver_lambda.documents.reader import DocumentError
from tests.secret_file import write_secret
from tests.sidecar.fixtures import WriteNode

MB = 1 << 20
URLS = {"sessions": "redis://127.0.0.1:1", "pages": "redis://127.0.0.1:2"}
LIMITS = (
    '[controller]\nkind = "embedded"\nfolder = "documents"\n'
    '[limits]\nmaximum_weight = 10\nmaximum_backend_latency = "2s"\nmaximum_minimum = "16mb"\n'
)
KEY = settings_key("n1", "sessions")


@pytest.fixture
def path(write_node: WriteNode) -> Path:
    return write_node(URLS, budget="40mb", more=LIMITS)


@pytest.fixture
def config(path: Path) -> SidecarConfig:
    return load_config(path)


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FolderStore | S3Store]:
    if request.param == "folder":
        yield FolderStore(tmp_path / "documents")
        return
    cloud = request.getfixturevalue("cloud")
    made = S3Store("observations", "us-east-1", cloud.endpoint_url)
    yield made
    for key in made.versions("settings/"):
        made.delete(key)


def _write(store: FolderStore | S3Store, server: str, body: bytes | None) -> None:
    """Write settings as the command does; ``None`` removes the document."""
    if body is None:
        store.delete(settings_key("n1", server))
    else:
        store.put(settings_key("n1", server), body)
    mark_changed(store, "n1", server)


def _reader(
    store: FolderStore | S3Store | None, config: SidecarConfig
) -> tuple[SettingsReader, Metrics]:
    metrics = Metrics()
    return SettingsReader(store, config, metrics), metrics


def _settings(**values: Any) -> TeamSettings:
    return TeamSettings("ann", "2026-11-21T12:00:00+00:00", values)


def test_settings_hold_from_the_next_reading_until_they_are_removed(
    store: FolderStore | S3Store, config: SidecarConfig
) -> None:
    reader, _ = _reader(store, config)
    assert reader.read() == {}
    settings = _settings(weight=3.0, minimum_bytes=8 * MB)
    _write(store, "sessions", settings.dumps())
    assert reader.read() == {"sessions": settings}
    _write(store, "sessions", None)
    assert reader.read() == {}


@pytest.mark.parametrize("bad", [b"", b"{", b"[" * 9000])
def test_a_bad_document_concerns_its_own_server_alone(
    bad: bytes,
    store: FolderStore | S3Store,
    config: SidecarConfig,
    caplog: pytest.LogCaptureFixture,
) -> None:
    reader, metrics = _reader(store, config)
    good, other = _settings(weight=2.0), _settings(weight=3.0)
    _write(store, "sessions", good.dumps())
    assert reader.read() == {"sessions": good}
    _write(store, "sessions", bad)
    _write(store, "pages", other.dumps())
    assert reader.read() == {"sessions": good, "pages": other}
    assert (metrics.value("settings_refused"), metrics.value("settings_unread")) == (1, 0)
    assert "settings of sessions ignored" in caplog.text


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_a_document_that_is_no_file_concerns_its_own_server_alone(
    make: Callable[[Path], None],
    config: SidecarConfig,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nor is anything waited for: nobody ever writes to the pipe."""
    store = FolderStore(tmp_path)
    (tmp_path / KEY).parent.mkdir(parents=True)
    make(tmp_path / KEY)
    other = _settings(weight=3.0)
    store.put(settings_key("n1", "pages"), other.dumps())
    reader, metrics = _reader(store, config)
    assert reader.read() == {"pages": other}
    assert metrics.value("settings_unread") == 1
    assert f"settings of sessions cannot be read now, the last ones hold: {tmp_path / KEY}: " in (
        caplog.text
    )


@pytest.mark.parametrize(
    "secret", ['["hunter2"]', '"hunter2"', "4711", '{"hunter2": 1}', "hunter2"]
)
def test_a_link_to_a_secret_of_the_sidecars_tells_nothing_of_it(
    secret: str, config: SidecarConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_secret(tmp_path / "secret", secret)
    (tmp_path / KEY).parent.mkdir(parents=True)
    (tmp_path / KEY).symlink_to(tmp_path / "secret")
    reader, metrics = _reader(FolderStore(tmp_path), config)
    assert reader.read() == {}
    assert metrics.value("settings_unread") == 1
    assert "is a symbolic link, which is not followed" in caplog.text
    assert "hunter2" not in caplog.text
    assert "4711" not in caplog.text


@pytest.mark.parametrize("text", ['["hunter2"]', '"hunter2"', "4711", "true", "null", "hunter2"])
def test_a_document_that_is_no_table_is_not_quoted(text: str) -> None:
    with pytest.raises(
        DocumentError, match=r"must be a table, not |not a JSON document"
    ) as refused:
        parse_json(text, "a document", 1000)
    assert "hunter2" not in str(refused.value)
    assert "4711" not in str(refused.value)


def test_a_store_that_does_not_answer_is_asked_once(
    cloud: Any, config: SidecarConfig, caplog: pytest.LogCaptureFixture
) -> None:
    reader, metrics = _reader(S3Store("observations", "us-east-1", "http://127.0.0.1:9"), config)
    assert reader.read() == {}
    (record,) = caplog.records
    assert "settings cannot be looked for now, the last ones hold: s3://" in record.getMessage()
    assert metrics.value("settings_unread") == len(config.servers)


BAD = {
    "no JSON": (b"{", "not a JSON document"),
    "another kind": (_settings(weight=1).dumps().replace(b"settings", b"plan"), "kind"),
    "another version": (_settings(weight=1).dumps().replace(b": 1,", b": 2,", 1), "version"),
    "unknown key": (_settings(weight=1).dumps().replace(b'"weight"', b'"wieght"'), "'weight'"),
    "negative weight": (_settings(weight=-1).dumps(), "weight"),
    "weight above the limit": (_settings(weight=11).dumps(), "at most 10"),
    "weight that is no number": (_settings(weight=1).dumps().replace(b": 1\n", b": NaN\n"), "NaN"),
    "latency above the limit": (_settings(backend_latency_seconds=3).dumps(), "at most 2"),
    "minimum above the limit": (_settings(minimum_bytes=17 * MB).dumps(), "minimum_bytes"),
    "no bound": (_settings(latency_bound_seconds=0).dumps(), "latency_bound_seconds"),
    "nobody": (_settings(weight=1).dumps().replace(b'"ann"', b'""'), "set_by"),
    "no time": (_settings(weight=1).dumps().replace(b"2026-11", b"soon"), "set_at"),
    "oversized": (b" " * 20_000, "more than the 16384 allowed"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_document_is_ignored_with_a_reason_and_the_last_good_one_stays(
    name: str, config: SidecarConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = FolderStore(tmp_path / "documents")
    reader, metrics = _reader(store, config)
    good = _settings(weight=2.0)
    store.put(KEY, good.dumps())
    reader.read()
    text, why = BAD[name]
    store.put(KEY, text)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert reader.read() == {"sessions": good}
        assert reader.read() == {"sessions": good}
    (record,) = caplog.records
    assert KEY in record.getMessage()
    assert good.version in record.getMessage()
    assert (why if why != "NaN" else "weight") in record.getMessage()
    assert metrics.value("settings_refused") == 2


def test_limits_that_are_lowered_hold_also_while_a_document_cannot_be_read(
    config: SidecarConfig, tmp_path: Path
) -> None:
    """A team may store its own so that the node cannot read it."""
    store = FolderStore(tmp_path / "documents")
    reader, _ = _reader(store, config)
    store.put(KEY, _settings(weight=2.0).dumps())
    assert reader.read()["sessions"].values["weight"] == 2.0

    class Locked(FolderStore):
        def get(self, key: str, max_bytes: int) -> bytes | None:
            raise StoreError("InvalidObjectState")

    locked = Locked(tmp_path / "documents")
    reader.use(locked, config)
    assert reader.read()["sessions"].values["weight"] == 2.0
    reader.use(locked, replace(config, limits=replace(config.limits, maximum_weight=1.0)))
    assert reader.read() == {}
    assert "at most 1, not 2.0" in reader.refused["sessions"]
    assert reader.refused["sessions"].endswith("; the operator's values hold")


def test_a_minimum_that_leaves_too_little_for_the_others_is_ignored(
    config: SidecarConfig, tmp_path: Path
) -> None:
    store = FolderStore(tmp_path / "documents")
    servers = (config.servers[0], replace(config.servers[1], minimum_bytes=30 * MB))
    reader, _ = _reader(store, replace(config, servers=servers))
    store.put(KEY, _settings(minimum_bytes=11 * MB).dumps())
    assert reader.read() == {}
    store.put(KEY, _settings(minimum_bytes=10 * MB).dumps())
    assert reader.read()["sessions"].minimum_bytes == 10 * MB


def test_a_store_that_cannot_be_read_leaves_the_settings_in_force(
    config: SidecarConfig, tmp_path: Path
) -> None:
    store = FolderStore(tmp_path / "documents")
    reader, metrics = _reader(store, config)
    store.put(KEY, _settings(weight=2.0).dumps())
    good = reader.read()

    class Broken(FolderStore):
        def get(self, key: str, max_bytes: int) -> bytes | None:
            raise StoreError("no route")

    reader.use(Broken(tmp_path), config)
    assert reader.read() == good
    assert metrics.value("settings_unread") == len(config.servers)


@given(
    st.builds(
        TeamSettings,
        set_by=st.text("abc", min_size=1, max_size=20),
        set_at=st.datetimes().map(lambda time: time.isoformat()),
        values=st.fixed_dictionaries(
            {},
            optional={
                "weight": st.just(0.0) | st.floats(1e-9, 100),
                "backend_latency_seconds": st.just(0.0) | st.floats(1e-9, 60),
                "minimum_bytes": st.integers(0, 1 << 40),
                "latency_bound_seconds": st.floats(1e-6, 10),
                "miss_bound_per_second": st.floats(1e-6, 1e6),
            },
        ),
    )
)
def test_a_document_is_read_back_as_it_was_written(settings: TeamSettings) -> None:
    again = TeamSettings.loads(settings.dumps(), "key")
    assert again == settings
    assert again.version == settings.version


def test_the_version_tells_contents_apart() -> None:
    assert _settings(weight=1.0).version != _settings(weight=2.0).version


def _weights(*words: object) -> int:
    try:
        return main(["weights", *map(str, words)])
    except SystemExit as end:
        return int(end.code or 0)


def test_the_command_sets_shows_and_unsets(
    path: Path, config: SidecarConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("sessions", "--config", path)
    assert _weights("show", *where) == 0
    nothing = "sessions has no settings of its team: the operator's or the defaults hold\n"
    assert capsys.readouterr().out == nothing
    assert _weights("show", *where, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {}
    assert _weights("set", *where, "--weight", 3, "--by", "ann") == 0
    assert _weights("set", *where, "--backend-latency", "80ms", "--minimum", "8mb") == 0
    capsys.readouterr()
    assert _weights("show", *where) == 0
    first, *told = capsys.readouterr().out.splitlines()
    assert first.startswith("set by ")
    assert told.pop().endswith("the same with --why")
    assert told == [
        "  weight: 3 (its team's, where the default is 1)",
        "  backend_latency: 80ms (its team's, where the operator's is 50ms)",
        "  minimum: 8 MiB (its team's, where the default is 2 MiB)",
    ]
    without = ("sessions", "--node", "n1", "--folder", path.parent / "documents")
    assert _weights("show", *without) == 0
    assert "  weight: 3 (its team's)\n" in capsys.readouterr().out
    assert _weights("show", *where, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["weight"] == 3
    assert shown["backend_latency_seconds"] == pytest.approx(0.08)
    assert shown["minimum_bytes"] == 8 * MB
    assert shown["set_by"]
    assert shown["set_at"]
    assert _weights("unset", *where, "--minimum") == 0
    reader, _ = _reader(FolderStore(path.parent / "documents"), config)
    assert reader.read()["sessions"].values == {"weight": 3, "backend_latency_seconds": 0.08}
    capsys.readouterr()
    assert _weights("unset", *where) == 0
    assert capsys.readouterr().out == f"{nothing}that counts from the sidecar's next plan on\n"
    assert _weights("unset", *where) == 1
    assert capsys.readouterr().out == nothing
    assert reader.read() == {}


def test_a_place_that_no_sidecar_reads_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("sessions", "--node", "n1", "--folder", tmp_path / "documents")
    for wrong in (tmp_path / "documents", tmp_path / "documents" / "settings" / "n1"):
        assert _weights("set", *where, "--weight", 3) == 2
        assert f"there is no {wrong}, so no sidecar" in capsys.readouterr().err
        (tmp_path / "documents").mkdir(exist_ok=True)
    assert list((tmp_path / "documents").iterdir()) == []
    (tmp_path / "documents" / "settings" / "n1").mkdir(parents=True)
    assert _weights("unset", *where) == _weights("unset", *where, "--weight") == 1
    assert _weights("set", *where, "--weight", 3) == 0
    assert _weights("show", "sessions") == 2
    assert "say where the settings lie: --config FILE" in capsys.readouterr().err


def test_settings_of_no_server_are_told_once(
    config: SidecarConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = FolderStore(tmp_path / "documents")
    reader, _ = _reader(store, config)
    store.put("settings/n1/sesions.json", _settings(weight=2.0).dumps())
    reader.read()
    reader.read()
    (record,) = caplog.records
    assert record.getMessage() == (
        "settings/n1/sesions.json is ignored: the node has no such server"
    )


def test_names_of_no_server_fill_neither_log_nor_memory(
    config: SidecarConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = FolderStore(tmp_path / "documents")
    reader, _ = _reader(store, config)
    store.put("settings/n1/sessions.json", _settings(weight=2.0).dumps())
    folder = tmp_path / "documents" / "settings" / "n1"
    with caplog.filtering(RepeatFilter()):
        for turn in "xy":
            for letters in product("abcdefghijkl", repeat=3):
                (folder / f"{turn}{''.join(letters)}.json").touch()
            assert reader.read()["sessions"].values == {"weight": 2.0}
        told = [one for one in caplog.messages if "no such server" in one]
    assert len(told) == 10
    assert len(reader._unknown) == 20
    assert len(store.names("settings/n1")) <= MOST_NAMES


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("sessions", "--weight", "11"), "at most 10"),
        (("sessions", "--minimum", "17mb"), "--minimum must be at most"),
        (("sessions", "--weight", "nan"), "weight"),
        (("sessions",), "at least one setting"),
        (("orders", "--weight", "1"), "no server 'orders'"),
        (("../pages", "--weight", "1"), "'../pages'"),
    ],
)
def test_the_command_refuses_what_the_sidecar_would_ignore(
    words: tuple[str, ...], why: str, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _weights("set", *words, "--config", path) == 2
    assert why in capsys.readouterr().err
    assert not (path.parent / "documents").exists()


def test_a_minimum_above_the_operators_maximum_is_refused_by_the_command_too(
    write_node: WriteNode, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_node(URLS, budget="40mb", more=LIMITS, server_keys='maximum = "4mb"')
    assert _weights("set", "sessions", "--minimum", "5mb", "--config", path) == 2
    sentence = "minimum_bytes 5242880 is more than the operator's maximum, 4 MiB"
    assert sentence in capsys.readouterr().err
    config = load_config(path)
    reader, metrics = _reader(FolderStore(path.parent / "documents"), config)
    FolderStore(path.parent / "documents").put(KEY, _settings(minimum_bytes=5 * MB).dumps())
    assert reader.read() == {}
    assert metrics.value("settings_refused") == 1
    assert _weights("set", "sessions", "--minimum", "4mb", "--config", path) == 0


def test_a_team_needs_no_configuration_file(
    cloud: Any, config: SidecarConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("sessions", "--node", "n1", "--bucket", "observations", "--region", "us-east-1")
    assert _weights("set", *where, "--endpoint-url", cloud.endpoint_url, "--weight", 4) == 0
    store = S3Store("observations", "us-east-1", cloud.endpoint_url)
    reader, _ = _reader(store, config)
    assert reader.read()["sessions"].values["weight"] == 4
    assert _weights("unset", *where, "--endpoint-url", cloud.endpoint_url) == 0
    assert _weights("set", "sessions", "--node", "n1", "--weight", 4) == 2


def test_a_team_is_refused_by_the_limits_that_its_nodes_sidecar_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "settings" / "n1").mkdir(parents=True)
    where = ("sessions", "--node", "n1", "--folder", tmp_path)
    assert _weights("set", *where, "--weight", 100) == 0
    assert "node n1 has told nothing of a server sessions so far" in capsys.readouterr().err
    store, key = FolderStore(tmp_path), report_key("n1", "sessions")
    head = {"kind": "spreds.report", "version": 1, "at_seconds": 1.7e9, "cycle": 7}
    store.put(key, json.dumps({**head, "sentences": []}).encode())  # as by an older sidecar
    assert _weights("set", *where, "--weight", 100) == 0
    assert capsys.readouterr().err == ""
    store.put(key, report_document(1.7e9, 7, ["It is so."], SettingsLimits(16 * MB)))
    assert _weights("set", *where, "--weight", 100) == 2
    error = capsys.readouterr().err
    assert error.startswith(
        "spreds: weights set sessions: --weight must be at least 0.1 and at most 10"
    )
    assert _weights("set", *where, "--minimum", "900gb", "--weight", 4, "--dry-run") == 2
    assert "--minimum must be at most 16 MiB" in capsys.readouterr().err
    assert _weights("set", *where, "--weight", 4) == 0


def test_who_is_refused_for_what_was_set_before_is_told_so(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A minimum was refused for a weight that nobody had typed."""
    place = ("sessions", "--node", "n1", "--folder", tmp_path / "documents")
    (tmp_path / "documents/settings/n1").mkdir(parents=True)
    assert _weights("set", *place, "--weight", 99) == 0  # nobody has told of limits yet
    assert _weights("set", "sessions", "--config", path, "--minimum", "8mb") == 2
    words = "--weight must be at least 0.1 and at most 10, not 99.0; that was set before: "
    assert words + "`spreds weights unset` with --weight removes it" in capsys.readouterr().err
    assert _weights("set", "sessions", "--config", path, "--weight", 98) == 2
    assert "that was set before" not in capsys.readouterr().err


def test_a_folder_beside_a_bucket_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ("sessions", "--node", "n1", "--folder", tmp_path, "--bucket", "b", "--region", "r")
    assert _weights("show", *place) == 2
    assert "--folder and --bucket: settings lie in one of them" in capsys.readouterr().err


def test_a_document_larger_than_allowed_shows(store: Store) -> None:
    store.put("large", b"x" * 100)
    assert store.get("large", 99) == b"x" * 100
    assert store.get("large", 10) == b"x" * 11
    assert store.get("absent", 10) is None
    store.delete("large")
    store.delete("large")
    assert store.get("large", 10) is None


def test_a_store_that_fails_says_so(cloud: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file"):
        FolderStore(tmp_path / "file").put("key", b"")
    with pytest.raises(StoreError, match="not-there"):
        S3Store("not-there", "us-east-1", cloud.endpoint_url).put("key", b"")
    with pytest.raises(StoreError, match="not-there"):
        S3Store("not-there", "us-east-1", cloud.endpoint_url).get("key", 9)


def test_a_team_cannot_lower_the_operators_minimum() -> None:
    server = ServerConfig("a", "", minimum_bytes=8 << 20)
    for wanted, minimum in ((0, 8 << 20), (64, 8 << 20), (9 << 20, 9 << 20)):
        settings = TeamSettings("team", "2026-01-01T00:00:00+00:00", {"minimum_bytes": wanted})
        assert effective(server, settings).minimum_bytes == minimum

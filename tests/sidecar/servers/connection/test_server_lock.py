"""Two sidecars never control one server or one endpoint, whatever their configurations say."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest
import redis

from sidecar.cli import main
from sidecar.config.node import load_config
from sidecar.servers.connection import server_lock
from sidecar.servers.connection.redis_server import RedisServer
from sidecar.servers.connection.server_errors import ServerRefusedError
from sidecar.servers.connection.server_lock import (
    CLIENT_NAME,
    SameServerError,
    ServerLock,
    ServerTakenError,
)
from solver_lambda.documents.units import format_size
from tests.sidecar.fixtures import StartServer, WriteNode
from tests.sidecar.sidecar_process import sidecar_process
from workloads.local_server import LocalServer, free_port

MB = 1 << 20
MORE = '[cycle]\nmaximum_age = "500ms"\n[controller]\nkind = "embedded"\n'


@pytest.fixture
def server(start_server: StartServer) -> LocalServer:
    return start_server("12mb")


@pytest.fixture
def path(write_node: WriteNode, server: LocalServer) -> Path:
    return write_node({"a": server.url}, budget="24mb", more=MORE)


def _another(path: Path, *changes: tuple[str, str]) -> Path:
    """The same node's file with other words."""
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    other = path.with_name("other.toml")
    other.write_text(text)
    return other


OTHER_STATE = ("state.json", "other.json")
OTHER_ENDPOINT = ("/samples", "/others")


def test_a_server_is_refused_to_a_configuration_with_another_state_and_endpoint(
    path: Path, server: LocalServer
) -> None:
    other = _another(path, OTHER_STATE, OTHER_ENDPOINT, ('"24mb"', '"10mb"'))
    with sidecar_process(path) as first:
        first.read_until("plan: cycle")
        with sidecar_process(other) as second:
            refusal = second.read_until("spreds:")
            assert "server a: it is controlled by the sidecar" in refusal
            assert f"process id {first.process.pid}\n" in refusal
            assert second.process.wait(30) == 1
        # A restarted server is locked anew.
        server.restart()
        first.read_until("server a restarted")
        with sidecar_process(other) as second:
            assert f"process id {first.process.pid}\n" in second.read_until("spreds:")
        assert server.client.config_get("maxmemory")["maxmemory"] == str(12 * MB)
        first.end(signal.SIGKILL)
    with sidecar_process(other) as third:
        third.read_until("servers are at their sizes", "a 10 MiB")
        assert third.end() == 0


def test_an_endpoint_is_refused_to_a_second_sidecar_with_other_servers(
    path: Path, server: LocalServer, start_server: StartServer
) -> None:
    other = _another(path, OTHER_STATE, (server.url, start_server("12mb").url))
    with sidecar_process(path) as first:
        first.read_until("plan: cycle")
        with sidecar_process(other) as second:
            assert "samples.lock" in second.read_until("each server one sidecar only")
            assert second.process.wait(30) == 1
        # The first still has its socket.
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(path.with_name("samples")))


def test_what_lies_at_the_endpoint_and_is_no_dead_socket_is_not_removed(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = path.with_name("samples")
    place.write_text("somebody's")
    assert main(["run", str(path)]) == 1
    assert f"{place} exists and is not a socket" in capsys.readouterr().err
    assert place.read_text() == "somebody's"
    place.unlink()
    with socket.socket(socket.AF_UNIX) as program:
        program.bind(str(place))
        program.listen()
        assert main(["run", str(path)]) == 1
        assert f"another program listens at {place}" in capsys.readouterr().err
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(place))


def test_a_sidecar_elsewhere_is_seen_through_the_server(path: Path, server: LocalServer) -> None:
    elsewhere = redis.Redis.from_url(server.url, client_name="spreds:far-away:7:0123cafe")
    elsewhere.ping()
    with sidecar_process(path) as second:
        assert "process id 7 on far-away" in second.read_until("spreds:")
        assert second.process.wait(30) == 1
    assert server.client.config_get("spreds-endpoint")["spreds-endpoint"] == ""
    elsewhere.close()
    with sidecar_process(path) as third:
        third.read_until("plan: cycle")
        assert third.end() == 0


def clients(names: dict[int, str], user: str = "default") -> str:
    """Return a short CLIENT LIST."""
    return "".join(
        f"id={one} addr=127.0.0.1:1 name={name} age=1 lib-name={name} user={user} lib-ver=\n"
        for one, name in names.items()
    )


def test_of_two_that_come_at_once_the_older_connection_wins(path: Path) -> None:
    ours, theirs = server_lock.CLIENT_NAME, "spreds:far-away:7:0123cafe"
    server_lock.check_clients(clients({3: ours, 4: theirs}))
    # Our own old connection, which the server has not closed yet, is nobody else.
    server_lock.check_clients(clients({3: ours, 5: ours}))
    with pytest.raises(ServerTakenError, match="far-away"):
        server_lock.check_clients(clients({4: theirs, 5: ours}))
    # Another user of the server does not count, and a server without users has one for all.
    server_lock.check_clients(clients({4: theirs}, "mallory") + clients({5: ours}))
    with pytest.raises(ServerTakenError, match="far-away"):
        server_lock.check_clients(f"id=4 name={theirs}\nid=5 name={ours}")


def test_who_takes_our_very_name_is_not_us() -> None:
    """All servers know it. Another user's connections made a sidecar leave its server alone."""
    ours, theirs = server_lock.CLIENT_NAME, "spreds:evil-host:1:deadbeef"
    mallory = clients({4: theirs, 9: ours}, "mallory")
    server_lock.check_clients(mallory + clients({5: ours}))
    server_lock.check_clients(mallory + clients({5: ours}, "spreds"), "spreds")
    server_lock.check_clients(mallory)
    older = clients({3: "spreds:far-away:7:0123cafe", 5: ours}, "spreds")
    with pytest.raises(ServerTakenError, match="far-away"):
        server_lock.check_clients(mallory + older, "spreds")


def test_a_name_that_no_host_has_is_nobodys() -> None:
    """Its words stood in each plan's reasons, and made all plans too long."""
    ours = server_lock.CLIENT_NAME
    long = f"spreds:{'a' * 65}:7:0123cafe"
    server_lock.check_clients(clients({4: long, 5: ours}))
    with pytest.raises(ServerTakenError, match="a" * 64):
        server_lock.check_clients(clients({4: long.replace("a", "", 1), 5: ours}))


@pytest.mark.parametrize(
    "name",
    ["spreds:cache-warmer", "spreds:", "spreds:web:7", "spreds:web:7:cafe", "spreds:a:b:0123cafe"],
)
def test_an_application_that_names_itself_after_us_is_no_sidecar(
    name: str, path: Path, server: LocalServer
) -> None:
    server_lock.check_clients(clients({3: name, 5: CLIENT_NAME}))
    if name == "spreds:cache-warmer":
        application = redis.Redis.from_url(server.url, client_name=name)
        application.ping()
        with sidecar_process(path) as process:
            process.read_until("plan: cycle")
            assert process.end() == 0


def test_our_own_name_has_the_form_that_is_looked_for() -> None:
    theirs = CLIENT_NAME[:-8] + "01234567"
    with pytest.raises(ServerTakenError, match=f"process id {os.getpid()} on "):
        server_lock.check_clients(clients({4: theirs, 5: CLIENT_NAME}))


def test_the_rights_to_inform_and_to_size_are_enough(path: Path, server: LocalServer) -> None:
    rules = ("on", "nopass", "+info", "+config|get", "+config|set")
    server.client.execute_command("ACL", "SETUSER", "least", *rules)
    path.write_text(path.read_text() + 'username = "least"\n')
    (config,) = load_config(path).servers
    connection = RedisServer(config)
    reading = connection.read()
    connection.announce(reading.run_id)
    assert reading.maxmemory_bytes == 12 * MB
    with pytest.raises(ServerRefusedError, match="no permissions"):
        connection.ask("CLIENT LIST")
    connection.close()
    with sidecar_process(path) as process:
        process.read_until("plan: cycle")
        assert process.end() == 0


def test_of_one_server_by_two_names_the_second_is_left_alone_and_counted_once(
    path: Path, capsys: pytest.CaptureFixture[str], start_server: StartServer
) -> None:
    port = free_port()
    server = start_server("16mb", port=port)
    url = f"redis://127.0.0.1:{port}"
    text = path.read_text() + f'[[server]]\nname = "b"\nurl = "{url}"\n'
    path.write_text(text.replace(load_config(path).servers[0].url, server.url))
    with sidecar_process(path) as process:
        process.read_until("server b is left alone", "it is one server with another")
        process.read_until("servers are as near")
        assert main(["status", str(path)]) == 1
        size_bytes = int(server.client.config_get("maxmemory")["maxmemory"])
        assert process.end() == 0
    printed = capsys.readouterr().out
    assert "problem: b cannot be read: it is one server with another" in printed
    assert "b is left alone" in printed
    assert f"total {format_size(size_bytes)} of 24 MiB" in printed
    assert size_bytes == 16 * MB  # as it was found: b counts with what it leaves


def test_a_lock_that_was_asked_for_often_still_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_lock, "_BACKLOG", 4)
    monkeypatch.setattr(server_lock, "_PATIENCE_SECONDS", 0.01)
    lock, run_id = server_lock.CurrentProcessLock(), "e" * 40
    for _ in range(50):
        lock.hold(run_id)
        assert server_lock.holder_of(run_id) == os.getpid()
    lock.release()


@pytest.mark.skipif(os.getuid() != 0, reason="to be another user takes root")
def test_another_user_with_the_process_id_of_ours_is_not_us(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The kernel keeps the process id of who began to listen, also after his end."""
    run_id = "d" * 40
    with socket.socket(socket.AF_UNIX) as stranger:
        os.seteuid(65534)
        try:
            stranger.bind(server_lock._address(run_id))
            stranger.listen()
        finally:
            os.seteuid(0)
        ServerLock(run_id).close()
    assert "the user 65534 holds the name of a server's lock" in caplog.text


def test_a_lock_is_free_again_when_it_is_closed() -> None:
    lock = ServerLock("f" * 40)
    with pytest.raises(SameServerError, match="one server with another"):
        ServerLock("f" * 40)
    lock.close()
    ServerLock("f" * 40).close()

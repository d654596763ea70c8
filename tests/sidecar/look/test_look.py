"""``spreds look``: which servers, what it says of those that it cannot look at, what it leaves."""

from __future__ import annotations

import html
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest

from sidecar.cli import main
from sidecar.config.addresses import cli_place
from sidecar.config.node import load_config
from sidecar.look.local_servers import LocalServer as LocalFound
from sidecar.look.local_servers import local_servers
from sidecar.look.look_rights import acl_line
from sidecar.look.looking import Looking
from sidecar.look.node_file import Access, free_page_port, named_servers, node_config, node_text
from sidecar.look.server_questions import CannotBeLookedAtError
from tests.secret_file import write_secret
from tests.sidecar.altered_server import altered
from tests.sidecar.fixtures import StartServer
from workloads.local_node import wait_until
from workloads.local_server import BUILD, LocalServer, free_port

STOCK = BUILD / "bin" / "redis-server-stock"
Look = Callable[..., tuple[int, str, str]]
PATIENCE_SECONDS = 60.0


@pytest.fixture
def look(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Look:
    """The command, for a second: exit code, stdout, stderr."""
    monkeypatch.delenv("REDISCLI_AUTH", raising=False)

    def run(*words: str | LocalServer, seconds: str = "1s") -> tuple[int, str, str]:
        typed = [one.url if isinstance(one, LocalServer) else str(one) for one in words]
        code = main(["look", *typed, "--for", seconds])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return look_or(run)


def look_or(run: Look) -> Look:
    """Return a look that gives the exit code where argparse ends the program."""

    def checked(*words: Any, **how: Any) -> tuple[int, str, str]:
        try:
            return run(*words, **how)
        except SystemExit as stopped:
            return int(stopped.code or 0), "", ""

    return checked


def filled(start_server: StartServer, keys: int = 500, **settings: object) -> LocalServer:
    server = start_server("4mb", binary=STOCK, **settings)
    server.client.mset({f"secret-name:{place}": "x" * 100 for place in range(keys)})
    return server


def test_json_has_servers_and_no_names_of_keys(start_server: StartServer, look: Look) -> None:
    first, second = filled(start_server), filled(start_server)
    code, out, err = look(f"a={first.url}", f"b={second.url}", "--json")
    assert code == 0
    told = json.loads(out)
    assert [one["name"] for one in told["servers"]] == ["a", "b"]
    assert told["budget_bytes"] == 2 * (4 << 20)
    assert all(one["keys_followed"] == 500 for one in told["servers"])
    assert all(0 < one["cost_ratio"] < 0.1 for one in told["servers"])
    assert "secret-name" not in out + err


def test_the_answer_is_one_screen(start_server: StartServer, look: Look) -> None:
    servers = [filled(start_server) for _ in range(3)]
    # As those that it finds itself are named.
    code, out, _ = look(*(f"redis-1000{at}={one.url}" for at, one in enumerate(servers)))
    assert code == 0
    assert out.count("redis-10001") <= 2  # in one table, and among the costs
    assert len(out.splitlines()) <= 24
    assert max(map(len, out.splitlines())) <= 100
    assert out.startswith("Nothing is known yet")  # nobody reads


CANNOT = {
    "lfu": ({"maxmemory-policy": "allkeys-lfu"}, "under which no key has an idle time"),
    "noeviction": ({"maxmemory-policy": "noeviction"}, "it does not evict: noeviction"),
    "volatile-ttl": ({"maxmemory-policy": "volatile-ttl"}, "no curve can be measured"),
    "no-object": ({"rename-command": 'OBJECT ""'}, "has no OBJECT IDLETIME"),
}


@pytest.mark.parametrize("kind", CANNOT)
def test_what_cannot_be_looked_at_is_named_and_the_others_go_on(
    kind: str, start_server: StartServer, look: Look
) -> None:
    settings, words = CANNOT[kind]
    server = start_server("4mb", binary=STOCK, **settings)
    server.client.mset({f"{place}": "x" for place in range(10)})
    code, out, err = look(f"odd={server.url}")
    assert (code, out) == (1, "")
    (line,) = [line for line in err.splitlines() if line.startswith("spreds: odd ")]
    assert words in line
    code, out, err = look(f"odd={server.url}", f"good={filled(start_server).url}")
    assert code == 0
    assert words in " ".join(out.split())


def test_replicas_and_empty_servers_are_named(start_server: StartServer, look: Look) -> None:
    port = free_port()
    primary = filled(start_server, port=port)
    replica = start_server("4mb", binary=STOCK, replicaof=f"127.0.0.1 {port}")
    empty = start_server("4mb", binary=STOCK)
    code, _, err = look(f"copy={replica.url}", f"none={empty.url}")
    assert code == 1
    assert ") is a replica: look at its primary" in err
    assert ") holds no key" in err
    code, out, _ = look(f"one={primary.url}", f"two=redis://127.0.0.1:{port}")
    assert code == 0
    assert ") is the same server as one" in out


def test_passwords_come_from_a_file_or_the_environment(
    start_server: StartServer, look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = filled(start_server)
    server.client.config_set("requirepass", "right-secret")
    code, _, err = look(server)
    assert code == 1
    assert "wants a password: --password-file FILE, or REDISCLI_AUTH, has it" in err
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    write_secret(right, "right-secret")
    write_secret(wrong, "wrong-secret")
    assert look(server, "--password-file", str(right))[0] == 0
    code, _, err = look(server, "--password-file", str(wrong))
    assert code == 1
    assert f"does not take the password of --password-file {wrong}" in err
    assert "wrong-secret" not in err
    monkeypatch.setenv("REDISCLI_AUTH", "right-secret")
    # And a server that has none is looked at all the same.
    assert look(server, filled(start_server))[0] == 0


@pytest.mark.parametrize(("name", "no_touch"), [("redis", False), ("valkey91", True)])
def test_the_smallest_user_is_enough(
    name: str, no_touch: bool, start_server: StartServer, look: Look, tmp_path: Path
) -> None:
    binary = BUILD / "bin" / f"{name}-server-stock"
    if not binary.exists():
        pytest.skip(f"{binary} is not built")
    server = start_server("4mb", binary=binary)
    server.client.mset({f"{place}": "x" for place in range(100)})
    line = acl_line("looker", no_touch=no_touch).replace("PASSWORD", "a-password")
    server.client.execute_command(*line.split())
    password = tmp_path / "password"
    write_secret(password, "a-password")
    how = ("--user", "looker", "--password-file", str(password))
    assert look(server, *how)[0] == 0
    assert server.client.acl_log() == []
    # As of who hosts a server, and lets nobody see its settings.
    server.client.execute_command("ACL", "SETUSER", "looker", "-config|get")
    code, out, _ = look(server, *how)
    assert code == 0
    assert "No CONFIG in redis: what it would tell is taken for Redis' defaults" in out
    server.client.execute_command("ACL", "SETUSER", "looker", "-object|idletime")
    code, _, err = look(server, *how)
    assert code == 1
    assert "does not let this user ask OBJECT IDLETIME" in err


@contextmanager
def other_program() -> Iterator[str]:
    """Something that answers, and is no Redis."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            while True:
                try:
                    connected, _ = listening.accept()
                except OSError:
                    return
                with connected:
                    connected.recv(1000)
                    connected.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = Thread(target=answer, daemon=True)
        thread.start()
        yield f"redis://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_other_programs_and_nobody_are_named(look: Look) -> None:
    with other_program() as url:
        code, _, err = look(f"web={url}", f"nobody=redis://127.0.0.1:{free_port()}")
    assert code == 1
    assert f"spreds: web ({url}) cannot be asked: " in err
    assert ") cannot be asked: INFO: Error 111" in err
    assert err.endswith("no server could be looked at\n")


@pytest.mark.parametrize("name", ["redis", "valkey91"])
def test_a_node_of_a_cluster(name: str, start_server: StartServer, look: Look) -> None:
    """It is looked at, by its own keys, until it sends us elsewhere for them."""
    binary = BUILD / "bin" / f"{name}-server-stock"
    if not binary.exists():
        pytest.skip(f"{binary} is not built")
    settings = {"cluster-enabled": "yes", "port": free_port(), "cluster-port": free_port()}
    server = start_server("40mb", binary=binary, **settings)
    server.client.execute_command("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while "cluster_state:ok" not in str(server.client.execute_command("CLUSTER", "INFO")):
        assert time.monotonic() < deadline
    number = 20_000 if name == "valkey91" else 200
    pipeline = server.client.pipeline(transaction=False)
    for place in range(number):
        pipeline.execute_command("SET", f"key:{place}", "x")
    pipeline.execute()
    code, out, err = look(server, "--json")
    assert code == 0, err
    (told,) = json.loads(out)["servers"]
    followed = told["keys_followed"]
    assert followed == 200 or 4_500 < followed < 6_500
    server.client.execute_command("CLUSTER", "DELSLOTSRANGE", "0", "16383")
    code, _, err = look(server)
    assert code == 1
    assert "is a node of a cluster" in err or "holds no key" in err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--backend-latency", "other=5ms"), "there is no such server, but a"),
        (("--config", "node.toml"), "leave the addresses out"),
        (("--password-file", "/nowhere"), "--password-file '/nowhere' cannot be read"),
        (("--init", "/nowhere/node.toml"), "there is no folder /nowhere"),
        (("redis://:word@there:7",), "leave user and password out of the address"),
        (("--budget", "few"), ""),
        (("--backend-latency", "a"), ""),
    ],
)
def test_bad_arguments_end_with_two(words: tuple[str, ...], why: str, look: Look) -> None:
    code, out, err = look("a=redis://127.0.0.1:1", *words)
    assert (code, out) == (2, "")
    assert why in err


def test_it_writes_a_node_file_and_never_over_one(
    start_server: StartServer, look: Look, tmp_path: Path
) -> None:
    server, path = filled(start_server), tmp_path / "node.toml"
    how = (f"pages={server.url}", "--backend-latency", "pages=20ms", "--init", str(path))
    code, out, _ = look(*how)
    assert code == 0
    assert f"{path} is written" in " ".join(out.split())
    config = load_config(path)
    assert config.mode == "recommend"
    (one,) = config.servers
    assert (one.name, one.url, one.backend_latency_seconds) == ("pages", server.url, 0.02)
    assert config.memory.budget_bytes == 4 << 20
    # Teams can set what they want, and small caches have enough keys in the sample.
    assert config.controller.folder == tmp_path / "documents"
    assert config.sampling.is_automatic
    text = path.read_text()
    code, out, err = look(*how)
    assert (code, out) == (2, "")
    assert f"{path} is there already" in err
    assert path.read_text() == text
    code, out, _ = look("--config", str(path), "--json")
    assert code == 0
    assert [one["name"] for one in json.loads(out)["servers"]] == ["pages"]


def test_no_file_is_written_for_servers_whose_sizes_nobody_can_set(
    start_server: StartServer, look: Look, tmp_path: Path
) -> None:
    hosted = filled(start_server, **{"rename-command": 'CONFIG ""'})
    path = tmp_path / "node.toml"
    code, out, err = look(f"pages={hosted.url}", "--init", str(path))
    assert code == 2
    assert out == ""
    assert f"{path} is not written: no CONFIG in any of them" in err
    assert not path.exists()
    # Beside another one it is left out, with what it has.
    own = filled(start_server)
    code, out, _ = look(f"pages={hosted.url}", f"own={own.url}", "--init", str(path))
    assert code == 0
    config = load_config(path)
    assert [one.name for one in config.servers] == ["own"]
    assert config.memory.budget_bytes == 4 << 20
    assert "# Left out: pages, " in path.read_text()


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("redis://127.0.0.1:6380", "-p 6380"),
        ("redis://localhost", "-p 6379"),
        ("rediss://cache:1", "--tls -h cache -p 1"),
        ("redis://[::1]:7", "-h ::1 -p 7"),
        ("unix:///run/a%20b;x.sock", "-s '/run/a b;x.sock'"),
    ],
)
def test_an_address_as_redis_cli_takes_it(url: str, place: str) -> None:
    assert cli_place(url) == place


def test_a_budget_that_nobody_set_is_whole_in_the_file() -> None:
    servers = {"a": "redis://127.0.0.1:6379"}
    assert 'budget = "77MiB"' in node_text(servers, 79733718, {})
    assert 'budget = "76.5MiB"' in node_text(servers, 80216064, {})


def test_a_new_nodes_page_is_at_a_port_of_its_own() -> None:
    """Another node of the machine, or anybody, may be at the first one."""
    with socket.create_server(("127.0.0.1", free_page_port())) as listener:
        taken = listener.getsockname()[1]
        port = free_page_port()
    assert taken != port
    assert f'listen = "127.0.0.1:{port}"' in node_text(
        {"a": "redis://127.0.0.1:6379"}, 1 << 26, {}, page_port=port
    )


def test_it_writes_a_page_that_loads_nothing_and_never_over_a_file(
    start_server: StartServer, look: Look, tmp_path: Path
) -> None:
    server, path = filled(start_server), tmp_path / "report.html"
    code, out, _ = look(f"pages={server.url}", "--html", str(path))
    assert code == 0
    text = path.read_text()
    assert html.escape(out.splitlines()[0]) in text
    loading = re.findall(r"<script|<link|<img|<iframe|\bsrc=|\bhref=|url\(|@import", text)
    assert (loading, "secret-name" in text) == ([], False)
    code, out, err = look(f"pages={server.url}", "--html", str(path))
    assert (code, out) == (2, "")
    assert f"{path} is there already" in err
    assert path.read_text() == text


@pytest.mark.parametrize("option", ["--html", "--init"])
def test_a_page_that_cannot_be_written_loses_no_answer_and_leaves_no_half(
    option: str, start_server: StartServer, look: Look, tmp_path: Path
) -> None:
    server, path = filled(start_server), tmp_path / "report"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))  # as on a disk that is full
    try:
        code, out, err = look(f"pages={server.url}", option, str(path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (code, path.exists()) == (2, False)
    assert ("pages" in out) is (option != "--init")  # a short look for a file tells no sizes
    assert f"{path}: File too large" in err


def test_ctrl_c_prints_what_is_known(start_server: StartServer) -> None:
    server = filled(start_server)
    command = [sys.executable, "-m", "sidecar.cli", "look", server.url, "--for", "10m"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    deadline = time.monotonic() + PATIENCE_SECONDS
    while "cmdstat_memory|usage" not in server.client.info("commandstats"):
        assert time.monotonic() < deadline
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, err
    assert "misses/s" in out
    assert all(" of 10:00: " in line for line in err.splitlines())


def test_it_tells_how_far_it_is_where_no_terminal_is(
    start_server: StartServer, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sidecar.commands.look.look._LEAST_PROGRESS_SECONDS", 0.0)
    monkeypatch.setattr("sidecar.commands.look.look._MOST_PROGRESS_LINES", 1 << 40)
    code, out, err = look(f"a={filled(start_server).url}", "--json")
    assert code == 0
    assert json.loads(out)
    assert "of 0:01: 1 server, " in err


def test_servers_that_let_us_wait_do_so_at_once() -> None:
    asked = Barrier(2)

    def let_wait(listening: socket.socket) -> None:
        with listening.accept()[0] as connected:
            asked.wait(PATIENCE_SECONDS)
            with suppress(OSError):
                connected.sendall(b"-ERR at once\r\n" * 10)

    with (
        socket.create_server(("127.0.0.1", 0)) as first,
        socket.create_server(("127.0.0.1", 0)) as second,
    ):
        threads = [Thread(target=let_wait, args=(one,)) for one in (first, second)]
        for thread in threads:
            thread.start()
        ports = {name: one.getsockname()[1] for name, one in (("a", first), ("b", second))}
        urls = {name: f"redis://127.0.0.1:{port}" for name, port in ports.items()}
        looking = Looking(node_config(urls, 8 << 20, {}).servers)
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
    assert [(one.name, "at once" in one.why) for one in looking.refused] == [
        ("a", True),
        ("b", True),
    ], looking.refused


def test_a_server_that_ends_meanwhile_is_named(start_server: StartServer) -> None:
    first, second = filled(start_server), filled(start_server)
    config = node_config({"first": first.url, "second": second.url}, 8 << 20, {})
    seconds = 0.0

    def wait(more: float) -> None:
        nonlocal seconds
        seconds += more
        if seconds > 5:
            first.stop()

    looking = Looking(config.servers, clock=lambda: seconds, wait=wait)
    looking.run(30.0, 8 << 20, lambda: False, lambda *_: None)
    assert [look.config.name for look in looking.looks] == ["second"]
    (gone,) = looking.refused
    assert (gone.name, gone.why[:26]) == ("first", "does not answer any more: ")
    assert [one.config.name for one in looking.seen()] == ["second"]
    looking.close()


def test_of_a_server_that_was_not_asked_yet_nothing_is_known(start_server: StartServer) -> None:
    config = node_config({"one": filled(start_server).url}, 8 << 20, {})
    seconds = iter(range(100))
    looking = Looking(config.servers, clock=lambda: next(seconds), wait=lambda _: None)
    looking.run(30.0, 8 << 20, lambda: True, lambda *_: None)
    (seen,) = looking.seen()
    assert (seen.estimate, seen.followed) == (None, 0)
    looking.close()


def test_a_server_that_is_filled_meanwhile_does_not_fill_the_process(
    start_server: StartServer,
) -> None:
    """A small one, all of whose keys are followed."""
    server = filled(start_server)
    config = node_config({"one": server.url}, 8 << 20, {})
    seconds = 0.0

    def wait(more: float) -> None:
        nonlocal seconds
        seconds += more
        if seconds > 5:
            server.client.mset({f"more{number}": "" for number in range(20_000)})

    looking = Looking(config.servers, clock=lambda: seconds, wait=wait, most_keys=1_000)
    looking.run(30.0, 8 << 20, lambda: False, lambda *_: None)
    (refused,) = looking.refused
    assert refused.why == "has many times the keys that it had: look again"
    looking.close()


def test_servers_of_this_machine_are_found(start_server: StartServer) -> None:
    port = free_port()
    at_port = start_server("4mb", binary=STOCK, port=port)
    at_socket = start_server("4mb", binary=STOCK)
    found = {one.process_id: one.url for one in local_servers() if one.is_believed}
    assert found[at_port.process.pid] == f"redis://127.0.0.1:{port}"
    assert found[at_socket.process.pid] == at_socket.url


def test_a_name_that_looks_like_a_row_of_the_table_is_none(start_server: StartServer) -> None:
    """Anybody had a server left out, or the password sent to another socket of root's."""
    server = start_server("4mb", binary=STOCK)
    path = server.url.removeprefix("unix://")
    rows = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()]
    (inode,) = (row[6] for row in rows if row[3] == "00010000" and row[7:] == [path])
    with socket.socket(socket.AF_UNIX) as elsewhere, socket.socket(socket.AF_UNIX) as named:
        other = str(server.folder / "o")
        elsewhere.bind(other)
        elsewhere.listen()
        named.bind(f"\0x\n1: 2 0 10000 1 01 {inode} {other}\ny")
        found = {one.process_id: one.url for one in local_servers() if one.is_believed}
    assert found[server.process.pid] == server.url


def test_what_any_user_may_have_started_is_not_believed() -> None:
    own, other = os.geteuid(), 54_321
    for users, may in (({own}, True), ({other}, False), ({own, other}, False), ((), False)):
        found = LocalFound(1, "redis://127.0.0.1:1", frozenset(users))
        assert found.is_believed == may


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
@pytest.mark.parametrize(("makes", "runs"), [(54_321, 0), (0, 54_321)])
def test_a_socket_and_its_process_of_two_users_are_of_both(makes: int, runs: int) -> None:
    """As ``su`` has it, which waits for a password under the name that a stranger gives it; and as
    a service that listened as root, and runs as a stranger since."""
    os.seteuid(makes)
    try:
        listening = socket.create_server(("127.0.0.1", 0))
    finally:
        os.seteuid(0)
    port = listening.getsockname()[1]
    with (
        listening,
        subprocess.Popen(
            ["redis-server", "-c", "read -r line"],
            executable="/bin/sh",
            stdin=subprocess.PIPE,
            pass_fds=[listening.fileno()],
            user=runs,
        ) as process,
    ):
        # Its title is there a moment after the program is.
        wait_until(lambda: Path(f"/proc/{process.pid}/cmdline").read_bytes(), local_servers)
        (found,) = (one for one in local_servers() if one.process_id == process.pid)
        assert found.url == f"redis://127.0.0.1:{port}"
        assert found.users == {makes, runs}
        assert not found.is_believed
        process.communicate(b"\n")


def test_a_title_is_not_believed_where_open_files_can_be_seen() -> None:
    """Whoever has it may send the password to any program that listens here."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        title = f"redis-server *:{listening.getsockname()[1]}"
        with subprocess.Popen(
            [title, "-c", "read -r line"], executable="/bin/sh", stdin=subprocess.PIPE
        ) as process:
            command = Path(f"/proc/{process.pid}/cmdline")
            wait_until(lambda: command.read_bytes().startswith(title.encode()), lambda: title)
            assert process.pid not in {one.process_id for one in local_servers()}
            process.communicate(b"\n")


def test_a_title_tells_where_others_open_files_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sidecar.look.local_servers._open_sockets", lambda *_: None)
    titles = {
        "10": b"/usr/bin/redis-server *:6379\0",
        "11": b"valkey-server 10.0.0.5:7000 [cluster]\0",
        # The kernel says whose a Unix socket is: here this process'.
        f"{os.getpid()}": b"redis-server unixsocket:%s\0" % os.fsencode(tmp_path / "a.sock"),
        "12": b"redis-server unixsocket:%s\0" % os.fsencode(tmp_path / "a.sock"),
        "13": b"python\0redis-server.py\0",
        # There is nobody here, or it would be another address.
        "14": b"redis-server 10.0.0.6:7000\0",
        "15": b"redis-server unixsocket:/run/redis/none.sock\0",
        "16": b"redis-server unixsocket:/run/a@b\0",
        "18": b"redis-server 127.0.0.1:6379\0",  # a stranger's
        # Any user's may be as long as the machine's memory.
        "17": b"x" * 9_000 + b"/redis-server *:6379\0",
    }
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "a.sock"))
    listening.listen()
    line = "0: {}:{:04X} 00000000:0000 0A 0:0 0:0 0 7 0 {}\n"
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "tcp").write_text(
        line.format("00000000", 6379, 1) + line.format("0500000A", 7000, 2)
    )
    # A name has what it likes in it, also ends of lines.
    (tmp_path / "net" / "unix").write_bytes(
        b"0: 2 0 00010000 1 1 5 /tmp/\xff\n0: 2 0 00000000 1 1 6 @a\n0: 2 0 zz 1 1 7 /tmp/x\n"
    )
    for process_id, title in titles.items():
        (tmp_path / process_id).mkdir()
        (tmp_path / process_id / "cmdline").write_bytes(title)
        user = {"18": 54_321, f"{os.getpid()}": os.geteuid()}.get(process_id, 7)
        uids = "\t".join([str(user)] * 4)
        (tmp_path / process_id / "status").write_text(f"Name:\tx\nUid:\t{uids}\n")
    with listening:
        found = {one.process_id: one.url for one in local_servers(tmp_path)}
    assert found == {
        10: "redis://127.0.0.1:6379",
        11: "redis://10.0.0.5:7000",
        os.getpid(): f"unix://{tmp_path}/a.sock",
    }


def test_each_server_has_a_name_of_its_own() -> None:
    urls = ["redis://127.0.0.1:6380", "unix:///run/a b.sock", "redis://cache-1", "x=redis://c:7"]
    assert named_servers(["127.0.0.1:7", "b=cache-2:8", "[::1]:9"]) == {
        "redis-7": "redis://127.0.0.1:7",
        "b": "redis://cache-2:8",
        "redis-9": "redis://[::1]:9",
    }
    assert named_servers([*urls, "rediss://cache-1"]) == {
        "redis-6380": urls[0],
        "a-b": urls[1],
        "cache-1": urls[2],
        "x": "redis://c:7",
        "cache-1-2": "rediss://cache-1",
    }


def test_a_strangers_server_is_looked_at_only_if_it_is_named(
    start_server: StartServer, look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """He may say anything of it, also that it is another one; and whoever uses the file tells it
    the password."""
    own, path = filled(start_server), tmp_path / "node.toml"
    asked = []

    def note(question: bytes, part: bytes) -> bytes:
        asked.append(question)
        return part

    with altered(own, note) as other:
        users = {other: 54_321, own.url: os.geteuid()}
        found = [LocalFound(1, url, frozenset({user})) for url, user in users.items()]
        monkeypatch.setattr("sidecar.commands.look.look.local_servers", lambda: found)
        code, out, err = look("--init", str(path), "--json")
        assert code == 0, err
        (line,) = err.splitlines()
        assert line.startswith(f"spreds: {other} is not looked at, as its socket is of uid 54321: ")
        assert "name the address" in line
        assert not asked
        told = json.loads(out)
        assert ([one["url"] for one in told["servers"]], told["not_looked_at"]) == ([own.url], [])
        assert told["budget_bytes"] == 4 << 20
        assert other not in path.read_text()
        monkeypatch.setattr("sidecar.commands.look.look.local_servers", lambda: found[:1])
        assert look()[0] == 1
        assert not asked
        assert look(other)[0] == 0
        assert asked


def test_strangers_crowd_no_server_out_and_fill_no_screen(
    start_server: StartServer, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [LocalFound(n, f"redis://127.0.0.1:{n}", frozenset({54_321})) for n in range(1, 60)]
    found.append(LocalFound(60, filled(start_server).url, frozenset({os.geteuid()})))
    monkeypatch.setattr("sidecar.commands.look.look.local_servers", lambda: found)
    code, out, err = look("--json")
    assert code == 0
    assert len(err.splitlines()) == 11
    assert "49 more" in err
    assert len(json.loads(out)["servers"]) == 1


def test_a_server_that_answers_slowly_is_left_when_the_time_is_over(
    start_server: StartServer,
) -> None:
    config = node_config({"one": filled(start_server).url}, 8 << 20, {})
    seconds = iter(range(100))
    looking = Looking(config.servers, clock=lambda: next(seconds), wait=lambda _: None)
    looking.run(3.0, 8 << 20, lambda: False, lambda *_: None)
    assert [one.why for one in looking.refused] == [
        "answers so slowly that its keys were not found"
    ]
    looking.close()


def test_a_server_without_a_password_is_looked_at_beside_those_with_one(
    start_server: StartServer, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDISCLI_AUTH", "a-password")
    code, out, err = look(filled(start_server))
    assert code == 0, err
    assert "does not take the password" not in out


def test_a_server_that_a_sidecar_samples_is_left_to_it(
    start_server: StartServer, look: Look
) -> None:
    server = filled(start_server, loadmodule=BUILD / "lib" / "spreds.so")
    assert look(server)[0] == 0
    (endpoint,) = server.client.config_get("*.endpoint")
    server.client.config_set(endpoint, "ipc:///nowhere/s")
    code, _, err = look(server)
    assert code == 1
    assert "is sampled by a sidecar" in err
    assert "`spreds plan FILE` has its plan" in err


def test_answers_that_no_server_gives_end_one_look_alone(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = node_config({n: filled(start_server).url for n in ("odd", "one")}, 8 << 20, {})
    looking = Looking(config.servers, wait=lambda _: None)
    odd = looking.looks[0]

    def broken(*_: object) -> None:
        raise OverflowError("int too large")

    monkeypatch.setattr(odd, "round", broken)
    looking.run(1.0, 8 << 20, lambda: False, lambda *_: None)
    assert [one.why for one in looking.refused] == ["its answers make no sense: int too large"]
    assert [one.config.name for one in looking.seen()] == ["one"]
    looking.close()


def test_odd_digits_in_an_answer_end_one_look_alone(start_server: StartServer, look: Look) -> None:
    """As any program may say them that listens at a server's address."""
    server, good = filled(start_server, databases=64), filled(start_server)
    server.client.execute_command("SWAPDB", 0, 10)
    with altered(server, lambda _, part: part.replace(b"db10:", "db²:".encode())) as url:
        code, out, err = look(f"odd={url}", f"good={good.url}")
    assert code == 0, err
    assert "Not looked at: odd" in out


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
@pytest.mark.parametrize("kind", ["port", "path"])
def test_who_takes_the_place_of_a_server_during_a_look_is_told_nothing(
    kind: str, start_server: StartServer
) -> None:
    """That an address was a server's of root when it was found says nothing of who has it now."""
    settings = {"port": free_port()} if kind == "port" else {}
    server = filled(start_server, **settings)
    server.client.config_set("requirepass", "a-password")
    path = server.url.removeprefix("unix://")
    url = server.url if kind == "path" else f"redis://127.0.0.1:{settings['port']}"
    access = Access(password="a-password", told_by="REDISCLI_AUTH")
    config = node_config({"one": url}, 8 << 20, {}, access)
    looking = Looking(config.servers, wait=lambda _: None, believed=frozenset({0}))
    (look,) = looking.looks
    look.begin(8 << 20, 30.0, 0.0)
    look.round(1.0)
    server.stop()
    if kind == "path":
        Path(path).parent.mkdir(exist_ok=True)
        stranger = socket.socket(socket.AF_UNIX)
        stranger.bind(path)
    os.seteuid(54_321)
    try:
        if kind == "port":
            stranger = socket.create_server(("127.0.0.1", settings["port"]))
        stranger.listen()
        if kind == "path":  # who listens is known; whose a connection of TCP is, says who accepts
            os.seteuid(0)
        with stranger:
            told: list[bytes] = []

            def accept() -> None:
                with suppress(OSError):
                    while True:
                        with stranger.accept()[0] as connected:
                            told.append(connected.recv(1_000))

            thread = Thread(target=accept, daemon=True)
            thread.start()
            for second in range(2, 10):
                try:
                    look.round(float(second))
                except CannotBeLookedAtError as error:
                    why = str(error)
            wait_until(lambda: bool(told), lambda: why)
            stranger.shutdown(socket.SHUT_RDWR)
            thread.join(PATIENCE_SECONDS)
    finally:
        os.seteuid(0)
    assert set(told) == {b""}
    assert "uid 54321" in why
    assert "nothing was sent" in why
    looking.close()


def test_a_server_that_answers_slowly_does_not_hold_up_the_others(
    start_server: StartServer,
) -> None:
    """Its keys would be found within the look, and until then nobody else would be asked."""
    seconds = 0.0

    def slow(question: bytes, part: bytes) -> bytes:
        nonlocal seconds
        seconds += 0.8 * (b"SCAN" in question)
        return part

    def wait(more: float) -> None:
        nonlocal seconds
        seconds += more

    rounds: list[float] = [0.0]

    def note(*_: object) -> None:
        rounds.append(seconds)

    good = filled(start_server)
    with altered(filled(start_server, keys=8_000), slow) as url:
        config = node_config({"slow": url, "good": good.url}, 8 << 20, {})
        looking = Looking(config.servers, clock=lambda: seconds, wait=wait)
        looking.run(60.0, 8 << 20, lambda: False, note)
        looking.close()
    assert [(one.name, one.why) for one in looking.refused] == [
        ("slow", "answers so slowly that its keys were not found")
    ]
    assert max(after - before for before, after in pairwise(rounds)) < 8

"""Who has our connection to a server, though another one listens there, is told no password."""

from __future__ import annotations

import os
import re
import socket
import ssl
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import redis

from sidecar.config.listeners import FoundListeners
from sidecar.config.node import ServerConfig
from sidecar.config.tls import TlsConfig
from sidecar.servers.connection import guarded_connection, redis_server
from sidecar.servers.connection.redis_server import RedisServer
from sidecar.servers.connection.server_errors import (
    NobodyListensError,
    ServerDownError,
    ServerSilentError,
)
from solver_lambda.http import listening_sockets as listening_sockets_module
from solver_lambda.http.listening_sockets import (
    accepted_ends,
    are_of_this_machine,
    is_of_this_machine,
    listening_sockets,
)
from tests.sidecar.fixtures import LoadNode, StartServer
from tests.sidecar.inherited_listener import stranger_with_inherited_socket
from tests.sidecar.other_user import strangers_listener
from tests.sidecar.simultaneous_open import connect_from, stranger_beside_a_server
from tests.sidecar.tls_proxy import Authority, tls_proxy
from workloads.local_server import free_port


@pytest.mark.skipif(os.getuid() != 0, reason="to be another user takes root")
@pytest.mark.parametrize("with_decoy", [False, True])
def test_a_stranger_with_the_connection_is_sent_nothing(
    monkeypatch: pytest.MonkeyPatch, with_decoy: bool
) -> None:
    with stranger_beside_a_server(with_decoy) as (listening, stranger, port):
        at = listening.getsockname()
        monkeypatch.setattr(redis.Connection, "_connect", lambda _: connect_from(port, at))
        url = f"redis://127.0.0.1:{at[1]}"
        server = RedisServer(ServerConfig("a", url, password="a-password-of-the-server"))
        words = r"our connection to .* has nobody \(uid 65534\), where root .* listens, and nothing"
        with pytest.raises(ServerDownError, match=words):
            server.read()
        assert stranger.recv(100) == b""


_ASKS = """
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import ExitStack
import redis
from sidecar.config.node import ServerConfig
from sidecar.config.tls import TlsConfig
from solver_lambda.http.listening_sockets import is_of_this_machine
from sidecar.servers.connection.redis_server import RedisServer
from sidecar.servers.connection.server_errors import ServerDownError
from tests.sidecar.other_user import strangers_listener
from tests.sidecar.simultaneous_open import connect_from
print("ready", flush=True)
port, at = int(input()), ("127.0.0.1", int(input()))
redis.Connection._connect = lambda _: connect_from(port, at)
try:
    RedisServer(ServerConfig("a", f"redis://127.0.0.1:{at[1]}", password="a-password")).read()
except ServerDownError as error:
    print(error)
"""
_UNSHARED = ["unshare", "--user", "--map-root-user"]
# In a network of its own, where all ports that one may be given are two.
_ALL_PORTS_ARE_TAKEN = """
import fcntl, socket, struct
from solver_lambda.http.listening_sockets import is_of_this_machine
SIOCSIFFLAGS, UP_AND_RUNNING = 0x8914, 0x41
fcntl.ioctl(socket.socket(), SIOCSIFFLAGS, struct.pack("16sh", b"lo", UP_AND_RUNNING))
with open("/proc/sys/net/ipv4/ip_local_port_range", "w") as file:
    file.write("40000 40001")
taken = [socket.socket(type=socket.SOCK_DGRAM) for _ in range(2)]
for place, one in enumerate(taken):
    one.bind(("127.0.0.1", 40000 + place))
listener = socket.create_server(("127.0.0.1", 30000))
print(is_of_this_machine(socket.create_connection(("127.0.0.1", 30000))))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="to be another user takes root")
def test_where_users_have_no_numbers_of_their_own_nobody_is_believed() -> None:
    """As with systemd's PrivateUsers: there all other users are one."""
    if subprocess.run([*_UNSHARED, "true"], check=False).returncode:
        pytest.skip("no user namespace can be had here")
    with subprocess.Popen(
        [*_UNSHARED, sys.executable, "-c", _ASKS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as asks:
        assert asks.stdout is not None
        assert asks.stdout.readline() == "ready\n"
        with stranger_beside_a_server(with_decoy=False) as (listening, stranger, port):
            said, _ = asks.communicate(f"{port}\n{listening.getsockname()[1]}\n")
            assert "cannot be told in this user namespace, and nothing was sent" in said
            assert stranger.recv(100) == b""


def test_who_takes_all_ports_does_not_make_an_address_another_machines() -> None:
    command = [*_UNSHARED, "--net", sys.executable, "-c", _ALL_PORTS_ARE_TAKEN]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "unshare" in done.stderr:
        pytest.skip("no network namespace can be had here")
    assert done.stdout == "True\n", done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="to be another user takes root")
@pytest.mark.parametrize(
    ("host", "at"), [("127.0.0.1", "127.0.0.1"), ("127.0.0.1", "0.0.0.0"), ("[::1]", "::")]
)
def test_a_server_of_another_user_is_asked_when_it_has_accepted(
    monkeypatch: pytest.MonkeyPatch, host: str, at: str
) -> None:
    """The kernel has no user of the connection until then."""
    accepted: list[socket.socket] = []

    def accepts(_: float) -> None:
        """When it has been looked once."""
        if not accepted:
            os.seteuid(65534)
            try:
                accepted.append(listening.accept()[0])
            finally:
                os.seteuid(0)

    listening = strangers_listener(host=at)
    monkeypatch.setattr(time, "sleep", accepts)
    with listening:
        url = f"redis://{host}:{listening.getsockname()[1]}"
        with pytest.raises(ServerDownError, match="Timeout reading"):
            RedisServer(ServerConfig("a", url, password="a-password-of-the-server")).read()
        with accepted[0] as connected:
            assert b"a-password-of-the-server" in connected.recv(100)


def test_who_has_not_accepted_in_time_is_sent_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_server, "TIMEOUT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"redis://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(ServerSilentError):
            RedisServer(ServerConfig("a", url, password="a-password-of-the-server")).read()
        with listening.accept()[0] as connected:
            assert connected.recv(100) == b""


@pytest.mark.skipif(os.getuid() != 0, reason="to be another user takes root")
def test_a_stranger_who_accepts_late_where_root_listens_is_sent_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with stranger_with_inherited_socket() as stranger:
        monkeypatch.setattr(time, "sleep", lambda _: stranger.accept())
        url = f"redis://127.0.0.1:{stranger.address[1]}"
        server = RedisServer(ServerConfig("a", url, password="a-password-of-the-server"))
        with pytest.raises(ServerDownError) as refused:
            server.read()
        assert stranger.heard() == b""
    assert "has nobody (uid 65534), where root (uid 0) listens" in str(refused.value)


def test_a_stranger_at_the_other_family_of_localhost_is_sent_nothing(
    load_node: LoadNode, start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = socket.getaddrinfo

    def version_6_first(host: str, *how: Any, **more: Any) -> Any:
        """Find version 6 first, as Debian's /etc/hosts has it."""
        return find("::1" if host == "localhost" else host, *how, **more)

    port = free_port()
    start_server("12mb", port=port, bind="127.0.0.1")
    monkeypatch.setattr(socket, "getaddrinfo", version_6_first)
    with socket.create_server(("::1", port), family=socket.AF_INET6) as stranger:
        config = load_node({"a": f"redis://localhost:{port}"}).servers[0]
        assert RedisServer(config).read().run_id
        stranger.settimeout(0)
        with pytest.raises(BlockingIOError):
            stranger.accept()


def _give_a_name_both_families(monkeypatch: pytest.MonkeyPatch) -> None:
    find = socket.getaddrinfo

    def both(host: str, *how: Any, **more: Any) -> Any:
        names = ("::1", "127.0.0.1") if host == "cache" else (host,)
        return [found for name in names for found in find(name, *how, **more)]

    monkeypatch.setattr(socket, "getaddrinfo", both)


@pytest.mark.skipif(os.getuid() != 0, reason="to be another user takes root")
def test_a_stranger_at_another_address_of_a_name_is_sent_nothing(
    load_node: LoadNode, start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    start_server("12mb", port=port, bind="127.0.0.1")
    _give_a_name_both_families(monkeypatch)
    with strangers_listener(port, "::1") as stranger:
        config = load_node({"a": f"redis://cache:{port}"}).servers[0]
        # He keeps nobody from the server: who is believed is asked first, and he not at all.
        assert RedisServer(config).read().run_id
        stranger.settimeout(0)
        with pytest.raises(BlockingIOError):
            stranger.accept()


@pytest.mark.skipif(os.getuid() != 0, reason="to be another user takes root")
@pytest.mark.parametrize("scheme", ["redis", "rediss"])
def test_a_stranger_at_another_address_of_a_server_that_is_down_is_not_connected_to(
    scheme: str, load_node: LoadNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """He could pass TLS on to the server once it is back, and keep from it what he likes."""
    port = free_port()
    _give_a_name_both_families(monkeypatch)
    with strangers_listener(port, "::1") as stranger:
        config = load_node({"a": f"{scheme}://cache:{port}"}).servers[0]
        config = replace(config, listeners=FoundListeners({0}))
        with pytest.raises(ServerDownError):
            RedisServer(config).read()
        stranger.settimeout(0)
        with pytest.raises(BlockingIOError):
            stranger.accept()


@pytest.mark.skipif(os.getuid() != 0, reason="to be another user takes root")
def test_who_passes_tls_on_is_refused_where_others_were_before() -> None:
    port, first = free_port(), FoundListeners()
    with (
        strangers_listener(port, "127.0.0.1") as stranger,
        socket.create_connection(("127.0.0.1", port)) as connected,
        stranger.accept()[0],
    ):
        for found, refused in ((first, None), (FoundListeners({0}), OSError)):
            known = guarded_connection._Listeners(None, found)
            with pytest.raises(refused) if refused else nullcontext():
                guarded_connection._refuse_relay(connected, "", 1.0, known)
    assert first.users is not None
    assert 65534 in first.users


@pytest.mark.skipif(os.getuid() != 0, reason="to be another user takes root")
def test_who_listens_at_all_of_version_6_does_not_listen_at_version_4() -> None:
    """Else he who has the connection, too, would be taken for the server."""
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = server.getsockname()[1]
        with strangers_listener(port, "::"):
            for host, user in (("127.0.0.1", 0), ("::1", 65534)):
                found = listening_sockets((ip_address(host),), port)
                assert {one.user_id for one in found} == {user}


def test_an_address_of_this_machine_is_one_whichever_we_connect_from() -> None:
    """A second address of a network card is reached from the first one."""

    class Connected:
        family = socket.AF_INET

        def __init__(self, host: str) -> None:
            self.host = host

        def getpeername(self) -> tuple[str, int]:
            return self.host, 6379

    with (
        socket.create_server(("127.0.0.2", 0)) as server,
        socket.create_connection(server.getsockname(), 5, ("127.0.0.1", 0)) as connected,
    ):
        assert is_of_this_machine(connected)
    # Of the addresses for examples, which no machine has.
    assert not is_of_this_machine(Connected("192.0.2.1"))  # type: ignore[arg-type]
    own, elsewhere = ip_address("127.0.0.2"), ip_address("192.0.2.1")
    assert are_of_this_machine([own, ip_address("::1")])
    assert not are_of_this_machine([own, elsewhere])


def test_a_long_table_of_sockets_is_not_kept() -> None:
    """Any user can make it long, and each connection to a server reads it."""
    with ExitStack() as stack:
        for _ in range(400):
            listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        tracemalloc.start()
        try:
            port = listening.getsockname()[1]
            assert len(listening_sockets([ip_address("127.0.0.1")], port)) == 1
            peak_bytes = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak_bytes < len(Path("/proc/net/tcp").read_bytes())


def test_the_kernel_says_by_its_protocol_what_its_table_says(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever the version, and whether accepted or not."""

    def told() -> list[Any]:
        """Return who listens, and who has the ends of connections, as far as they are accepted."""
        address = module._address
        return [
            *(module.listening_sockets([ip_address(name)], port) for name, port in places),
            *(
                module._rows_with(address(one.getpeername()), address(one.getsockname()))
                for one in connected
            ),
            {one for one in module.all_listening() if one[0][1] in dict(places).values()},
        ]

    module = listening_sockets_module
    with ExitStack() as stack:
        hold = stack.enter_context
        places: list[tuple[str, int]] = []
        connected: list[socket.socket] = []
        for host, name in (("127.0.0.1", "127.0.0.1"), ("::", "127.0.0.1"), ("::1", "::1")):
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            both = host == "::"
            made = socket.create_server((host, 0), family=family, dualstack_ipv6=both)
            places.append((name, hold(made).getsockname()[1]))
            connected += [hold(socket.create_connection(places[-1])) for _ in range(2)]
            hold(made.accept()[0])
        by_protocol = told()
        assert [len(one) for one in by_protocol[:9]] == [1] * 9
        assert [row.inode == 0 for (row,) in by_protocol[3:9]] == [False, True] * 3
        # As in a container that has no such protocol, or not for TCP.
        for name, number in (("AF_NETLINK", 4711), ("IPPROTO_TCP", 33)):
            with monkeypatch.context() as without:
                without.setattr(socket, name, number)
                assert told() == by_protocol
        assert "/proc/net/tcp, which may be long" in caplog.text


def refuses(server: RedisServer, listening: socket.socket, words: str) -> None:
    """Check that who listens is sent nothing, and that it is said why."""
    with pytest.raises(ServerDownError, match=words):
        server.read()
    with listening.accept()[0] as connected:
        assert connected.recv(100) == b""


def never(_: redis.Connection) -> socket.socket:
    """Fail to connect: who listens takes no connection."""
    raise TimeoutError


def read_in_vain(
    port: int,
    monkeypatch: pytest.MonkeyPatch,
    connect: Callable[[redis.Connection], socket.socket] = never,
) -> None:
    with monkeypatch.context() as instead:
        instead.setattr(redis.Connection, "_connect", connect)
        instead.setattr(guarded_connection, "_may_be_squatted", lambda *_: False)
        url, known = f"redis://127.0.0.1:{port}", FoundListeners([0])
        RedisServer(ServerConfig("a", url, listeners=known)).read()


def closes(_: redis.Connection) -> socket.socket:
    """Connect to somebody who closes the connection at once, in order."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        connected = socket.create_connection(listening.getsockname())
        listening.accept()[0].close()
        return connected


def resets(_: redis.Connection) -> socket.socket:
    """Connect to somebody who has closed it before he read what he was sent."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        connected = socket.create_connection(listening.getsockname())
        with listening.accept()[0]:
            connected.send(b"x")
        return connected


@pytest.mark.parametrize("connect", [never, closes, resets])
@pytest.mark.parametrize("known", [None, {0, os.getuid()}])
def test_sockets_that_wait_at_each_port_of_ours_keep_nobody_from_the_server(
    start_server: StartServer,
    monkeypatch: pytest.MonkeyPatch,
    connect: Callable[[redis.Connection], socket.socket],
    known: set[int] | None,
) -> None:
    """Any user may have bound them to the server's port before it was there. They take what it
    would answer to a connection from 127.0.0.1, or end that."""
    port = free_port()
    start_server("4mb", port=port, **{"protected-mode": "no"})
    monkeypatch.setattr(redis.Connection, "_connect", connect)
    known_listeners = FoundListeners(known)
    server = RedisServer(ServerConfig("a", f"redis://127.0.0.1:{port}", listeners=known_listeners))
    assert server.read().run_id
    peer = re.search(r"addr=(127\.\S+):\d+ \S+ \S+ name=spreds", _named(server))
    assert peer is not None
    assert peer[1] != "127.0.0.1"


@pytest.mark.skipif(os.getuid() != 0, reason="to be another user takes root")
@pytest.mark.parametrize("is_tls", [False, True])
def test_who_takes_our_connection_does_not_keep_us_from_who_listens(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_tls: bool
) -> None:
    """A cache that restarted without its limit stayed so for as long as he liked."""
    authority = Authority(tmp_path)
    certificate = authority.certificate("proxy")
    with ExitStack() as stack:
        opened = stack.enter_context(stranger_beside_a_server(with_decoy=False))
        listening, stranger, waits_at = opened
        at = listening.getsockname()
        listening.close()
        if is_tls:
            target = ("127.0.0.1", free_port())
            start_server("4mb", port=target[1])
            url = stack.enter_context(tls_proxy(target, certificate, port=at[1]))
            tls = TlsConfig(ssl_ca_certs=authority.path)
        else:
            start_server("4mb", port=at[1], **{"protected-mode": "no"})
            url, tls = f"redis://127.0.0.1:{at[1]}", None
        monkeypatch.setattr(redis.Connection, "_connect", lambda _: connect_from(waits_at, at))
        server = RedisServer(ServerConfig("a", url, tls=tls, listeners=FoundListeners({0})))
        assert server.read().run_id
        assert stranger.recv(100) == b""


def test_a_name_of_hundreds_of_addresses_takes_no_longer_than_one_of_two(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever owns it may have all other servers wait, a second for each address."""
    places = [f"192.0.2.{number}" for number in range(1, 201)]
    tried: list[tuple[str, float]] = []

    def connect(connection: redis.Connection) -> socket.socket:
        tried.append((connection.host, connection.socket_connect_timeout))
        raise TimeoutError

    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda *_, **__: [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (p, 1)) for p in places],
    )
    monkeypatch.setattr(redis.Connection, "_connect", connect)
    server = RedisServer(ServerConfig("a", "redis://cache.example:6379"))
    with pytest.raises(ServerSilentError):
        server.read()
    assert [host for host, _ in tried] == places[:8]
    assert sum(seconds for _, seconds in tried) <= 4 * redis_server.TIMEOUT_SECONDS
    assert server._connection.host == "cache.example"


def test_what_a_handshake_takes_of_our_processor_is_the_servers(
    monkeypatch: pytest.MonkeyPatch, start_server: StartServer, tmp_path: Path
) -> None:
    """A compromised one may choose a long prime, and hang up after each answer."""
    authority, taken = Authority(tmp_path), {"seconds": 0.0}

    def wrap(self: ssl.SSLContext, *how: Any, **more: Any) -> ssl.SSLSocket:
        if not more.get("server_side"):
            assert not any(one["name"].startswith("DHE-") for one in self.get_ciphers())
            assert self.options & ssl.OP_NO_RENEGOTIATION
            taken["seconds"] += 5.0
        return original(self, *how, **more)

    original = ssl.SSLContext.wrap_socket
    clock = time.thread_time
    monkeypatch.setattr(time, "thread_time", lambda: clock() + taken["seconds"])
    port = free_port()
    start_server("4mb", port=port)
    certificate = authority.certificate("proxy")
    with tls_proxy(("127.0.0.1", port), certificate) as url:
        tls = TlsConfig(ssl_ca_certs=authority.path)
        server = RedisServer(ServerConfig("a", url, tls=tls))
        with monkeypatch.context() as slow:
            slow.setattr(ssl.SSLContext, "wrap_socket", wrap)
            before = server.own_seconds
            server.read()
            assert server.own_seconds - before >= 5.0


def _named(server: RedisServer) -> str:
    server.announce(server.read().run_id)
    return str(server.ask("CLIENT LIST"))


def test_a_connection_that_ended_here_does_not_end_elsewhere() -> None:
    """Who has closed his end before he had all that he sent taken leaves one that is nobody's."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as connected,
    ):
        with listening.accept()[0] as other, suppress(BlockingIOError):
            other.setblocking(False)
            while True:
                other.send(bytes(1 << 20))
        with pytest.raises(ConnectionAbortedError, match="closed our connection at once"):
            accepted_ends(connected, 1.0)
        # One that closed in order may have told why, as a server at its maxclients does.
        with socket.create_connection(listening.getsockname()) as refused:
            listening.accept()[0].close()
            assert accepted_ends(refused, 1.0) == set()


def test_a_server_that_no_other_address_reaches_is_silent_and_not_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A firewall may refuse other addresses of the loopback device; what it has is kept for it."""
    monkeypatch.setattr(redis.Connection, "_connect", never)
    url = f"redis://127.0.0.1:{free_port()}"  # where nobody listens: connections are refused
    with pytest.raises(ServerSilentError):
        RedisServer(ServerConfig("a", url, listeners=FoundListeners())).read()


@pytest.mark.skipif(os.getuid() != 0, reason="to be another user takes root")
def test_who_takes_the_port_of_a_server_that_is_down_is_asked_for_nothing(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """He may run a server of his own there, and say that he has all memory."""
    port = free_port()
    first = start_server("4mb", port=port)
    server = RedisServer(ServerConfig("a", f"redis://127.0.0.1:{port}"))
    run_id = server.read().run_id
    first.stop()
    server.close()
    with strangers_listener(port, "127.0.0.1") as listening:
        words = (
            r"nobody \(uid 65534\) listens at .* now, and nothing was sent, as he has not listened"
        )
        refuses(server, listening, words)
        # Its process is gone all the same: what it held was kept for it as long as he listened.
        with pytest.raises(NobodyListensError):
            server.read()
        with pytest.raises(NobodyListensError):
            read_in_vain(port, monkeypatch)  # nor if he takes no connection

        def let_go(_: redis.Connection) -> socket.socket:
            connected = socket.create_connection(("127.0.0.1", port))
            listening.close()
            return connected

        with pytest.raises(NobodyListensError, match="nobody who can be seen listens"):
            read_in_vain(port, monkeypatch, let_go)
    start_server("4mb", port=port)
    assert server.read().run_id != run_id
    with pytest.raises(ServerSilentError):
        read_in_vain(port, monkeypatch)


@pytest.mark.skipif(os.getuid() != 0, reason="to be another user takes root")
def test_who_listens_where_a_port_is_forwarded_to_others_is_not_learnt(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel gives the connection to a server elsewhere, as for a container's published port.
    He was believed as the server's listener, and got its password once that stopped."""
    port = free_port()
    known = FoundListeners(None)
    url = f"redis://127.0.0.1:{port}"
    server = RedisServer(ServerConfig("a", url, password="secret", listeners=known))
    with monkeypatch.context() as forwarded, strangers_listener(port, "127.0.0.1") as listening:
        forwarded.setattr(guarded_connection, "accepted_ends", lambda *_: set())
        words = (
            r"nobody \(uid 65534\) listens at .*, and our connection does not end there: nothing"
        )
        refuses(server, listening, words)
    # Nor is he believed once he has it, as when the rule goes with the container.
    with strangers_listener(port, "127.0.0.1") as listening:
        refuses(server, listening, r"listens at .* now, and nothing was sent")
    start_server("4mb", port=port).client.config_set("requirepass", "secret")
    assert server.read().run_id
    assert not known.users


def test_a_server_that_accepts_a_moment_later_is_not_waited_for_much_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept_seconds: list[float] = []
    with ExitStack() as held:
        listening = held.enter_context(socket.create_server(("127.0.0.1", 0)))
        connected = held.enter_context(socket.create_connection(listening.getsockname()))

        def sleep(seconds: float) -> None:
            slept_seconds.append(seconds)
            held.enter_context(listening.accept()[0])

        monkeypatch.setattr(time, "sleep", sleep)
        assert len(accepted_ends(connected, 1.0)) == 1
    assert len(slept_seconds) == 1
    assert slept_seconds[0] <= 0.001


def test_a_server_that_accepts_nobody_is_not_looked_at_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A table of sockets may have a hundred thousand lines, which any user can make."""
    looks = 0

    def counted(*ends: Any) -> Any:
        nonlocal looks
        looks += 1
        return rows(*ends)

    rows = listening_sockets_module.with_ends
    monkeypatch.setattr(listening_sockets_module, "with_ends", counted)
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as connected,
        pytest.raises(TimeoutError),
    ):
        accepted_ends(connected, 1.0)
    assert looks <= 30

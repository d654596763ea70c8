"""Looks who has the other end of a connection of redis-py, and tells nothing of its library.

A connection to a server of this machine is with whoever listens there. Any local user who was bound
to the port before the server may have it instead. He connects to us as we connect to the server,
and would get its user and password.
"""

from __future__ import annotations

import os
import socket
import ssl
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from ipaddress import ip_address
from random import randrange
from struct import Struct
from typing import Any

import redis

from sidecar.base.kernel_waits import unix_stream
from sidecar.base.tls_context import client_context
from sidecar.config.listeners import FoundListeners, KnownListeners
from solver_lambda.http.listening_sockets import (
    accepted_ends,
    addresses_of,
    are_of_this_machine,
    is_established,
    is_of_this_machine,
    listening_users,
    nobody_in_particular,
    ordered_addresses,
)
from solver_lambda.http.message import user_of, users_in_words
from solver_lambda.http.socket_diag import Host

# Of whoever listens there and may be a stranger.
NOTHING_SENT = "nothing was sent"
# Of a peer: its process, user and group, as SO_PEERCRED has them.
_CREDENTIALS = Struct("iII")
# A server of this machine that can be connected to is so at once.
_SQUATTED_SECONDS = 0.25
# So many addresses of a name are tried, and in all for four times as long as one may take: whoever
# owns the name may give it hundreds.
_MOST_ADDRESSES = 8


def guard(
    connection: Any,
    believed: Collection[int] | None = None,
    known: KnownListeners | None = None,
) -> None:
    """Has each of its sockets checked before anything is sent, and nothing is told of the library.
    TLS proves who answers, and not who passes that on: so the same holds there.

    ``believed``: users who alone may listen there; ``None``: root, we, and those that are
    ``known``, or are found there first. Whoever takes the address of a server that is down is asked
    for nothing: he may say that he has all memory.

    Redis-py tells the server its name on each connection (CLIENT SETINFO). Our user needs no right
    to that, and without it the server's ACL LOG would fill with refusals.
    """
    # By the names of its versions 5 to 8.
    connection.driver_info = connection.lib_name = connection.lib_version = None
    is_tls = isinstance(connection, redis.SSLConnection)
    is_tcp = isinstance(connection, redis.Connection)
    connect = connection._connect
    listeners = _Listeners(believed, known)
    if is_tls or is_tcp:
        if is_tls:
            _shake_hands_ourselves(connection, listeners)

        def connected_to(place: str) -> socket.socket:
            def check(connected: socket.socket) -> None:
                connection.is_reached = True
                refuse = _refuse_relay if is_tls else _refuse_stranger
                refuse(connected, place, connection.socket_connect_timeout, listeners)

            def reach() -> socket.socket:
                return _past_squatters(connect, check, connection, listeners)

            name, connection.host = connection.host, place
            try:
                return _refused_where_strangers_listen(reach, place, connection.port, listeners)
            finally:
                connection.host = name

        name = connection.host
        connection._connect = lambda: _first_connected(connected_to, name, connection, listeners)
    else:
        connection._connect = lambda: _checked(
            _connected_to_path(connection),
            lambda connected: _refuse_maker(connected, connection.path, listeners),
        )


def _past_squatters(
    connect: Callable[[], socket.socket],
    check: Callable[[socket.socket], object],
    connection: Any,
    listeners: _Listeners,
) -> socket.socket:
    """Connect, from another address of the loopback device where somebody else has the connection.
    Sockets that any user has bound to the server's port, before the server was, can wait for each
    port of ours at 127.0.0.1. They take what the server would answer, or connect to us as we
    connect to it. Raises OSError."""
    connection.is_reached = False
    try:
        connected = _checked(connect(), check)
        if is_established(connected):
            return connected
        closed = connected  # by the server, which may tell why, or by whoever had it
    except OSError as error:
        # One that was reached and does not answer hangs: another address waits as long in vain.
        # One that fails in TLS does so again.
        fails = isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError)
        is_its_own = (fails or isinstance(error, TimeoutError)) and connection.is_reached
        # Where that fails, too, the first one says why, whatever keeps that address from it.
        if is_its_own or (another := _another(check, connection, listeners)) is None:
            raise
        return another
    if (another := _another(check, connection, listeners)) is None:
        return closed
    closed.close()
    return another


def _another(
    check: Callable[[socket.socket], object], connection: Any, listeners: _Listeners
) -> socket.socket | None:
    """Return a connection from another address, where the server listens at this machine and one
    can be had."""
    if _may_be_squatted(connection, listeners):
        with suppress(OSError):
            return _checked(_from_another_address(connection), check)
    return None


def _may_be_squatted(connection: Any, listeners: _Listeners) -> bool:
    """Return whether its server listens at this machine: then who else has our connection, or ends
    it, came in between."""
    hosts = addresses_of(connection.host, connection.port)
    if any(host.version != 4 for host in hosts) or not are_of_this_machine(hosts):
        return False
    users = listening_users(hosts, connection.port)
    return listeners.believe(users) or (bool(users) and not listeners.are_known)


def _from_another_address(connection: Any) -> socket.socket:
    """Connect as redis-py does, from an address of 127.* drawn at random. Raises OSError."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.settimeout(_SQUATTED_SECONDS)
        made.bind((f"127.{'.'.join(str(randrange(1, 255)) for _ in range(3))}", 0))
        made.connect((connection.host, connection.port))
        made.settimeout(connection.socket_timeout)
        wrap = getattr(connection, "_wrap_socket_with_ssl", None)
        return wrap(made) if wrap else made
    except OSError:
        made.close()
        raise


def _shake_hands_ourselves(connection: Any, listeners: _Listeners) -> None:
    """Have certificates checked for the name, whichever of its addresses is connected to. Nothing
    is begun with a stranger who has the connection at once. ``handshake_seconds`` of the connection
    is what handshakes took of our processor."""
    name, connection.handshake_seconds = connection.host, 0.0

    def wrapped(plain: socket.socket) -> ssl.SSLSocket:
        with suppress(TimeoutError):  # nobody has accepted it yet
            _refuse_relay(plain, "", 0.0, listeners, is_proven=False)
        connection.is_reached, context = True, _context(connection)
        began = time.thread_time()
        try:
            return context.wrap_socket(plain, server_hostname=name)
        finally:
            connection.handshake_seconds += time.thread_time() - began

    connection._wrap_socket_with_ssl = wrapped


def _context(connection: Any) -> ssl.SSLContext:
    """Return TLS' settings, with what redis-py knows of this connection. Raises OSError."""
    context = client_context(connection.ca_certs)
    context.check_hostname, context.verify_mode = connection.check_hostname, connection.cert_reqs
    if connection.certfile or connection.keyfile:
        context.load_cert_chain(connection.certfile, connection.keyfile)
    return context


def _first_connected(
    connected_to: Callable[[str], socket.socket], name: str, connection: Any, listeners: _Listeners
) -> socket.socket:
    """Connect to the first address of the name that has the server. A name may have several of this
    machine, such as 127.0.0.1 and ::1, and anybody may listen at those that the server leaves.
    Raises OSError."""
    port, one_seconds = connection.port, connection.socket_connect_timeout
    hosts = ordered_addresses(name, port)[:_MOST_ADDRESSES]
    if len(hosts) < 2:
        return connected_to(name if "%" in name else str(hosts[0]))
    is_here, users = are_of_this_machine(hosts), dict[Host, set[int]]()
    if is_here:
        users = {host: listening_users({host}, port) for host in hosts}
        hosts.sort(key=lambda host: (not listeners.believe(users[host]), host.version))
    errors: list[OSError] = []
    try:
        connection.socket_connect_timeout = min(one_seconds, 4 * one_seconds / len(hosts))
        for host in hosts:
            try:
                # Nothing is begun with a stranger, who may take his time.
                if is_here and listeners.are_known:
                    listeners.check(users[host], f"{host}:{port}")
                return connected_to(str(host))
            except OSError as error:
                errors.append(error)
    finally:
        connection.socket_connect_timeout = one_seconds
    raise min(errors, key=lambda error: isinstance(error, ConnectionRefusedError))


class _Listeners:
    """Knows the users who may listen at a server's address."""

    def __init__(self, believed: Collection[int] | None, known: KnownListeners | None) -> None:
        self._believed, self._known = believed, known or FoundListeners()

    @property
    def are_known(self) -> bool:
        """Whether such users are known; not where a port is forwarded: nobody listens there."""
        return bool(self._believed or self._known.users)

    def believe(self, users: Collection[int]) -> bool:
        """Whether some listen, and nobody but those who may."""
        believed = self._believed or {0, os.geteuid(), *(self._known.users or ())}
        return bool(users) and set(users) <= set(believed)

    def check(self, users: Collection[int], place: str) -> None:
        """Check who listens there. Raises OSError where others do."""
        believed, words = self._believed, ""
        if believed is None:
            found = self._known.users
            if found is None:
                return
            if found and not users:  # but in the moment before, as whoever answered by a cookie
                raise ConnectionRefusedError(
                    f"nobody who can be seen listens at {place}, and {NOTHING_SENT}"
                )
            believed = {0, os.geteuid(), *found}
            words = (
                ", as he has not listened there before: if he is the server's, say so as root by "
                "'spreds resume FILE SERVER --listener USER'"
            )
        if others := set(users) - set(believed):
            # None of the server's listens any more.
            is_gone = not set(users) & set(believed)
            raise (ConnectionRefusedError if is_gone else OSError)(
                f"{users_in_words(others)} listens at {place} now, and {NOTHING_SENT}{words}"
            )

    def learn(self, users: Collection[int]) -> None:
        """Remember those who have the first connection. Where users cannot be told apart, nothing
        can be learnt; where none are seen, that is so of a port that the kernel forwards."""
        is_first = self._believed is None and self._known.users is None
        if is_first and nobody_in_particular() not in users:
            self._known.learn(users)

    def refuse_bystanders(
        self, users: Collection[int], place: str, *, is_established: bool
    ) -> None:
        """Refuse a place where strangers listen, of whom nobody has our connection. A kernel that
        forwards the port gives it to somebody else; one whose queue is full will give it to them.
        Nor are they believed when they have it. Nothing can be told of a connection that was closed
        at once, as at ``maxclients``. Raises OSError."""
        is_first = self._believed is None and self._known.users is None
        if is_first and (strangers := set(users) - {0, os.geteuid()}):
            if not is_established:
                raise OSError(f"{place} closed our connection at once")
            self._known.learn(())
            raise OSError(
                f"{users_in_words(strangers)} listens at {place}, and our connection does not end "
                f"there: {NOTHING_SENT}"
            )


def _refused_where_strangers_listen(
    connect: Callable[[], socket.socket], name: str, port: int, listeners: _Listeners
) -> socket.socket:
    """Connect. Raises OSError, also if a stranger listens who takes no connection, says nothing, or
    is gone at once: the server's process must not seem gone."""
    try:
        return connect()
    except ConnectionRefusedError:
        raise
    except OSError:
        if listeners.are_known and (users := _listening_here(name, port)) is not None:
            listeners.check(users, f"{name}:{port}")
        raise


def _listening_here(name: str, port: int) -> set[int] | None:
    """Return who listens for a server of this machine; ``None`` for others."""
    hosts = addresses_of(name, port)
    return listening_users(hosts, port) if are_of_this_machine(hosts) else None


def _refuse_relay(
    connected: socket.socket,
    _: str,
    wait_seconds: float,
    listeners: _Listeners,
    *,
    is_proven: bool = True,
) -> None:
    """Refuse who neither listened for our first connection with TLS nor had it. A proxy may listen
    as root and serve as another user: both are known from then on. Raises OSError."""
    if not is_of_this_machine(connected):
        return
    host, port, *_ = connected.getpeername()
    users = listening_users({ip_address(host.partition("%")[0])}, port)
    ends = {end.user_id for end in accepted_ends(connected, wait_seconds)}
    if nobody_in_particular() in users | ends:  # where that cannot be told, TLS must do
        return
    if 0 not in users:
        _refuse_others(ends - users - {0, os.geteuid()}, users, f"{host}:{port}")
    listeners.check(users | ends, f"{host}:{port}")
    if is_proven:
        listeners.learn(users | ends)


def _checked(connected: socket.socket, check: Callable[[socket.socket], object]) -> socket.socket:
    """Return the connection if ``check`` passes, or close it. Raises OSError."""
    try:
        check(connected)
    except OSError:
        connected.close()
        raise
    return connected


def _connected_to_path(connection: Any) -> socket.socket:
    """Connect to a Unix socket as redis-py does, with one that took no descriptors before. Raises
    OSError."""
    made = unix_stream()
    try:
        made.settimeout(connection.socket_connect_timeout)
        made.connect(connection.path)
        made.settimeout(connection.socket_timeout)
    except OSError:
        made.close()
        raise
    return made


def _made_by(connected: socket.socket) -> int:
    """Return the user who made the Unix socket listen."""
    told = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    user_id: int = _CREDENTIALS.unpack(told)[1]
    return user_id


def _refuse_maker(connected: socket.socket, path: str, listeners: _Listeners) -> None:
    users = {_made_by(connected)}
    listeners.check(users, path)
    listeners.learn(users)


def _refuse_stranger(
    connected: socket.socket, name: str, wait_seconds: float, listeners: _Listeners
) -> None:
    if not is_of_this_machine(connected):
        return
    host, port, *_ = connected.getpeername()
    address = ip_address(host.partition("%")[0])
    # A listener at another address of the name has the connection if the server does not.
    hosts = addresses_of(name, port) | {address}
    users = listening_users(hosts, port)
    if len(hosts) > 1 and len(users) > 1:
        raise OSError(
            f"{users_in_words(users)} listen at addresses of {name}, "
            f"and {NOTHING_SENT}: write the server's address instead of its name"
        )
    listeners.check(users, f"{host}:{port}")
    # Without one, the port is forwarded elsewhere.
    ends = {end.user_id for end in accepted_ends(connected, wait_seconds)}
    if not ends:
        listeners.refuse_bystanders(
            users, f"{host}:{port}", is_established=is_established(connected)
        )
        listeners.learn(users)
        return
    if nobody_in_particular() in ends:
        raise OSError(
            f"who has our connection to {host}:{port} cannot be told in this user namespace, and "
            f"{NOTHING_SENT}: take unix:// and a socket in a folder of the server's own"
        )
    _refuse_others(ends - users, users, f"{host}:{port}")
    listeners.learn(users)


def _refuse_others(strangers: Collection[int], users: Collection[int], place: str) -> None:
    for stranger in strangers:
        listens = users_in_words(users) or "nobody"
        raise OSError(
            f"our connection to {place} has {user_of(stranger)}, where {listens} listens, "
            f"and {NOTHING_SENT}: take unix:// and a socket in a folder of the server's own"
        )

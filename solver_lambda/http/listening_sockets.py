"""Says who listens at an address of TCP, or has a connection's other end, as the kernel tells."""

from __future__ import annotations

import errno
import logging
import os
import socket
import sys
import time
from collections.abc import Collection, Iterator
from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any, NamedTuple

from solver_lambda.http.socket_diag import (
    CLOSE_WAIT,
    ESTABLISHED,
    LISTENS,
    SYN_RECEIVED,
    TIME_WAIT,
    End,
    Host,
    SocketRow,
    listening_at,
    plain_host,
    with_ends,
)

log = logging.getLogger(__name__)

# States of connections, also of those that nobody accepts. The last one is ended by us.
_OPEN = (ESTABLISHED, SYN_RECEIVED, CLOSE_WAIT)
# The other end is there a moment after ours, and the kernel's table may change as it is read.
_UNSEEN_SECONDS = 0.2
# Pauses between two looks grow: most accept at once, but a stopped process accepts nothing, and a
# table may be long.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.001, 0.05

PROC = Path("/proc")
_AT_ALL: list[Host] = [IPv4Address(0), IPv6Address(0)]


class ListeningSocket(NamedTuple):
    """Holds its number, and the user who made it."""

    inode: str
    user_id: int


def listening_sockets(hosts: Collection[Host], port: int) -> set[ListeningSocket]:
    """Return the sockets that listen at these addresses: those at an address itself, else those at
    all of its version. Else, of version 4, return those at all of version 6, which may take both.

    Raises OSError where the kernel does not tell.
    """
    sockets: set[ListeningSocket] = set()
    for host in map(plain_host, hosts):
        places = [host, *(_AT_ALL if host.version == 4 else _AT_ALL[1:])]
        # One after the other: any user can have very many where the server has none.
        found = ({one for at, one in _listening(port, place) if at == place} for place in places)
        sockets |= next(filter(None, found), set())
    return sockets


def listening_users(hosts: Collection[Host], port: int) -> set[int]:
    """Return whose sockets listen there. Raises OSError where the kernel does not tell."""
    return {one.user_id for one in listening_sockets(hosts, port)}


def addresses_of(name: str, port: int) -> set[Host]:
    """Return all that a name has. Raises as ``ordered_addresses``."""
    return set(ordered_addresses(name, port))


def ordered_addresses(name: str, port: int) -> list[Host]:
    """Return all that a name has, those first that are to be tried first. Raises OSError: it has
    none, or UnicodeError: it cannot be a name."""
    found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(ip_address(str(one[4][0]).partition("%")[0]) for one in found))


def all_listening(proc: Path = PROC) -> Iterator[tuple[End, ListeningSocket]]:
    """Return addresses with their ports, and the sockets that listen there; ``proc``: of the
    kernel.

    Raises OSError where that does not tell.
    """
    rows = _listening_rows(0) if proc == PROC else (row for _, row in _table(proc, 0))
    return ((row.local, _socket(row)) for row in rows if row.state == LISTENS)


def beside(listening: socket.socket) -> set[ListeningSocket]:
    """Return our user's other sockets that take connections to the address of this one.

    Raises OSError where the kernel does not tell.
    """
    own, port = _address(listening.getsockname())
    inode = str(os.fstat(listening.fileno()).st_ino)
    return {
        found
        for host, found in _listening(port)
        if found.inode != inode
        and found.user_id == os.geteuid()
        and (host == own or _includes(host, own) or _includes(own, host))
    }


def _includes(host: Host, other: Host) -> bool:
    """Whether it is all addresses, and that one of them: those of version 6 include version 4."""
    return host.is_unspecified and host.version >= other.version


def is_established(connected: socket.socket) -> bool:
    """Whether our end is open, and the other one has not said that it ends."""
    return connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == ESTABLISHED


def accepted_ends(connected: socket.socket, wait_seconds: float) -> set[ListeningSocket]:
    """Return who has the other end of a connection of this machine with itself, once it is
    accepted. None: it ends elsewhere.

    Who listens at the address need not have it. Whoever is bound there may have connected to us as
    we connected to it, and a listening socket may be in several users' processes. There may be
    several ends, with the same addresses by other devices or versions: one of them has it, and
    those of ended connections do not.

    Raises:
        TimeoutError: nobody has accepted it in this time.
        ConnectionAbortedError: it ended at this machine, and was not closed in order.
        OSError: the kernel does not tell.
    """
    here, there = _address(connected.getsockname()), _address(connected.getpeername())
    began = time.monotonic()
    unseen_since, pause_seconds = began, _FIRST_PAUSE_SECONDS
    while True:
        ends = [row for row in _rows_with(there, here) if row.state != LISTENS]
        waits = any(not row.inode and row.state in _OPEN for row in ends)
        now = time.monotonic()
        if ends:
            unseen_since = now
        if now - unseen_since >= _UNSEEN_SECONDS or (ends and not waits):
            owned = {_socket(row) for row in ends if row.inode}
            # It ended here, and nowhere else; one that closed in order may have told why.
            if ends and not owned and is_established(connected):
                raise ConnectionAbortedError("whoever had it closed our connection at once")
            return owned
        if waits and now - began >= wait_seconds:
            raise TimeoutError("nobody has accepted our connection, and nothing was sent")
        time.sleep(min(pause_seconds, max(0.0, began + wait_seconds - now) or pause_seconds))
        pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)


def is_of_this_machine(connected: socket.socket) -> bool:
    """Whether the other end has an address of ours: then one can be bound to it."""
    return _can_be_bound(connected.family, connected.getpeername())


def are_of_this_machine(hosts: Collection[Host]) -> bool:
    """Whether all addresses are this machine's: nobody elsewhere listens there."""
    families = {4: socket.AF_INET, 6: socket.AF_INET6}
    return all(_can_be_bound(families[one.version], (str(one), 0)) for one in hosts)


def _can_be_bound(family: int, address: tuple[Any, ...]) -> bool:
    host, _, *more = address
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((host, 0, *more))
        except OSError as error:
            # Any other reason, such as that all ports are taken, is a stranger's to make.
            return error.errno != errno.EADDRNOTAVAIL
    return True


def nobody_in_particular() -> int | None:
    """Return the number that all users have here who have none of their own; ``None``: all have
    one.

    Raises OSError where the kernel does not tell.
    """
    if Path("/proc/self/uid_map").read_text().split() == ["0", "0", str(2**32 - 1)]:
        return None
    return int(Path("/proc/sys/kernel/overflowuid").read_text())


def _listening(port: int, host: Host | None = None) -> Iterator[tuple[Host, ListeningSocket]]:
    rows = _listening_rows(port, host)
    return ((row.local[0], _socket(row)) for row in rows if row.state == LISTENS)


def _socket(row: SocketRow) -> ListeningSocket:
    return ListeningSocket(str(row.inode), row.user_id)


def _listening_rows(port: int, host: Host | None = None) -> Iterator[SocketRow]:
    try:
        yield from listening_at(port, host)
    except OSError as error:
        _tell_long_way(str(error))
        yield from (row for _, row in _table(PROC, port))


def _rows_with(local: End, remote: End) -> set[SocketRow]:
    """Do as ``with_ends`` does, the long way where the kernel does not answer it."""
    try:
        return with_ends(local, remote)
    except OSError as error:
        _tell_long_way(str(error))
        return {row for end, row in _table(PROC, local[1]) if row.local == local and end == remote}


@cache
def _tell_long_way(error: str) -> None:
    log.warning("who has a connection is looked up in /proc/net/tcp, which may be long: %s", error)


def _table(proc: Path, port: int) -> Iterator[tuple[End, SocketRow]]:
    """Yield other ends, and the sockets with this port at their own end, or, with 0, all that
    listen. Those of connections that have ended are left out, unread: any user can have a hundred
    thousand."""
    ended = f" {TIME_WAIT:02X} "
    wanted = f":{port:04X}" if port else f" {LISTENS:02X} "
    for table in ("tcp", "tcp6"):
        path = proc / "net" / table
        if table == "tcp6" and not path.exists():
            continue
        with path.open() as lines:
            for line in filter(lambda line: wanted in line and ended not in line, lines):
                fields = line.split()
                if not port or fields[1].endswith(wanted):
                    state, user_id, inode = int(fields[3], 16), int(fields[7]), int(fields[9])
                    yield _place(fields[2]), SocketRow(_place(fields[1]), state, user_id, inode)


def _place(text: str) -> End:
    number, _, port = text.partition(":")
    words = [int(number[at : at + 8], 16) for at in range(0, len(number), 8)]
    packed = b"".join(one.to_bytes(4, sys.byteorder) for one in words)
    return plain_host(ip_address(packed)), int(port, 16)


def _address(name: tuple[Any, ...]) -> End:
    """Return a socket's name as the kernel has it: without the scope."""
    return plain_host(ip_address(name[0].partition("%")[0])), name[1]

"""Who listens at an address of TCP, or has a connection's other end, as the kernel says."""

from __future__ import annotations

import errno
import os
import socket
import sys
import time
from collections.abc import Collection, Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any, NamedTuple

_TIME_WAIT, _LISTENS = "06", "0A"
_OPEN = ("01", "03", "08")  # established, not quite yet, ended by us: so may be what nobody accepts
# The other end is there a moment after ours, and the kernel's table may change as it is read.
_UNSEEN_SECONDS = 0.2
# Between two looks, more and more: most accept at once, but who is stopped accepts nothing, and a
# table may be long.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.001, 0.2

PROC = Path("/proc")
Host = IPv4Address | IPv6Address
_AT_ALL: list[Host] = [IPv4Address(0), IPv6Address(0)]


class ListeningSocket(NamedTuple):
    """Its number, and the user who made it."""

    inode: str
    user_id: int


class _Row(NamedTuple):
    """A socket of TCP; of a connection that nobody has accepted yet, the number is 0."""

    local: tuple[Host, int]
    remote: tuple[Host, int]
    state: str
    socket: ListeningSocket


def listening_sockets(hosts: Collection[Host], port: int) -> set[ListeningSocket]:
    """Return the sockets that listen at these addresses: those at an address itself, else those at
    all of its version, else, of version 4, those at all of version 6, which may take both.

    Raises OSError where the kernel does not tell.
    """
    listening = list(_listening(port))
    sockets: set[ListeningSocket] = set()
    for host in map(_plain, hosts):
        places = [host, *(_AT_ALL if host.version == 4 else _AT_ALL[1:])]
        found = ({one for at, one in listening if at == place} for place in places)
        sockets |= next(filter(None, found), set())
    return sockets


def listening_users(hosts: Collection[Host], port: int) -> set[int]:
    """Whose they are. Raises OSError where the kernel does not tell."""
    return {one.user_id for one in listening_sockets(hosts, port)}


def addresses_of(name: str, port: int) -> set[Host]:
    """All that a name has. Raises OSError: it has none, or UnicodeError: it cannot be a name."""
    found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return {ip_address(str(one[4][0]).partition("%")[0]) for one in found}


def all_listening(proc: Path = PROC) -> Iterator[tuple[tuple[Host, int], ListeningSocket]]:
    """Addresses with their ports, and the sockets that listen there; ``proc``: of the kernel.

    Raises OSError where that does not tell.
    """
    return ((row.local, row.socket) for row in _rows(None, proc) if row.state == _LISTENS)


def beside(listening: socket.socket) -> set[ListeningSocket]:
    """Our user's other sockets that take connections to the address of this one.

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


def accepted_ends(connected: socket.socket, wait_seconds: float) -> set[ListeningSocket]:
    """Of a connection of this machine with itself, once it is accepted; none: it ends elsewhere.

    Who listens at the address need not have it: whoever is bound there may have connected to us as
    we connected to it, and a listening socket may be in several users' processes. There may be
    several ends, with the same addresses by other devices or versions: one of them has it, and
    those of ended connections do not.

    Raises:
        TimeoutError: nobody has accepted it in this time.
        OSError: the kernel does not tell.
    """
    here, there = _address(connected.getsockname()), _address(connected.getpeername())
    began = time.monotonic()
    unseen_since, pause_seconds = began, _FIRST_PAUSE_SECONDS
    while True:
        ends = [row for row in _rows(there[1]) if row.local == there and row.remote == here]
        waits = any(row.socket.inode == "0" and row.state in _OPEN for row in ends)
        now = time.monotonic()
        if ends:
            unseen_since = now
        if now - unseen_since >= _UNSEEN_SECONDS or (ends and not waits):
            return {row.socket for row in ends if row.socket.inode != "0"}
        if waits and now - began >= wait_seconds:
            raise TimeoutError("nobody has accepted our connection, and nothing was sent")
        time.sleep(min(pause_seconds, max(0.0, began + wait_seconds - now) or pause_seconds))
        pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)


def is_of_this_machine(connected: socket.socket) -> bool:
    """Whether the other end has an address of ours: then one can be bound to it."""
    host, _, *more = connected.getpeername()
    with socket.socket(connected.family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((host, 0, *more))
        except OSError as error:
            # Any other reason, such as that all ports are taken, is a stranger's to make.
            return error.errno != errno.EADDRNOTAVAIL
    return True


def nobody_in_particular() -> int | None:
    """The number that all users have here who have none of their own; ``None``: all have one.

    Raises OSError where the kernel does not tell.
    """
    if Path("/proc/self/uid_map").read_text().split() == ["0", "0", str(2**32 - 1)]:
        return None
    return int(Path("/proc/sys/kernel/overflowuid").read_text())


def _listening(port: int) -> Iterator[tuple[Host, ListeningSocket]]:
    return ((row.local[0], row.socket) for row in _rows(port) if row.state == _LISTENS)


def _rows(port: int | None, proc: Path = PROC) -> Iterator[_Row]:
    """Of the sockets with this port at their own end, or, without one, of all that listen. Those of
    connections that have ended are left out, unread: any user can have a hundred thousand."""
    ended = f" {_TIME_WAIT} "
    wanted = f" {_LISTENS} " if port is None else f":{port:04X}"
    for table in ("tcp", "tcp6"):
        path = proc / "net" / table
        if table == "tcp6" and not path.exists():
            continue
        with path.open() as lines:
            for line in filter(lambda line: wanted in line and ended not in line, lines):
                fields = line.split()
                if port is None or fields[1].endswith(wanted):
                    made = ListeningSocket(fields[9], int(fields[7]))
                    yield _Row(_place(fields[1]), _place(fields[2]), fields[3], made)


def _place(text: str) -> tuple[Host, int]:
    number, _, port = text.partition(":")
    words = [int(number[at : at + 8], 16) for at in range(0, len(number), 8)]
    packed = b"".join(one.to_bytes(4, sys.byteorder) for one in words)
    return _plain(ip_address(packed)), int(port, 16)


def _address(name: tuple[Any, ...]) -> tuple[Host, int]:
    """As the kernel has it: without the scope."""
    return _plain(ip_address(name[0].partition("%")[0])), name[1]


def _plain(host: Host) -> Host:
    """Of version 4 where it is one: a socket of version 6 may have it mapped."""
    return (isinstance(host, IPv6Address) and host.ipv4_mapped) or host

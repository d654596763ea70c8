"""Asks for the kernel's sockets of TCP, by the protocol ``sock_diag(7)``.

Whoever looks in ``/proc/net/tcp`` instead waits for a line of each connection of the machine: any
user can have hundreds of thousands.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from struct import Struct
from typing import NamedTuple

# In Linux' tcp_states.h.
ESTABLISHED, SYN_RECEIVED, TIME_WAIT, CLOSE_WAIT, LISTENS = 1, 3, 6, 8, 10

# Of netlink.h, sock_diag.h and inet_diag.h.
_SOCK_DIAG, _BY_FAMILY, _ASK, _ASK_FOR_ALL = 4, 20, 0x001, 0x301
_ERROR, _DONE = 2, 3
_HEADER, _REQUEST, _ANSWER = Struct("=IHHII"), Struct("=BBBxI"), Struct("=BB2x")
_ENDS, _DEVICE, _OWNER = Struct("!HH16s16s"), Struct("=III"), Struct("=12xII")
# A program that the kernel runs on each socket: here one instruction, which is a condition.
_PROGRAM, _INSTRUCTION, _OWN_HOST, _CONDITION = 1, Struct("=BBH"), 7, Struct("=BBxxi")
_ATTRIBUTE, _ANY_PORT = Struct("=HH"), -1
_ANY_COOKIE = 0xFFFFFFFF
_MOST_BYTES = 1 << 15  # of one answer

Host = IPv4Address | IPv6Address
End = tuple[Host, int]
_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
_NOWHERE = IPv4Address(0), 0


class SocketRow(NamedTuple):
    """Tells a socket's address and port, state, user and number. The number is 0 where nobody has
    accepted it yet."""

    local: End
    state: int
    user_id: int
    inode: int


def listening_at(port: int, host: Host | None = None) -> Iterator[SocketRow]:
    """Yield the sockets that listen at this port, 0 for any, and at this address; ``None``: at any.
    The kernel leaves the others out: any user may have very many there. Raises OSError where it
    does not tell."""
    program = b"" if host is None else _at(host)
    for version in _FAMILIES:
        with _kernel() as kernel:
            _ask(kernel, version, (IPv4Address(0), port), _NOWHERE, _ASK_FOR_ALL, 0, program)
            yield from _answers(kernel)


def _at(host: Host) -> bytes:
    """Return the program that takes sockets at this address, also where that is mapped into version
    6. Its one instruction goes on behind the end where it holds, and else too far."""
    bits = 8 * len(host.packed)
    condition = _CONDITION.pack(_FAMILIES[host.version], bits, _ANY_PORT) + host.packed
    size = _INSTRUCTION.size + len(condition)
    program = _INSTRUCTION.pack(_OWN_HOST, size, size + _INSTRUCTION.size) + condition
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(program), _PROGRAM) + program


def with_ends(local: End, remote: End) -> set[SocketRow]:
    """Return the sockets that get what is sent to the first of these ends from the second, by some
    device: of a connection, or else what listens there.

    Raises OSError where the kernel does not tell.
    """
    version, found = local[0].version, set[SocketRow]()
    with _kernel() as kernel:
        for device, _ in socket.if_nameindex():
            _ask(kernel, version, local, remote, _ASK, device)
            try:
                found.add(next(_answers(kernel)))
            except OSError as error:
                if error.errno != errno.ENOENT:
                    raise
    if not found:
        # A kernel without the protocol for TCP says the same of a socket as of that.
        next(listening_at(local[1]), None)
    return found


def _kernel() -> socket.socket:
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG)


def _ask(
    kernel: socket.socket,
    version: int,
    local: End,
    remote: End,
    how: int,
    device: int,
    program: bytes = b"",
) -> None:
    asked = _REQUEST.pack(_FAMILIES[version], socket.IPPROTO_TCP, 0, 1 << LISTENS)
    asked += _ENDS.pack(local[1], remote[1], local[0].packed, remote[0].packed)
    asked += _DEVICE.pack(device, _ANY_COOKIE, _ANY_COOKIE) + program
    kernel.send(_HEADER.pack(_HEADER.size + len(asked), _BY_FAMILY, how, 1, 0) + asked)


def _answers(kernel: socket.socket) -> Iterator[SocketRow]:
    while True:
        told, at = kernel.recv(_MOST_BYTES), 0
        while at < len(told):
            size, kind, *_ = _HEADER.unpack_from(told, at)
            body = at + _HEADER.size
            if kind in (_DONE, _ERROR):
                if code := -int.from_bytes(told[body : body + 4], sys.byteorder, signed=True):
                    raise OSError(code, f"sock_diag: {os.strerror(code)}")
                return
            at += (size + 3) & ~3
            family, state = _ANSWER.unpack_from(told, body)
            body += _ANSWER.size
            port, _, host, _ = _ENDS.unpack_from(told, body)
            body += _ENDS.size + _DEVICE.size
            own: Host = IPv4Address(host[:4]) if family == socket.AF_INET else IPv6Address(host)
            yield SocketRow((plain_host(own), port), state, *_OWNER.unpack_from(told, body))


def plain_host(host: Host) -> Host:
    """Return an address in version 4 where it is one: a socket of version 6 may have it mapped."""
    return (isinstance(host, IPv6Address) and host.ipv4_mapped) or host

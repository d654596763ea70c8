"""Who listens at an address of TCP, as the kernel says."""

from __future__ import annotations

import sys
from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import NamedTuple

_LISTENS = "0A"


class ListeningSocket(NamedTuple):
    """Its number, and the user who made it."""

    inode: str
    user_id: int


def listening_sockets(
    hosts: Collection[IPv4Address | IPv6Address], port: int
) -> set[ListeningSocket]:
    """Return the sockets that listen at these addresses; if there are none, those at all addresses.

    Raises OSError where the kernel does not tell.
    """
    exact, at_all = set(), set()
    for table in ("tcp", "tcp6"):
        path = Path(f"/proc/net/{table}")
        if table == "tcp6" and not path.exists():
            continue
        for line in path.read_text().splitlines()[1:]:
            fields = line.split()
            number, _, of_port = fields[1].partition(":")
            if fields[3] != _LISTENS or int(of_port, 16) != port:
                continue
            words = [int(number[at : at + 8], 16) for at in range(0, len(number), 8)]
            host = ip_address(b"".join(one.to_bytes(4, sys.byteorder) for one in words))
            found = ListeningSocket(fields[9], int(fields[7]))
            if host in hosts:
                exact.add(found)
            elif host.is_unspecified:
                at_all.add(found)
    return exact or at_all

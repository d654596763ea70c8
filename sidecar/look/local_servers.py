"""The Redis and Valkey servers of this machine: processes in ``/proc``, and where they listen.

A server's title says one address (``redis-server *:6379``), and every user may read it. All of its
addresses say the sockets that it has open, which only its own user and root may see.
"""

from __future__ import annotations

import os
import pwd
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import NamedTuple

from sidecar.base.private_files import who_else_may_write

PROC = Path("/proc")
_SERVER = re.compile(r"(?:redis|valkey)[\w.-]*-server[\w.-]*")
# What stands after the program's name in its title.
_PORT = re.compile(r"(\S*):(\d{1,5})")
# Another name would mean something else in an address.
_PATH = r"/[A-Za-z0-9_./:+,-]+"
_UNIX = re.compile(rf"unixsocket:({_PATH})")
ANYBODY = -1
_LISTENS = "0A"
_ACCEPTS_UNIX = 1 << 16  # __SO_ACCEPTCON of the kernel
_OPEN_SOCKET = re.compile(r"socket:\[(\d+)\]")


class LocalServer(NamedTuple):
    """A process that is a server, the address to reach it by, and the users who listen there: those
    of the sockets. Whose the process is says nothing: any user can have ``su`` wait for a password
    under a server's name, with a socket of his own open."""

    process_id: int
    url: str
    users: frozenset[int] = frozenset()

    @property
    def may_have_password(self) -> bool:
        """Whether all who listen there are we, root or the user of a package: any other user may
        have started what calls itself a server, to be told a password."""
        return bool(self.users) and self.users <= {0, os.geteuid(), *_package_users()}


def local_servers(proc: Path = PROC) -> list[LocalServer]:
    """Those that can be reached by an address of this machine, by address; a Unix socket where
    there is no port."""
    ports, paths = _listening_ports(proc), _listening_paths(proc)
    found: dict[int, LocalServer] = {}
    for process_id, title in sorted(_server_processes(proc)):
        if not _is_of_this_network(proc, process_id):
            continue  # a container's, whose ports are others
        inodes = _open_sockets(proc, process_id)
        urls = [ports[one] for one in inodes if one in ports]
        urls += [paths[one] for one in inodes if one in paths]
        # A title can name any place: of ports only one where somebody listens here.
        here = {*ports.values()}
        told = [url for url in _told_by(title) if url in here or url.startswith("unix://")]
        urls = sorted(urls, key=_by_kind) or told
        if urls and (users := _listeners(proc, urls[0])):
            found[process_id] = LocalServer(process_id, urls[0], users)
    # Anybody can have the title of another one.
    one_each = {server.url: server for server in found.values()}
    return sorted(one_each.values(), key=lambda server: server.url)


def _listeners(proc: Path, url: str) -> frozenset[int]:
    """Who listens at a port, by whatever address, or made a Unix socket, and who could exchange it;
    nobody if there is none."""
    if url.startswith("unix://"):
        path = Path(url.removeprefix("unix://"))
        try:
            user = path.lstat().st_uid
        except OSError:
            return frozenset()
        return frozenset({user, ANYBODY} if who_else_may_write(path.parent, user) else {user})
    port = f":{int(url.rpartition(':')[2]):04X}"
    return frozenset(int(fields[7]) for fields in _listening(proc) if fields[1].endswith(port))


def _package_users() -> Iterator[int]:
    for name in ("redis", "valkey"):
        with suppress(KeyError):
            yield pwd.getpwnam(name).pw_uid


def _by_kind(url: str) -> tuple[bool, int, str]:
    """A port before a socket, and the lower of two ports."""
    is_path = url.startswith("unix:")
    return is_path, 0 if is_path else int(url.rpartition(":")[2]), url


def _server_processes(proc: Path) -> Iterator[tuple[int, str]]:
    for folder in proc.iterdir():
        if not folder.name.isdigit():
            continue
        with suppress(OSError):
            words = (
                (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            )
            program, _, rest = words.strip().partition(" ")
            if _SERVER.fullmatch(program.rpartition("/")[2]):
                yield int(folder.name), rest


def _told_by(title: str) -> list[str]:
    """By the title that a server gives itself; TLS is not told there."""
    first = title.split(" ")[0] if title else ""
    if socket := _UNIX.fullmatch(first):
        return [f"unix://{socket[1]}"]
    if port := _PORT.fullmatch(first):
        return [_url(port[1], int(port[2]))]
    return []


def _url(host: str, port: int) -> str:
    if host in ("", "*", "0.0.0.0", "[::]", "::", "[::*]"):  # noqa: S104 - as servers write it
        host = "127.0.0.1"
    return f"redis://{f'[{host}]' if ':' in host and host[0] != '[' else host}:{port}"


def _is_of_this_network(proc: Path, process_id: int) -> bool:
    """Also where that is not told."""
    try:
        theirs = os.readlink(proc / str(process_id) / "ns" / "net")
        return theirs == os.readlink(proc / "self" / "ns" / "net")
    except OSError:
        return True


def _open_sockets(proc: Path, process_id: int) -> list[str]:
    """Their numbers; none where we may not see them."""
    inodes = []
    with suppress(OSError):
        for descriptor in (proc / str(process_id) / "fd").iterdir():
            with suppress(OSError):  # closed meanwhile
                if found := _OPEN_SOCKET.fullmatch(os.readlink(descriptor)):
                    inodes.append(found[1])
    return inodes


def _listening_ports(proc: Path) -> dict[str, str]:
    """Addresses by the number of the socket that listens there."""
    found = {}
    for fields in _listening(proc):
        address, _, port = fields[1].partition(":")
        found[fields[9]] = _url(_host(address), int(port, 16))
    return found


def _listening(proc: Path) -> Iterator[list[str]]:
    """The lines of sockets that listen; of each, the second field is the address, the eighth the
    user and the tenth the number."""
    for table in ("tcp", "tcp6"):
        with suppress(OSError), (proc / "net" / table).open() as lines:
            for fields in map(str.split, lines):
                if len(fields) > 9 and fields[3] == _LISTENS:
                    yield fields


def _host(text: str) -> str:
    words = [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
    host = ip_address(b"".join(one.to_bytes(4, sys.byteorder) for one in words))
    if isinstance(host, IPv6Address) and host.ipv4_mapped:
        host = host.ipv4_mapped
    return "" if host.is_unspecified else str(host)


def _listening_paths(proc: Path) -> dict[str, str]:
    found = {}
    with suppress(OSError), (proc / "net" / "unix").open(errors="replace") as lines:
        for fields in map(str.split, lines):
            is_path = len(fields) == 8 and re.fullmatch(_PATH, fields[7])
            if is_path and int(fields[3], 16) & _ACCEPTS_UNIX:
                found[fields[6]] = f"unix://{fields[7]}"
    return found

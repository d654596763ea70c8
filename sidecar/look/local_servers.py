"""Finds the Redis and Valkey servers of this machine: processes in ``/proc``, and where they
listen.

All addresses of a server say the sockets that it has open, which only its own user and root may
see. For others its title says one (``redis-server *:6379``); any process can have any title. So
that is believed of a process only whose users have made the socket there.
"""

from __future__ import annotations

import os
import pwd
import re
import socket
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from sidecar.base.kernel_waits import unix_stream
from sidecar.base.private_files import who_else_may_write
from solver_lambda.http.listening_sockets import PROC, all_listening
from solver_lambda.http.message import user_of

_SERVER = re.compile(r"(?:redis|valkey)[\w.-]*-server[\w.-]*")
# What stands after the program's name in its title.
_PORT = re.compile(r"(\S*):(\d{1,5})")
# Another name would mean something else in an address.
_PATH = r"/[A-Za-z0-9_./:+,-]+"
_UNIX = re.compile(rf"unixsocket:({_PATH})")
ANYBODY = -1
_ACCEPTS_UNIX = 1 << 16  # __SO_ACCEPTCON of the kernel
_PROBE_SECONDS = 1.0
_MOST_TITLE_BYTES = 4096
# Of a peer: its process, user and group, as SO_PEERCRED has them.
_CREDENTIALS = Struct("iII")
_OPEN_SOCKET = re.compile(r"socket:\[(\d+)\]")


class LocalServer(NamedTuple):
    """Holds a process that is a server, the address to reach it by, and the users who listen there:
    those of the sockets and of the process. One of them alone says nothing. Any user can have
    ``su`` wait for a password under a server's name, with a socket of his own open, and can be
    given one that root made."""

    process_id: int
    url: str
    users: frozenset[int] = frozenset()

    @property
    def is_believed(self) -> bool:
        """Whether all who listen there are we, root or the user of a package. Any other user may
        have started what calls itself a server, to say anything, and to be told a password."""
        return bool(self.users) and self.users <= believed_users()

    @property
    def whose(self) -> str:
        """Name the users, for people."""
        users = sorted(self.users)
        return " and ".join("anybody" if one == ANYBODY else user_of(one) for one in users)


def believed_users() -> frozenset[int]:
    """Return the users whose servers are looked at although nobody named them."""
    return frozenset({0, os.geteuid(), *_package_users()})


def local_servers(proc: Path = PROC) -> list[LocalServer]:
    """Return those that can be reached by an address of this machine, by address; a Unix socket
    where there is no port."""
    ports, users = _listening_ports(proc)
    paths = _listening_paths(proc)
    found: dict[str, LocalServer] = {}
    for process_id, title in sorted(_server_processes(proc)):
        if not _is_of_this_network(proc, process_id):
            continue  # a container's, whose ports are others
        inodes = _open_sockets(proc, process_id)
        owners = _users_of(proc, process_id)
        if inodes is None:
            # A title can name any place.
            urls = [url for url in _told_by(title) if url in users or _is_its(url, process_id)]
        else:
            urls = [ports[one] for one in inodes if one in ports]
            urls += [
                path
                for one in inodes
                for path in {*paths.get(one, ())}
                if _is_its(path, process_id)
            ]
        for url in sorted(urls, key=_by_kind)[:1]:
            listeners = _who_made(url) if url.startswith("unix:") else users[url]
            if not listeners or (inodes is None and not owners <= listeners):
                continue
            # Nobody hides another who has the same socket.
            others = found[url].users if url in found else frozenset()
            found[url] = LocalServer(process_id, url, listeners | owners | others)
    return [found[url] for url in sorted(found)]


def _listening_ports(proc: Path) -> tuple[dict[str, str], dict[str, frozenset[int]]]:
    """Return addresses by the number of the socket that listens there. Also return of each address
    who listens at its port, by whatever address."""
    urls: dict[str, str] = {}
    users: dict[int, set[int]] = defaultdict(set)
    with suppress(OSError):
        for (host, port), made in all_listening(proc):
            urls[made.inode] = _url("" if host.is_unspecified else str(host), port)
            users[port].add(made.user_id)
    return urls, {url: frozenset(users[_port_of(url)]) for url in urls.values()}


def _users_of(proc: Path, process_id: int) -> frozenset[int]:
    """Return the users that a process runs as: real, effective, saved, and for files."""
    with suppress(OSError):
        for line in (proc / str(process_id) / "status").read_text("utf-8", "replace").splitlines():
            if line.startswith("Uid:"):
                return frozenset(map(int, line.split()[1:]))
    return frozenset({ANYBODY})  # it has ended


def _who_made(url: str) -> frozenset[int]:
    """Return who made a Unix socket, and who could exchange it; nobody if there is none."""
    path = Path(url.removeprefix("unix://"))
    try:
        user = path.lstat().st_uid
    except OSError:
        return frozenset()
    return frozenset({user, ANYBODY} if who_else_may_write(path.parent, user) else {user})


def _is_its(url: str, process_id: int) -> bool:
    """Whether the process has the Unix socket there, as the kernel says to who connects."""
    if not url.startswith("unix://"):
        return False
    with unix_stream() as probe:
        probe.settimeout(_PROBE_SECONDS)
        try:
            probe.connect(url.removeprefix("unix://"))
        except OSError:
            return False
        told = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    maker: int = _CREDENTIALS.unpack(told)[0]
    return maker == process_id


def _package_users() -> Iterator[int]:
    for name in ("redis", "valkey"):
        with suppress(KeyError):
            yield pwd.getpwnam(name).pw_uid


def _is_plain(path: str) -> bool:
    """Whether it has no other spelling, of which there could be any number for one socket."""
    return os.path.normpath(path) == path


def _by_kind(url: str) -> tuple[bool, int, str]:
    """Sort a port before a socket, and the lower of two ports first."""
    is_path = url.startswith("unix:")
    return is_path, 0 if is_path else _port_of(url), url


def _port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


def _server_processes(proc: Path) -> Iterator[tuple[int, str]]:
    for folder in proc.iterdir():
        if not folder.name.isdigit():
            continue
        with suppress(OSError):
            with (folder / "cmdline").open("rb") as line:
                told = line.read(_MOST_TITLE_BYTES)  # anybody's may have gigabytes
            words = told.replace(b"\0", b" ").decode("utf-8", "replace")
            program, _, rest = words.strip().partition(" ")
            if _SERVER.fullmatch(program.rpartition("/")[2]):
                yield int(folder.name), rest


def _told_by(title: str) -> list[str]:
    """Return the addresses in the title that a server gives itself; TLS is not told there."""
    first = title.split(" ")[0] if title else ""
    if (path := _UNIX.fullmatch(first)) and _is_plain(path[1]):
        return [f"unix://{path[1]}"]
    if port := _PORT.fullmatch(first):
        return [_url(port[1], int(port[2]))]
    return []


def _url(host: str, port: int) -> str:
    if host in ("", "*", "0.0.0.0", "[::]", "::", "[::*]"):  # noqa: S104 - as servers write it
        host = "127.0.0.1"
    return f"redis://{f'[{host}]' if ':' in host and host[0] != '[' else host}:{port}"


def _is_of_this_network(proc: Path, process_id: int) -> bool:
    """Whether it is of this network, also where that is not told."""
    try:
        theirs = os.readlink(proc / str(process_id) / "ns" / "net")
        return theirs == os.readlink(proc / "self" / "ns" / "net")
    except OSError:
        return True


def _open_sockets(proc: Path, process_id: int) -> list[str] | None:
    """Return their numbers; ``None`` where we may not see them."""
    inodes: list[str] = []
    try:
        for descriptor in (proc / str(process_id) / "fd").iterdir():
            with suppress(OSError):  # closed meanwhile
                if found := _OPEN_SOCKET.fullmatch(os.readlink(descriptor)):
                    inodes.append(found[1])
    except PermissionError:
        return None
    except OSError:  # it has ended
        return []
    return inodes


def _listening_paths(proc: Path) -> dict[str, list[str]]:
    """Return paths by the number of the socket. Anybody can have a name in the table that looks
    like another's row."""
    found: dict[str, list[str]] = {}
    with suppress(OSError), (proc / "net" / "unix").open(errors="replace") as lines:
        for fields in map(str.split, lines):
            is_row = len(fields) == 8 and re.fullmatch(r"[0-9A-F]{8}", fields[3])
            is_path = is_row and re.fullmatch(_PATH, fields[7]) and _is_plain(fields[7])
            if is_path and int(fields[3], 16) & _ACCEPTS_UNIX:
                found.setdefault(fields[6], []).append(f"unix://{fields[7]}")
    return found

"""Whether the sidecar can bind the samples' endpoint, and the servers can connect to it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from sidecar.preflight.finding import Finding
from sidecar.preflight.listeners import (
    Listener,
    listener_finding,
    tcp_listener,
    unix_listener,
)
from sidecar.samples.endpoint import is_open, socket_path, tcp_address
from sidecar.servers.connection.server_reading import ServerReading
from solver_lambda.http.listening import listen_alone

_KEY = "sampling.endpoint"


def check_endpoint(endpoint: str, process: int | None) -> Iterator[Finding]:
    """Whether it can be bound, and who reaches it. ``process``: of our sidecar, which may have it
    already; 0 if that is not known, ``None`` if none runs."""
    if is_open(endpoint):
        yield _open(endpoint)
    path = socket_path(endpoint)
    if process is not None:
        found = listener_finding(_KEY, endpoint, "bound", _listener(endpoint, process))
        if found is not None:
            yield found
            return
        yield Finding(
            "advice",
            _KEY,
            f"nothing listens at {endpoint}, though the sidecar runs: it was started with another "
            "endpoint, or the socket's file was deleted",
            "restart the sidecar: it binds no other endpoint while it runs",
        )
    if path is not None:
        yield _file(endpoint, path)
    elif endpoint.startswith("tcp://"):
        yield _port(endpoint)
    else:
        yield Finding("ok", _KEY, f"{endpoint} needs no file")


def _open(endpoint: str) -> Finding:
    reach = "everybody on this machine"
    if not _is_local(endpoint):
        reach = "everybody who reaches that address"
    what = f"{reach} can connect to {endpoint}: only the servers' secrets keep forged samples out"
    if not _is_local(endpoint):
        what += ", and nothing is encrypted: who reads the network learns them"
    return Finding("advice", _KEY, what, "take ipc:///PATH, in a folder of the sidecar's own")


def _file(endpoint: str, path: Path) -> Finding:
    if path.exists() and not path.is_socket():
        return Finding("problem", _KEY, f"{path} exists and is not a socket", "choose another path")
    if path.exists() and unix_listener(str(path), 0) != Listener.NOBODY:
        return Finding(
            "problem", _KEY, f"another program listens at {path}", "end it, or choose another path"
        )
    folder = next(folder for folder in path.parents if folder.exists())
    may = os.access(folder, os.W_OK | os.X_OK)
    if not may and folder != path.parent:
        return Finding(
            "advice",
            _KEY,
            f"{path.parent} does not exist, and you may not make it in {folder}",
            f"nothing, if the service manager makes it (in systemd: RuntimeDirectory=); else make "
            f"{path.parent} yourself, for the sidecar's user",
        )
    if not may:
        return Finding(
            "problem",
            _KEY,
            f"you may not write to {folder}, where {endpoint} would be made",
            f"check as the sidecar's user, and let that own {path.parent} (in systemd: "
            "RuntimeDirectory=)",
        )
    return Finding("ok", _KEY, f"{endpoint} can be bound")


def _listener(endpoint: str, process: int) -> Listener:
    scheme, _, address = endpoint.partition("://")
    if scheme == "tcp":
        try:
            host, port = tcp_address(endpoint)
        except OSError:  # no such name
            return Listener.NOBODY
        return tcp_listener((host,), port, process)
    return unix_listener(address.replace("@", "\0", 1), process)


def _port(endpoint: str) -> Finding:
    try:
        listen_alone(*tcp_address(endpoint)).close()
    except OSError as error:
        return Finding(
            "problem",
            _KEY,
            f"{endpoint} cannot be bound: {error.strerror or error}",
            "choose an address of this machine and a free port",
        )
    return Finding("ok", _KEY, f"{endpoint} can be bound")


def check_taken_by(name: str, reading: ServerReading, endpoint: str) -> Iterator[Finding]:
    """Whether a server that runs takes it from the sidecar, or has it already: what its clients
    may set must not send samples elsewhere (``transport_is_local``)."""
    prefix = reading.sampler_prefix
    if prefix is None or _is_local(endpoint) or reading.config.get(f"{prefix}endpoint") == endpoint:
        return
    protected = reading.config.get("enable-protected-configs", "no")
    # The sidecar is local to a server whose samples reach it, but the module cannot tell.
    if protected == "yes" or (protected == "local" and prefix == "spreds-"):
        return
    yield Finding(
        "problem",
        name,
        f"does not take sampling.endpoint {endpoint} while it runs: only ipc:// and tcp:// to a "
        "loopback address",
        "take ipc:///PATH or tcp://127.0.0.1:PORT, or set enable-protected-configs yes in the "
        "server's file",
    )


def _is_local(endpoint: str) -> bool:
    scheme, _, address = endpoint.partition("://")
    host = address.rpartition(":")[0]
    if scheme == "ipc" or host in ("localhost", "[::1]"):
        return True
    try:
        return IPv4Address(host).is_loopback
    except ValueError:  # a name
        return False


@dataclass(frozen=True)
class ServerProcess:
    """Says whom a server runs as; ``groups`` has the number of each."""

    name: str
    user: int
    groups: frozenset[int]


def check_way_for(server: ServerProcess, endpoint: str, group: int | None) -> Finding | None:
    """Whether a server can connect; ``None``: nothing stands in its way, as far as it can be seen.

    ``group`` is that of ``sampling.group``, which the sidecar gives to the socket.
    """
    path = socket_path(endpoint)
    if path is None or server.user == 0:
        return None
    who = f"its process (uid {server.user})"
    will_be_given = group in server.groups and not path.is_socket()
    for folder in reversed(path.parents):
        if will_be_given and folder == path.parent:
            continue  # by the sidecar
        if folder.exists() and not _may(folder, server, 1):
            what = f"{who} may not look into {folder}, and the samples go there"
            remedy = f"chmod o+x {folder}, or chmod g+x and put the server's user into its group"
            return Finding("problem", server.name, what, remedy)
    remedy = 'give both users one group, and name it: [sampling] group = "..."'
    if path.is_socket():
        if _may(path, server, 2):
            return None
        what = f"{who} may not write to the samples' socket {path}"
        return Finding("problem", server.name, what, remedy)
    if group is not None and group not in server.groups:
        what = f"{who} is not in the group {group}, which sampling.group names"
        return Finding("problem", server.name, what, "usermod -aG, and restart the server")
    if group is None and server.user != os.geteuid():
        what = f"{who} is not you (uid {os.geteuid()}): a socket that you make may be closed to it"
        return Finding("advice", server.name, what, remedy)
    return None


def _may(path: Path, server: ServerProcess, right: int) -> bool:
    """Whether the server has the ``right``: 1 to look into, 2 to write to."""
    seen = path.stat()
    shift = 6 if seen.st_uid == server.user else 3 if seen.st_gid in server.groups else 0
    return bool(seen.st_mode >> shift & right)


def server_process(name: str, process_id: int) -> ServerProcess | None:
    """Return the server that this process is; ``None`` if it is no server of this machine."""
    folder = Path("/proc") / str(process_id)
    try:
        # Any byte may stand in a process' name.
        if not any(word in (folder / "comm").read_bytes() for word in (b"redis", b"valkey")):
            return None
        lines = (folder / "status").read_text(errors="replace").splitlines()
    except OSError:
        return None
    fields = {key: value.split() for key, _, value in (line.partition(":") for line in lines)}
    groups = frozenset(int(number) for number in [fields["Gid"][1], *fields["Groups"]])
    return ServerProcess(name, int(fields["Uid"][1]), groups)

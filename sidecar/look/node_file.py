"""Writes a node's file for servers that were looked at: what the planner goes by, and what
``--init`` writes."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from sidecar.base.plain_text import plain
from sidecar.config.effective_file import size_text, toml_string
from sidecar.config.node import (
    DEFAULT_MINIMUM_BYTES,
    ServerConfig,
    SidecarConfig,
    read_config,
)
from solver_lambda.documents.reader import DocumentError, Fields
from solver_lambda.documents.units import format_duration
from solver_lambda.http.listening import listen_alone

# Of each backend, where nobody says it.
DEFAULT_LATENCY_SECONDS = 10e-3
_SOURCE = "spreds look"
# At most half of an equal share.
_LEAST_SHARE = 2
LEAST_BUDGET_BYTES = 1 << 16
_MIB = 1 << 20
_PAGE_PORTS = range(9736, 9746)


class Access(NamedTuple):
    """Says who asks: a user, its password, and the key and value of a node's file that tell it."""

    username: str | None = None
    password: str | None = None
    told_by: str | None = None
    line: str = ""


NOBODY = Access()
_PLACE = re.compile(r"^(?P<name>[A-Za-z0-9._-]+=)?(?P<place>([\w.-]+|\[[0-9A-Fa-f:]+\]):\d+)$")


def named_servers(addresses: Sequence[str]) -> dict[str, str]:
    """Return addresses by a name for each: the one that stands before ``=``, or host and port, or
    the socket's file. A host and a port alone are one, too."""
    named: dict[str, str] = {}
    for given in addresses:
        address = _PLACE.sub(r"\g<name>redis://\g<place>", given)
        name, equals, url = address.partition("=")
        if not equals or "/" in name or ":" in name:
            name, url = _name_of(address), address
        number, free = 2, name
        while free in named:
            free, number = f"{name}-{number}", number + 1
        named[free] = url
    return named


def _name_of(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme == "unix":
        words = Path(unquote(parts.path)).stem
    else:
        port = url.rpartition(":")[2].partition("/")[0]
        host = parts.hostname or "localhost"
        is_here = host in ("127.0.0.1", "localhost", "::1")
        port = port if port.isdigit() else "6379"
        words = f"redis-{port}" if is_here else f"{host}-{port}" if port != "6379" else host
    return re.sub(r"[^A-Za-z0-9._-]", "-", words).strip(".-_") or "server"


def node_text(
    servers: Mapping[str, str],
    budget_bytes: int,
    latencies_seconds: Mapping[str, float],
    access: Access = NOBODY,
    endpoint: str = "ipc:///run/spreds/samples",
    left_out: Mapping[str, tuple[str, str]] | None = None,
    page_port: int = _PAGE_PORTS[0],
) -> str:
    """Return the file, for servers by name; of ``left_out``, address and why stand there as
    comments."""
    budget_bytes = max(LEAST_BUDGET_BYTES, _rounded_up(budget_bytes))
    least = min(DEFAULT_MINIMUM_BYTES, budget_bytes // (_LEAST_SHARE * max(1, len(servers))))
    tables = []
    for name, url in servers.items():
        seconds = latencies_seconds.get(name, DEFAULT_LATENCY_SECONDS)
        guess = "" if name in latencies_seconds else "   # a guess: what does a miss cost here?"
        lines = [
            "[[server]]",
            f"name = {toml_string(name)}",
            f"url = {toml_string(url)}",
            f'backend_latency = "{format_duration(seconds)}"{guess}',
            f"minimum = {toml_string(size_text(least))}",
        ]
        lines += [f"username = {toml_string(access.username)}"] if access.username else []
        lines += [access.line] if access.line else []
        tables.append("\n".join(lines) + "\n")
    for name, (url, why) in (left_out or {}).items():
        tables.append(f"# Left out: {plain(name)}, {plain(url)}, which {plain(why)}.\n")
    return (
        "# Written by `spreds look`, with the servers that it looked at. `spreds run FILE` does\n"
        "# so on and on; `spreds check FILE --connect` says what is missing.\n"
        f"node = {toml_string(_node_name())}\n"
        'mode = "recommend"   # plans are made and shown, and no maxmemory is set\n'
        'state_file = "state.json"\n\n'
        "[memory]\n"
        f"budget = {toml_string(size_text(budget_bytes))}\n\n"
        "[sampling]\n"
        f"endpoint = {toml_string(endpoint)}\n\n"
        "[controller]\n"
        'kind = "embedded"\n'
        'folder = "documents"   # observations and plans, and what teams set\n\n'
        "[operators]\n"
        f'listen = "127.0.0.1:{page_port}"   # the page\n\n' + "\n".join(tables)
    )


def free_page_port() -> int:
    """Return the first port for the page at which nobody listens: another node of this machine may
    be at the usual one. If all are taken, return that."""
    for port in _PAGE_PORTS:
        try:
            listen_alone("127.0.0.1", port).close()
        except OSError:
            continue
        return port
    return _PAGE_PORTS[0]


def _rounded_up(size_bytes: int) -> int:
    """Return whole MiB for what nobody has set in whole KiB, such as what a server uses."""
    return size_bytes if size_bytes % 1024 == 0 else -(-size_bytes // _MIB) * _MIB


def _node_name() -> str:
    words = re.sub(r"[^a-z0-9-]", "-", os.uname().nodename.lower()).strip("-")[:40]
    return words or "node-1"


def node_config(
    servers: Mapping[str, str],
    budget_bytes: int,
    latencies_seconds: Mapping[str, float],
    access: Access = NOBODY,
) -> SidecarConfig:
    """Return what a sidecar with that file would go by. Raises DocumentError."""
    text = node_text(servers, budget_bytes, latencies_seconds)
    config = read_config(Fields(tomllib.loads(text), _SOURCE), Path.cwd())
    return replace(config, servers=tuple(_as(access, server) for server in config.servers))


def _as(access: Access, server: ServerConfig) -> ServerConfig:
    return replace(
        server,
        username=access.username,
        password=access.password,
        password_from=access.told_by,
        source="",
    )


def write_new(path: Path, text: str) -> None:
    """Write all of it, or no file. Raises DocumentError: it cannot be written, or is there
    already."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(text)
        except OSError:
            path.unlink()
            raise
    except OSError as error:
        raise DocumentError(f"{path}: {error.strerror}") from error

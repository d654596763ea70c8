"""Reads addresses in an operator's file: of the servers, and of the endpoint for samples."""

from __future__ import annotations

import os
import re
import shlex
from ipaddress import ip_address
from urllib.parse import parse_qs, unquote, urlsplit, urlunsplit

from sidecar.base.plain_text import plain
from solver_lambda.documents.reader import Fields

# ``sun_path`` has 108 bytes, the last of them 0.
MOST_SOCKET_PATH_BYTES = 107
REDIS_PORT = 6379
SERVER_SCHEMES = ("redis://", "rediss://", "unix://")
_THIS_HOST = ("localhost", "::1")
# In a query, redis-py would take them for the address, and nobody else would.
_ADDRESS_KEYS = {"host", "port", "path"}


def read_endpoint(fields: Fields, key: str, opening: str) -> str:
    """Read ``ipc:///path``; where the key ``opening`` is true also ``ipc://@name`` or
    ``tcp://host:port``, which have no owner. Raises DocumentError."""
    endpoint = fields.text(key)
    scheme, _, address = endpoint.partition("://")
    if scheme not in ("ipc", "tcp"):
        raise fields.refuse(key, f"must start with ipc:// or tcp://, not {endpoint!r}")
    if scheme == "tcp":
        host, _, port = address.rpartition(":")
        if host in ("", "*") or not _is_port(port):
            raise fields.refuse(
                key, f"must be tcp://HOST:PORT, as the servers connect to it, not {endpoint!r}"
            )
    elif not address.startswith(("/", "@")) or len(address) < 2:
        raise fields.refuse(key, f"must be ipc:// and an absolute path, not {endpoint!r}")
    else:
        _check_length(fields, key, address)
    if not fields.boolean(opening, False) and not address.startswith("/"):
        everybody = "who reaches that port" if scheme == "tcp" else "on this machine"
        raise fields.refuse(
            key,
            f"{endpoint!r} has no owner: everybody {everybody} can connect, and only the servers' "
            "secrets keep forged samples out. Take ipc:///PATH in a folder of the sidecar's own, "
            f"or say {opening} = true",
        )
    return endpoint


def read_server_url(fields: Fields, key: str) -> str:
    """Read the address of a server, without secrets, as ``numbered``. Raises DocumentError."""
    url = fields.text(key)
    if not url.startswith(SERVER_SCHEMES):
        raise fields.refuse(key, "must start with redis://, rediss:// or unix://")
    if "@" in unquote(url) or "password=" in url:
        raise fields.refuse(key, "must not hold a secret: use password_file or password_env")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        place = url.partition("://")[2].partition("/")[0]
        if place.count(":") > 1 and not place.startswith("["):
            # The value is left out: in the place of a port there may be a password.
            raise fields.refuse(
                key, "is not an address: it has a host, and perhaps one : and a port"
            ) from None
        raise fields.refuse(key, f"{shown_url(url)!r} is not an address: {error}") from error
    if port == 0:
        raise fields.refuse(key, f"{shown_url(url)!r} is not an address: its port is 0")
    if _ADDRESS_KEYS & set(parse_qs(parts.query)):
        raise fields.refuse(key, f"{shown_url(url)!r} must have host, port and path before the ?")
    if parts.scheme == "unix":
        if not parts.path:
            raise fields.refuse(key, f"{shown_url(url)!r} does not name a socket")
        if "\0" in unquote(parts.path):
            raise fields.refuse(
                key, f"{shown_url(url)!r} is not an address: no path has a zero byte"
            )
        _check_length(fields, key, parts.path)
    return numbered(url)


def numbered(url: str) -> str:
    """Return a URL with 127.0.0.1 for ``localhost``, which may be [::1] first, where somebody else
    may listen. It stays with TLS, whose certificate is for the name."""
    parts = urlsplit(url)
    name = unquote(parts.hostname or "localhost")
    host = numbered_host(name)
    if parts.scheme not in ("redis", "http") or host == name:
        return url
    port = "" if parts.port is None else f":{parts.port}"
    return urlunsplit(parts._replace(netloc=f"{host}{port}"))


def numbered_host(host: str) -> str:
    """Return 127.0.0.1 for ``localhost``, and each other host as it is."""
    return "127.0.0.1" if host.lower() == "localhost" else host


def shown_url(url: str) -> str:
    """Return an address for messages, without what stands before ``@`` and after ``?``, which may
    be secrets."""
    scheme, slashes, rest = url.partition("://")
    if not slashes:
        scheme, rest = "", url
    rest, mark, _ = rest.replace("#", "?", 1).partition("?")
    # This holds also if it is written otherwise, or stands where it makes no sense.
    rest = re.split("@|%40", rest)[-1]
    return f"{scheme}{slashes}{rest}{mark and '?...'}"


def place_of(url: str) -> tuple[str, int]:
    """Return host and port, or path and 0: equal for two spellings of one address."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return os.path.realpath(unquote(parts.path)), 0
    host = unquote(parts.hostname or "localhost").lower()
    return "127.0.0.1" if host in _THIS_HOST else host, parts.port or REDIS_PORT


def is_own(url: str) -> bool:
    """Whether it is this machine's: no other one sees the traffic, or answers in its place."""
    parts = urlsplit(url)
    host = parts.hostname or ("localhost" if parts.scheme in ("unix", "redis", "rediss") else "")
    try:
        return ip_address(unquote(host)).is_loopback
    except ValueError:  # a name
        return host == "localhost"


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text) < 65536


def _check_length(fields: Fields, key: str, path: str) -> None:
    length = len(os.fsencode(path))
    if length > MOST_SOCKET_PATH_BYTES:
        raise fields.refuse(
            key,
            f"has a path of {length} bytes, and that of a socket has {MOST_SOCKET_PATH_BYTES} "
            f"at most: {path!r}",
        )


def cli_place(url: str) -> str:
    """Return the options of redis-cli for a server's address, for a shell."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return f"-s {shlex.quote(plain(unquote(parts.path)))}"
    host = plain(parts.hostname or "localhost")
    where = "" if host in ("127.0.0.1", "localhost") else f"-h {shlex.quote(host)} "
    return f"{'--tls ' if parts.scheme == 'rediss' else ''}{where}-p {parts.port or REDIS_PORT}"

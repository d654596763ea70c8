"""Reads ``[operators]``: where people and their tools look at the sidecar, and give orders."""

from __future__ import annotations

import grp
import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from sidecar.config.fields import lasting_secret_path, secret
from solver_lambda.documents.reader import Fields
from solver_lambda.http.listening import LOCALHOST
from solver_lambda.secret import why_no_token


@dataclass(frozen=True)
class OperatorsConfig:
    """Says where the sidecar answers, and to whom.

    Attributes:
        socket: path of the Unix socket, over which the commands speak; ``None``: there is none,
            because there is no state file that it could lie beside.
        group: whose members may connect to it beside the sidecar's own user; ``None``: nobody.
        listen: host and port for browsers, Prometheus and probes: ``localhost``, which is both
            127.0.0.1 and [::1], or the number of an address; ``None``: nowhere.
        anywhere: ``listen`` may be reached from other machines.
        token: without it no orders are taken over ``listen``.
        token_path: the file that it was read from, and is read from again where that changes.
    """

    socket: Path | None = None
    group: str | None = None
    listen: tuple[str, int] | None = None
    anywhere: bool = False
    token: str | None = field(default=None, repr=False)
    token_path: Path | None = None


def own_socket(state_file: Path) -> Path:
    """Return where commands find a sidecar that has no other place: beside its state."""
    return state_file.with_name(f"{state_file.name}.sock")


def read_operators(fields: Fields, folder: Path, state_file: Path | None) -> OperatorsConfig:
    """Read ``[operators]``; relative paths start at ``folder``. Raises DocumentError."""
    anywhere = fields.boolean("listen_anywhere", False)
    beside = own_socket(state_file) if state_file else None
    operators = OperatorsConfig(
        socket=folder / fields.text("socket") if fields.has("socket") else beside,
        group=_group(fields) if fields.has("group") else None,
        listen=_listen(fields, anywhere) if fields.has("listen") else None,
        anywhere=anywhere,
        token=_token(fields, folder),
        token_path=lasting_secret_path(fields, "token", folder),
    )
    fields.done()
    return operators


def _group(fields: Fields) -> str:
    name = fields.text("group")
    try:
        grp.getgrnam(name)
    except KeyError as error:
        raise fields.refuse("group", f"is {name!r}, and this machine has no such group") from error
    return name


def _listen(fields: Fields, anywhere: bool) -> tuple[str, int]:
    value = fields.text("listen")
    host, _, port = value.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise fields.refuse("listen", f"must be HOST:PORT, not {value!r}")
    if host == LOCALHOST:
        return host, int(port)
    host = host.strip("[]")
    try:
        address = ipaddress.ip_address(host)
    except ValueError as error:
        raise fields.refuse(
            "listen", f"must have 'localhost' or the number of an address, not {host!r}"
        ) from error
    if not address.is_loopback and not anywhere:
        raise fields.refuse(
            "listen",
            f"is {value!r}, which other machines can reach, and everybody there could read sizes "
            "and loads: take 127.0.0.1, or set operators.listen_anywhere = true",
        )
    return host, int(port)


def _token(fields: Fields, folder: Path) -> str | None:
    token = secret(fields, "token", folder)
    if token is not None and (why := why_no_token(token)):
        raise fields.refuse("token_file" if fields.has("token_file") else "token_env", why)
    return token

"""Adds the options that say who asks servers named by their addresses, for commands without a
file."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path

from sidecar.config.addresses import SERVER_SCHEMES, shown_url
from sidecar.look.node_file import Access, named_servers
from solver_lambda.documents.reader import DocumentError
from solver_lambda.secret import SecretError, read_secret

PASSWORD_VARIABLE = "REDISCLI_AUTH"  # noqa: S105 - its name, as redis-cli has it


def add_access(parser: argparse.ArgumentParser) -> None:
    """Add the options that say as whom to ask."""
    parser.add_argument("--user", metavar="NAME", help="the user to ask as (default: none)")
    parser.add_argument(
        "--password-file",
        metavar="FILE",
        type=Path,
        help=f"the password, in a file that only you may read (default: {PASSWORD_VARIABLE} of "
        "the environment)",
    )


def read_access(options: argparse.Namespace) -> Access:
    """Return what the options say. Raises DocumentError: the file is no secret."""
    if options.password_file:
        path = options.password_file.absolute()
        try:
            password = read_secret(path)
        except SecretError as error:
            raise DocumentError(f"--password-file {str(path)!r} {error}") from error
        line = f"password_file = {json.dumps(str(path))}"
        return Access(options.user, password, f"--password-file {path}", line)
    if given := os.environ.get(PASSWORD_VARIABLE):
        line = f'password_env = "{PASSWORD_VARIABLE}"'
        return Access(options.user, given, PASSWORD_VARIABLE, line)
    return Access(options.user)


def named_addresses(addresses: Sequence[str]) -> dict[str, str]:
    """Name servers as ``named_servers`` does. Raises DocumentError: an address is none, or has a
    user or a password, which every user of the machine could read."""
    for address in addresses:
        if "@" in address:
            raise DocumentError(
                f"{shown_url(address)}: leave user and password out of the address: --user and "
                f"--password-file, or {PASSWORD_VARIABLE}, have them"
            )
    servers = named_servers(addresses)
    for name, url in servers.items():
        if not url.startswith(SERVER_SCHEMES):
            raise DocumentError(
                f"{shown_url(url)} is no address of a server ({name}): it must be HOST:PORT, or "
                f"start with {', '.join(SERVER_SCHEMES[:-1])} or {SERVER_SCHEMES[-1]}"
            )
    return servers

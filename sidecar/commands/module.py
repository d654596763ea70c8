"""``spreds module`` says where the module for the servers is, and how it comes into one that
runs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from sidecar.commands.arguments import add_command
from sidecar.commands.server_access import add_access, named_addresses, read_access
from sidecar.look.node_file import node_config
from sidecar.servers.connection.redis_server import RedisServer
from sidecar.servers.connection.server_errors import ServerError

_PACKAGE = Path(__file__).parents[1]
# In a wheel; in a clone; by the installing script.
_PLACES = (
    _PACKAGE / "kernel/spreds.so",
    _PACKAGE.parent / "build/lib/spreds.so",
    Path("/usr/lib/spreds/spreds.so"),
)


def add_parser(commands: Any) -> None:
    """Add the command's arguments."""
    parser = add_command(
        commands,
        "module",
        "print the path of the module for loadmodule, or load it into servers that run",
        file=False,
        json=False,
    )
    parser.add_argument(
        "--load",
        metavar="ADDRESS",
        nargs="+",
        help="load it into these servers, such as redis://host:port or unix:///path, until they "
        "restart; each must allow it by its enable-module-command",
    )
    add_access(parser)
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Print its path, or load it; 1 if there is none, or one server did not take it.

    Raises DocumentError: an address or the password's file is wrong.
    """
    module = next((path for path in _PLACES if path.is_file()), None)
    if module is None:
        print(
            "spreds: the module is not installed here: the wheel has it, and in a clone "
            "'redis_patch/build.sh module' builds it",
            file=sys.stderr,
        )
        return 1
    if not options.load:
        print(module)
        return 0
    servers = named_addresses(options.load)
    config = node_config(servers, 1 << 40, {}, read_access(options))
    return max(_load(RedisServer(one), module) for one in config.servers)


def _load(server: RedisServer, module: Path) -> int:
    try:
        if server.read().sampler_prefix is not None:
            print(f"{server.name}: it has the module or the patch already")
            return 0
        server.ask("MODULE LOAD", str(module))
    except ServerError as error:
        print(f"spreds: {server.name}: {_words(str(error), module)}", file=sys.stderr)
        return 1
    finally:
        server.close()
    print(f"{server.name}: loaded until it restarts; 'loadmodule {module}' in its file keeps it")
    return 0


def _words(error: str, module: Path) -> str:
    """Say what was refused, and what helps."""
    if "enable-module-command" in error:
        return f"{error.rstrip('.')}. Or put 'loadmodule {module}' into its file, and restart it"
    if "Error loading the extension" in error:
        return f"{error.rstrip('.')}. Can the server's user read and run {module}?"
    return error

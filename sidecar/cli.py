"""The command ``spreds``. Data goes to stdout, messages to stderr.

Exit codes: 0 done; 1 something failed or is down; 2 wrong usage or a refused configuration.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

# As a shell has it for a program that the signal SIGPIPE ended.
PIPE_CLOSED = 141
# Each command's module in ``sidecar.commands``, which may have several.
COMMANDS = {
    "run": "run",
    "check": "check",
    "status": "status",
    "plan": "plan",
    "explain": "explain",
    "history": "history",
    "apply": "orders",
    "recommend": "orders",
    "pause": "orders",
    "resume": "orders",
    "rollback": "orders",
    "weights": "weights",
    "mrc": "mrc",
    "completion": "completion",
}


class _Parser(argparse.ArgumentParser):
    """Also of the commands. Left to find out how wide the terminal is, argparse would import
    libraries for it, help asked for or not."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(formatter_class=_narrow, **arguments)


def _narrow(prog: str) -> argparse.HelpFormatter:
    return argparse.HelpFormatter(prog, width=78)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code. Who reads its output may stop to at any time."""
    try:
        try:
            return _main(arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # What is still to be written, Python would try to write once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED


def _main(arguments: Sequence[str] | None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    # Only the command asked for is imported, and only what every command needs is imported above:
    # `spreds mrc` is done in less time than some of the libraries take to import.
    options = make_parser([name for name in COMMANDS if name in arguments[:1]]).parse_args(
        arguments
    )
    if getattr(options, "logs", True):
        _warn_on_stderr()
    try:
        return int(options.execute(options))
    except Exception as error:
        if isinstance(error, BrokenPipeError):
            sys.stdout.flush()  # fails again if it was this one, and not a connection
        code = _exit_code(error)
        if code is None:
            raise
        print(f"spreds: {error}", file=sys.stderr)
        return code


def make_parser(names: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Of these commands, or of all."""
    parser = _Parser(
        prog="spreds",
        description="Divides one machine's memory among its Redis servers.",
        epilog="Exit codes: 0 done; 1 something failed or is down; 2 wrong usage or configuration.",
    )
    parser.add_argument(
        "--version", action=_Version, nargs=0, help="print the version of SPREDS and exit"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    # One module may have several commands.
    for module in dict.fromkeys(COMMANDS[name] for name in names or COMMANDS):
        import_module(f"sidecar.commands.{module}").add_parser(commands)
    return parser


class _Version(argparse.Action):
    """Looked up only if it is asked for."""

    def __call__(self, *_: object) -> None:
        from importlib.metadata import version

        print(f"spreds {version('spreds')}")
        sys.exit(0)


def _warn_on_stderr() -> None:
    import logging

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="spreds: %(message)s")


def _exit_code(error: Exception) -> int | None:
    """Of an error that a command may end with, or ``None``."""
    from sidecar.control.order import OrderRefusedError
    from sidecar.storage.store import StoreError
    from solver_lambda.documents.reader import DocumentError

    if isinstance(error, DocumentError):
        return 2
    return 1 if isinstance(error, (OSError, OrderRefusedError, StoreError)) else None


if __name__ == "__main__":
    sys.exit(main())

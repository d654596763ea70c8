"""The command ``spreds``. Data goes to stdout, messages to stderr.

Exit codes: 0 done; 1 something failed or is down; 2 wrong usage or a refused configuration.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

COMMANDS = ("run", "check", "status", "explain", "weights", "mrc")


class _Parser(argparse.ArgumentParser):
    """Also of the commands. Left to find out how wide the terminal is, argparse would import
    libraries for it, help asked for or not."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(formatter_class=_narrow, **arguments)


def _narrow(prog: str) -> argparse.HelpFormatter:
    return argparse.HelpFormatter(prog, width=78)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    parser = _Parser(
        prog="spreds",
        description="Divides one machine's memory among its Redis servers.",
        epilog="Exit codes: 0 done; 1 something failed or is down; 2 wrong usage or configuration.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    arguments = sys.argv[1:] if arguments is None else arguments
    # Only the command asked for is imported, and only what every command needs is imported above:
    # `spreds mrc` is done in less time than some of the libraries take to import.
    for command in [name for name in COMMANDS if name in arguments[:1]] or COMMANDS:
        import_module(f"sidecar.commands.{command}").add_parser(commands)
    options = parser.parse_args(arguments)
    if getattr(options, "logs", True):
        _log_to_stderr()
    try:
        return int(options.execute(options))
    except Exception as error:
        code = _exit_code(error)
        if code is None:
            raise
        print(f"spreds: {error}", file=sys.stderr)
        return code


def _log_to_stderr() -> None:
    import logging

    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )


def _exit_code(error: Exception) -> int | None:
    """Of an error that a command may end with, or ``None``."""
    from sidecar.storage.store import StoreError
    from solver_lambda.documents.reader import DocumentError

    if isinstance(error, DocumentError):
        return 2
    return 1 if isinstance(error, (OSError, StoreError)) else None


if __name__ == "__main__":
    sys.exit(main())

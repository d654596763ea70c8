"""The command ``spreds``. Data goes to stdout, messages to stderr.

Exit codes: 0 done; 1 something failed or is down; 2 wrong usage or a refused configuration.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from importlib import import_module

from sidecar.storage.store import StoreError
from solver_lambda.document import DocumentError

COMMANDS = ("run", "check", "status", "weights", "mrc")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    parser = argparse.ArgumentParser(
        prog="spreds",
        description="Divides one machine's memory among its Redis servers.",
        epilog="Exit codes: 0 done; 1 something failed or is down; 2 wrong usage or configuration.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    arguments = sys.argv[1:] if arguments is None else arguments
    # Only the command asked for is imported: some need libraries that take a second to import.
    for command in [name for name in COMMANDS if name in arguments[:1]] or COMMANDS:
        import_module(f"sidecar.commands.{command}").add_parser(commands)
    options = parser.parse_args(arguments)
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    try:
        return int(options.execute(options))
    except DocumentError as error:
        print(f"spreds: {error}", file=sys.stderr)
        return 2
    except (OSError, StoreError) as error:
        print(f"spreds: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())

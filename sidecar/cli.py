"""The command ``spreds``. Data goes to stdout, messages to stderr.

Exit codes: 0 done; 1 something failed or is down; 2 wrong usage or a refused configuration.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from sidecar import command_check, command_mrc, command_run, command_status, command_weights
from sidecar.store import StoreError
from solver_lambda.document import DocumentError

COMMANDS = (command_run, command_check, command_status, command_weights, command_mrc)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    parser = argparse.ArgumentParser(
        prog="spreds",
        description="Divides one machine's memory among its Redis servers.",
        epilog="Exit codes: 0 done; 1 something failed or is down; 2 wrong usage or configuration.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_parser(commands)
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

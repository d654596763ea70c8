"""Makes the parsers of all commands."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection
from importlib import import_module
from typing import Any

# Each command's module in ``sidecar.commands``, which may have several.
COMMANDS = {
    "run": "run.run",
    "check": "check",
    "status": "status.status",
    "plan": "plan.plan",
    "explain": "explain.explain",
    "history": "history",
    "apply": "orders",
    "recommend": "orders",
    "pause": "orders",
    "resume": "orders",
    "rollback": "orders",
    "weights": "weights",
    "look": "look.look",
    "module": "module",
    "mrc": "mrc.mrc",
    "completion": "completion",
}


class _Parser(argparse.ArgumentParser):
    """Parses the arguments of ``spreds`` and of its commands. Argparse would import libraries to
    find out how wide the terminal is, help asked for or not."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(formatter_class=_narrow, **arguments)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse unknown arguments. Argparse would refuse a command's with the usage of ``spreds``,
        and without what is near."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            from difflib import get_close_matches

            near = get_close_matches(unknown[0].partition("=")[0], self._option_string_actions, 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{meant}")
        return found, unknown


def _narrow(prog: str) -> argparse.HelpFormatter:
    return argparse.HelpFormatter(prog, width=78)


def make_parser(names: Collection[str] = COMMANDS) -> argparse.ArgumentParser:
    """Return a parser of these commands, or of all."""
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
    for module in dict.fromkeys(COMMANDS[name] for name in names):
        import_module(f"sidecar.commands.{module}").add_parser(commands)
    return parser


class _Version(argparse.Action):
    """Looks the version up only if it is asked for."""

    def __call__(self, *_: object) -> None:
        from importlib.metadata import version

        print(f"spreds {version('spreds')}")
        sys.exit(0)

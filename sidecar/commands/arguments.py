"""Adds the arguments that commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, TypeVar

_Value = TypeVar("_Value")


def add_command(
    commands: Any, name: str, help_text: str, *, file: bool = True, json: bool = True
) -> argparse.ArgumentParser:
    """Return a command's parser; ``help_text`` is a sentence without its full stop."""
    sentence = f"{help_text[0].upper()}{help_text[1:]}."
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=help_text, description=sentence
    )
    if file:
        parser.add_argument("config", metavar="FILE", help="the node's TOML file")
    if json:
        add_json(parser)
    return parser


def typed(read: Callable[[str], _Value]) -> Callable[[str], _Value]:
    """Return an argument's type: ``read`` reads it, and what its ValueError says is told."""

    def checked(text: str) -> _Value:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return checked


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def add_verbose(parser: argparse.ArgumentParser, help_text: str) -> None:
    """Add ``--verbose``."""
    parser.add_argument("--verbose", action="store_true", help=help_text)

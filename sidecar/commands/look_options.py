"""The options of ``spreds look``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from sidecar.commands.arguments import add_json, typed
from sidecar.commands.server_access import add_access
from solver_lambda.documents.units import parse_duration, parse_size

_DEFAULT_SECONDS = 300.0


def add_options(commands: Any) -> argparse.ArgumentParser:
    """The command's parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "look",
        help="say what caches could gain, with nothing installed on them",
        description="Says what the Redis and Valkey servers of this machine could gain by another "
        "division of their memory, from outside: it asks for idle times of some of their keys, "
        "and sets nothing.",
    )
    parser.add_argument(
        "addresses",
        metavar="ADDRESS",
        nargs="*",
        help="of a server, such as redis://host:port, unix:///path or pages=redis://host:port "
        "(default: all that are found on this machine)",
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="take servers, weights, latencies and budget from a node's TOML file",
    )
    add_access(parser)
    parser.add_argument(
        "--for",
        dest="for_seconds",
        metavar="5m",
        type=_duration,
        default=_DEFAULT_SECONDS,
        help="look for so long (default: 5m)",
    )
    parser.add_argument(
        "--budget",
        metavar="8GiB",
        type=_size,
        help="the memory to divide (default: what the servers have)",
    )
    parser.add_argument(
        "--backend-latency",
        metavar="NAME=20ms",
        action="append",
        type=_latency,
        default=[],
        help="what a miss costs in this server (default: the same in all); can be repeated",
    )
    _add_files(parser)
    add_json(parser)
    return parser


def _add_files(parser: argparse.ArgumentParser) -> None:
    """What is written beside the answer."""
    parser.add_argument(
        "--init",
        metavar="FILE",
        type=Path,
        help="write a node's TOML file with these servers, which must not be there yet",
    )
    parser.add_argument(
        "--html",
        metavar="FILE",
        type=Path,
        help="write the answer as a page with curves, too, which must not be there yet",
    )


def _positive(number: float, text: str) -> float:
    if number <= 0:
        raise argparse.ArgumentTypeError(f"must be more than 0, not {text!r}")
    return number


def _duration(text: str) -> float:
    return _positive(typed(parse_duration)(text), text)


def _size(text: str) -> int:
    return int(_positive(typed(parse_size)(text), text))


def _latency(text: str) -> tuple[str, float]:
    name, equals, duration = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"must be NAME=DURATION, such as pages=20ms, not {text!r}")
    return name, _duration(duration)

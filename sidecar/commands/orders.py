"""``spreds apply|recommend|pause|resume|rollback FILE`` give orders to a running sidecar."""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import replace
from typing import Any

from sidecar.commands.arguments import add_command, typed
from sidecar.commands.printing import print_wrapped
from sidecar.commands.running import client_despite, client_of
from sidecar.config.node import SidecarConfig, load_config
from sidecar.control.order import LONGEST_PAUSE_SECONDS, NOT_ON_FILE, Order
from solver_lambda.documents.reader import DocumentError
from solver_lambda.documents.units import format_duration, parse_duration


def add_parser(commands: Any) -> None:
    """Add the five commands and their arguments."""
    apply = _add(commands, "apply", "carry out the last recommended plan, once")
    apply.add_argument(
        "plan",
        metavar="PLAN",
        nargs="?",
        type=_cycle,
        help="the number of the plan that you have read: nothing is done if there is another since",
    )
    apply.add_argument(
        "--from-now-on",
        action="store_true",
        help="carry out all plans from now on, until another mode is ordered, or a pause",
    )
    _add(
        commands,
        "recommend",
        "hold the sizes in force, and only recommend plans from now on without carrying them out",
    )
    pause = _add(commands, "pause", "set no sizes at all for a while, or until `spreds resume`")
    pause.add_argument(
        "--for", dest="for_seconds", metavar="2h", type=_duration, help="end it after this time"
    )
    resume = _add(
        commands,
        "resume",
        "end a pause, a wait after a plan that failed, and sizes that somebody set by hand",
    )
    resume.add_argument(
        "server",
        metavar="SERVER",
        nargs="?",
        help="only give this server, which somebody resized by hand, back to SPREDS",
    )
    resume.add_argument(
        "--listener",
        metavar="USER",
        help="as root: SERVER runs as this user from now on, who alone is told its password",
    )
    rollback = _add(
        commands, "rollback", "go back to the sizes before the last plan, and only recommend"
    )
    rollback.add_argument(
        "--to-installation",
        action="store_true",
        help="go back to the sizes that the servers had before SPREDS came",
    )


def _add(commands: Any, name: str, help_text: str) -> argparse.ArgumentParser:
    parser = add_command(commands, name, help_text)
    parser.add_argument(
        "--why", metavar="TEXT", default="", help="the reason, which the history keeps"
    )
    parser.add_argument(
        "--by", metavar="NAME", default="", help="whose order it is, beside your user's name"
    )
    parser.set_defaults(execute=execute)
    return parser


def _cycle(text: str) -> int:
    if not re.fullmatch(r"\d{1,15}", text):
        raise argparse.ArgumentTypeError(
            f"must be a plan's number, as `spreds plan` prints it, not {text!r}"
        )
    return int(text)


def _duration(text: str) -> float:
    seconds = typed(parse_duration)(text)
    if seconds <= 0:
        raise argparse.ArgumentTypeError(f"must be more than 0s, not {text!r}")
    if seconds > LONGEST_PAUSE_SECONDS:
        raise argparse.ArgumentTypeError(
            f"must be {format_duration(LONGEST_PAUSE_SECONDS)} at most, not {text!r}: "
            "without --for a pause lasts until `spreds resume`"
        )
    return seconds


def execute(options: argparse.Namespace) -> int:
    """Give the order and print what was done, also where the file has a mistake by now. The exit
    code is 1 if a restart forgets it.

    Raises:
        DocumentError: the node's file has no such server, or does not say where the sidecar is.
        OrderRefusedError, SidecarSilentError
    """
    try:
        config = load_config(options.config, secrets=False)
    except DocumentError as error:
        done = client_despite(options.config, error).order(_order(options, None))
    else:
        done = client_of(config).order(replace(_order(options, config), node=config.node))
    if options.json:
        print(json.dumps({"done": done}))
    else:
        print_wrapped(done)
    return int(done.endswith(NOT_ON_FILE))


def _order(options: argparse.Namespace, config: SidecarConfig | None) -> Order:
    what, by, why = options.command, options.by, options.why
    if what == "apply":
        all_plans = "apply_from_now_on" if options.from_now_on else what
        return Order(all_plans, by, why, plan=options.plan)
    if what == "pause":
        return Order(what, by, why, for_seconds=options.for_seconds)
    if what == "resume" and (options.server or options.listener) is not None:
        if options.server is None:
            raise DocumentError("--listener is of a server: name it, too")
        names = [server.name for server in config.servers] if config else [options.server]
        if options.server not in names:
            raise DocumentError(
                f"{options.config}: has no server {options.server!r}, only {', '.join(names)}"
            )
        return Order(what, by, why, server=options.server, listener=options.listener)
    if what == "rollback" and options.to_installation:
        return Order(what, by, why, to="installation")
    return Order(what, by, why)

"""``spreds run CONFIG``: the sidecar, until SIGTERM or SIGINT; SIGHUP reads the file again."""

from __future__ import annotations

import argparse
import signal
from typing import Any

from sidecar.base.log_setup import set_up_log
from sidecar.commands.arguments import add_command
from sidecar.config.node import load_config
from sidecar.daemon import Sidecar
from sidecar.state.node_lock import node_lock


def add_parser(commands: Any) -> None:
    """Add the command's arguments."""
    parser = add_command(
        commands,
        "run",
        "run the sidecar of this node until SIGTERM or SIGINT; SIGHUP reads the file again",
        json=False,
    )
    parser.add_argument(
        "--verbose", action="store_true", help="log also each transition and what repeats itself"
    )
    parser.set_defaults(execute=execute, logs=False)


def execute(options: argparse.Namespace) -> int:
    """Run until a signal comes. Raises DocumentError, OSError."""
    set_up_log(verbose=options.verbose)
    config = load_config(options.config)
    set_up_log(config.log.format, verbose=options.verbose)
    with node_lock(config):
        sidecar = Sidecar(config)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: sidecar.stop())
        signal.signal(signal.SIGHUP, lambda *_: sidecar.reload(lambda: load_config(options.config)))
        sidecar.run()
    return 0

"""``spreds run CONFIG``: the sidecar, until SIGTERM or SIGINT; SIGHUP reads the file again."""

from __future__ import annotations

import argparse
import logging
import signal
from typing import Any

from sidecar.commands.arguments import add_command
from sidecar.config.node import load_config
from sidecar.daemon import Sidecar
from sidecar.state.node_lock import node_lock

log = logging.getLogger(__name__)


def add_parser(commands: Any) -> None:
    """Add the command's arguments."""
    parser = add_command(
        commands,
        "run",
        "run the sidecar of this node until SIGTERM or SIGINT; SIGHUP reads the file again",
        json=False,
    )
    parser.add_argument("--verbose", action="store_true", help="log every transition")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Run until a signal comes. Raises DocumentError, OSError."""
    if options.verbose:
        logging.getLogger("sidecar").setLevel(logging.DEBUG)
    config = load_config(options.config)
    with node_lock(config):
        sidecar = Sidecar(config)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: sidecar.stop())
        signal.signal(signal.SIGHUP, lambda *_: sidecar.reload(lambda: load_config(options.config)))
        sidecar.run()
    return 0

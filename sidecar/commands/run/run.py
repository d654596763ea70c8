"""``spreds run CONFIG`` runs the sidecar until SIGTERM or SIGINT; SIGHUP reads the file again."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from sidecar.base.kernel_waits import end_waits
from sidecar.commands.arguments import add_command

log = logging.getLogger(__name__)


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
    """Run until a signal comes. Raises DocumentError, OSError, NotCompiledError."""
    hang_ups = _HangUps()
    # Imported only now: a SIGHUP meanwhile would end the process.
    from sidecar.base.log_setup import set_up_log

    set_up_log(verbose=options.verbose)
    # Only its own user may read its files: state, history and documents tell of loads and people.
    before = os.umask(0o077)
    try:
        return _run(options, hang_ups)
    finally:
        os.umask(before)


def _run(options: argparse.Namespace, hang_ups: _HangUps) -> int:
    from sidecar.base.log_setup import set_up_log
    from sidecar.config.node import load_config
    from sidecar.kernel.library import library
    from sidecar.state.node_lock import node_lock

    library()  # at once, not with the first samples
    config = load_config(options.config)
    servers = [server.name for server in config.servers]
    set_up_log(config.log.format, verbose=options.verbose, servers=servers)
    end_waits()
    with node_lock(config):
        # The rest takes seconds on a busy machine; who asks meanwhile learns that it starts.
        log.info("node %s is starting, with %d servers", config.node, len(servers))
        # Later imports are done now: strangers may have taken the last descriptor by then.
        import encodings.ascii  # noqa: F401

        import numpy.random  # noqa: F401

        from sidecar.commands.run.team_reports import TeamReports
        from sidecar.daemon import Sidecar

        sidecar = Sidecar(config)
        _stop_at_signals(sidecar.stop)
        hang_ups.lead_to(lambda: sidecar.reload(lambda: load_config(options.config)))
        with TeamReports(sidecar):
            sidecar.run()
    return 0


def _stop_at_signals(stop: Callable[[], None]) -> None:
    # A thread of its own: a handler that takes a lock waits for ever, if what it interrupts has it.
    signals: SimpleQueue[int] = SimpleQueue()

    def stop_at_each() -> None:
        while number := signals.get():
            log.info("%s came: stopping", signal.Signals(number).name)
            stop()

    threading.Thread(target=stop_at_each, name="signals", daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: signals.put(number))


class _HangUps:
    """Takes SIGHUP from now on, and makes up for one that comes too early."""

    def __init__(self) -> None:
        self._is_asked = False
        self._reload: Callable[[], None] | None = None
        signal.signal(signal.SIGHUP, self._take)

    def lead_to(self, reload: Callable[[], None]) -> None:
        """Call this for each, also for those until now."""
        self._reload = reload
        if self._is_asked:
            reload()

    def _take(self, *_: object) -> None:
        self._is_asked = True
        if self._reload is not None:
            self._reload()

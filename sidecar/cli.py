"""Runs the command ``spreds``. Data goes to stdout, messages to stderr.

Exit codes: 0 done; 1 something failed or is down; 2 wrong usage, a refused configuration, or
no compiled library.
"""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from sidecar.commands.mrc.mrc_options import MrcOptions

# As a shell has it for a program that the signal SIGPIPE ended.
PIPE_CLOSED = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code. Whoever reads its output may stop at any time."""
    try:
        try:
            code = _main(arguments)
        finally:
            sys.stdout.flush()
        if arguments is None and sys.argv[1:2] == ["mrc"]:
            # The process' end takes all back anyway: to tidy up would take a tenth of its time.
            sys.stderr.flush()
            os._exit(code)
        return code
    except BrokenPipeError:
        # At its end Python would try once more to write what is left.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED


def _main(arguments: Sequence[str] | None) -> int:
    if arguments is None:
        # Imported modules stay: looking for garbage in them takes a tenth of a start.
        gc.disable()
    options = _options(sys.argv[1:] if arguments is None else list(arguments))
    if arguments is None:
        gc.freeze()
        gc.enable()
    if getattr(options, "logs", True):
        _warn_on_stderr()
    try:
        from sidecar.base.plain_text import PlainOutput

        with PlainOutput():
            return int(options.execute(options))
    except Exception as error:
        if isinstance(error, BrokenPipeError) and options.command != "run":
            raise  # of stdout: what is said to a sidecar or a server has errors of its own
        code = _exit_code(error)
        if code is None:
            raise
        from sidecar.base.plain_text import plain

        print(plain(f"spreds: {error}", keep="\n"), file=sys.stderr)
        return code


def _options(arguments: list[str]) -> Namespace | MrcOptions:
    # Only the command asked for is imported, and only what every command needs is imported above:
    # `spreds mrc` is done in less time than some of the libraries take to import.
    if arguments[:1] == ["mrc"]:
        from sidecar.commands.mrc.mrc_options import read_plainly

        plain = read_plainly(arguments[1:])
        if plain is not None:
            from sidecar.commands.mrc.mrc import execute

            plain.execute = execute
            return plain
    from sidecar.base.plain_text import PlainOutput
    from sidecar.commands.parser import COMMANDS, make_parser

    version_alone = arguments[:1] == ["--version"]
    names = (
        [] if version_alone else [name for name in COMMANDS if name in arguments[:1]] or COMMANDS
    )
    with PlainOutput():
        return make_parser(names).parse_args(arguments)


def _warn_on_stderr() -> None:
    import logging

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="spreds: %(message)s")


def _exit_code(error: Exception) -> int | None:
    """Return the code of an error that a command may end with, or ``None``."""
    from sidecar.control.order import OrderRefusedError
    from sidecar.kernel.library import NotCompiledError
    from sidecar.storage.store import StoreError
    from solver_lambda.documents.reader import DocumentError

    if isinstance(error, (DocumentError, NotCompiledError)):
        return 2
    # Python has no class of its own for that: the limit of processes (TasksMax, ulimit -u).
    has_no_thread = isinstance(error, RuntimeError) and "start new thread" in str(error)
    return (
        1 if has_no_thread or isinstance(error, (OSError, OrderRefusedError, StoreError)) else None
    )


if __name__ == "__main__":
    sys.exit(main())

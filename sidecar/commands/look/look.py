"""``spreds look [ADDRESS ...]`` says what caches could gain, with nothing installed on them."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

from sidecar.base.kernel_waits import end_waits
from sidecar.commands.arguments import add_json, typed
from sidecar.commands.look.look_answer import Answer, gain_error_ratio, least_safe_bytes
from sidecar.commands.look.look_page import as_page
from sidecar.commands.look.look_progress import nothing_words, progress_words
from sidecar.commands.look.look_words import headline, in_words, next_words, notes
from sidecar.commands.running import with_known_listeners
from sidecar.commands.server_access import add_access, named_addresses, read_access
from sidecar.config.node import SidecarConfig, load_config
from sidecar.look.local_servers import LocalServer, believed_users, local_servers
from sidecar.look.look_plan import look_plan
from sidecar.look.looking import Looking
from sidecar.look.node_file import (
    DEFAULT_LATENCY_SECONDS,
    LEAST_BUDGET_BYTES,
    Access,
    free_page_port,
    node_config,
    node_text,
    write_new,
)
from sidecar.look.server_look import Seen, ServerLook
from solver_lambda.documents.plan import ServerPlan
from solver_lambda.documents.reader import DocumentError
from solver_lambda.documents.units import parse_duration, parse_size

# The options of `spreds look`.
_DEFAULT_SECONDS = 300.0


def add_options(commands: Any) -> argparse.ArgumentParser:
    """Add the command's parser."""
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
        help="what a miss costs in this server (default: the same in all); can be repeated; one "
        "that was found is called redis-PORT",
    )
    _add_files(parser)
    add_json(parser)
    return parser


def _add_files(parser: argparse.ArgumentParser) -> None:
    """Add the options for what is written beside the answer."""
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


def as_json(answer: Answer) -> dict[str, Any]:
    """Return what a look says, as JSON for programs."""
    plan, observation = answer.found.plan, answer.found.observation
    before = plan.mean_access_time_before_seconds
    return {
        "words": headline(answer),
        "decision": plan.decision,
        "reason": plan.reason,
        "seconds": answer.seconds,
        "budget_bytes": observation.budget_bytes,
        "least_bytes": least_safe_bytes(answer),
        "mean_access_time_before_seconds": before,
        "mean_access_time_seconds": plan.mean_access_time_seconds,
        "gain_error_ratio": gain_error_ratio(answer) if before else None,
        "servers": [
            _server_json(one, planned)
            for one, planned in zip(answer.seen, plan.servers, strict=True)
        ],
        "not_looked_at": [{"name": one.name, "why": one.why} for one in answer.refused],
        "notes": notes(answer),
        "written": answer.init,
    }


def _server_json(seen: Seen, planned: ServerPlan) -> dict[str, Any]:
    reads = seen.hits + seen.misses
    known = seen.estimate if seen.is_known else None
    return {
        "name": seen.config.name,
        "url": seen.config.url,
        "size_before_bytes": seen.reading.size_bytes,
        "size_bytes": planned.maxmemory_bytes,
        "reads_per_second": reads / seen.seconds,
        "hit_ratio_before": seen.hits / reads if reads else None,
        "hit_ratio": planned.hit_ratio if known else None,
        "curve_error_ratio": seen.error_at(planned.maxmemory_bytes) if known else None,
        "curve": known.curve.to_json() if known else None,
        "known_to_bytes": seen.known_to_bytes,
        "keys_followed": seen.followed,
        "cost_ratio": seen.cost_ratio,
        "keep_reason": seen.estimate.keep_reason if seen.estimate else "nothing is known yet",
    }


# As a shell has it for a program that Ctrl-C ended.
INTERRUPTED = 130
_LEAST_PROGRESS_SECONDS = 5.0
# A look that is shorter, with ``--init``, is for the file alone.
_SHORT_SECONDS = 30.0
_MOST_PROGRESS_LINES = 30
_MOST_PATH_BYTES = 100
# So many of the servers found are looked at, and so many of those left alone are named.
_MOST_FOUND, _MOST_NAMED = 50, 10


def add_parser(commands: Any) -> None:
    """Add the command's arguments."""
    add_options(commands).set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Look, and print what was seen; 1 if no server could be looked at. Raises DocumentError."""
    if options.config and options.addresses:
        raise DocumentError("--config names the servers: leave the addresses out")
    end_waits()
    _check_new("--init", options.init)
    _check_new("--html", options.html)
    access = read_access(options)
    file = with_known_listeners(load_config(options.config)) if options.config else None
    config = _config(options, file, access)
    if config is None:
        print("spreds: no Redis or Valkey server was found here: name its address", file=sys.stderr)
        return 1
    with _stopped_by_hand() as stopped:
        is_named = bool(options.addresses or options.config)
        believed = None if is_named else believed_users()
        looking = Looking(config.servers, wait=stopped.wait, believed=believed)
        try:
            guessed = _guessed(options, file)
            return _look(options, config, access, looking, stopped, guessed_latency=guessed)
        except KeyboardInterrupt:  # the second one
            return INTERRUPTED
        finally:
            looking.close()


def _look(
    options: argparse.Namespace,
    config: SidecarConfig,
    access: Access,
    looking: Looking,
    stopped: Event,
    *,
    guessed_latency: bool,
) -> int:
    if looking.looks:
        if names := [one.name for one in looking.refused]:  # nobody needs to wait for that
            words = f"not looked at: {', '.join(names)}: the answer says why"
            print(f"spreds: {words}", file=sys.stderr)
        budget_bytes = _budget_bytes(options, config, looking)
        every = max(_LEAST_PROGRESS_SECONDS, options.for_seconds / _MOST_PROGRESS_LINES)
        seconds = looking.run(
            options.for_seconds, budget_bytes, stopped.is_set, _progress(options.for_seconds, every)
        )
    if not looking.looks:
        print(nothing_words(looking.refused), file=sys.stderr)
        return 1
    config = _with_budget(options, config, looking, budget_bytes)
    seen = looking.seen()
    counts = {look.config.name: look.monitor.counts for look in looking.looks}
    answer = Answer(
        seen=seen,
        refused=looking.refused,
        found=look_plan(config, seen, counts, budget_bytes),
        seconds=seconds,
        asked_seconds=options.for_seconds,
        guessed_latency=guessed_latency,
        init=str(options.init) if options.init and any(one.has_config for one in seen) else None,
        found_servers=not (options.config or options.addresses),
    )
    # First what took minutes: a disk may be full.
    is_for_file = options.init and options.for_seconds < _SHORT_SECONDS and not options.json
    if not is_for_file:
        words = json.dumps(as_json(answer), indent=1) if options.json else in_words(answer)
        print(words, flush=True)
    if options.init:
        _write(options, access, answer)
    if is_for_file:  # it knows less than the look before it
        print(next_words(answer))
    if options.html:
        write_new(options.html, as_page(answer))
    return 0


def _check_new(option: str, path: Path | None) -> None:
    """Check that the file can be made. Raises DocumentError: it is there, or cannot be made."""
    if path and os.path.lexists(path):
        raise DocumentError(f"{path} is there already, and is not written over")
    if path and path.parent != Path() and not path.parent.is_dir():
        raise DocumentError(f"{option} {path}: there is no folder {path.parent}")


def _config(
    options: argparse.Namespace, file: SidecarConfig | None, access: Access
) -> SidecarConfig | None:
    """Return what to look at; ``None``: nothing was found. Raises DocumentError."""
    latencies = dict(options.backend_latency)
    if file is not None:
        _check_names(latencies, [server.name for server in file.servers])
        return replace(
            file,
            servers=tuple(
                replace(
                    server,
                    backend_latency_seconds=latencies.get(
                        server.name, server.backend_latency_seconds or DEFAULT_LATENCY_SECONDS
                    ),
                )
                for server in file.servers
            ),
        )
    addresses = options.addresses or [server.url for server in _found()]
    if not addresses:
        return None
    servers = named_addresses(addresses)
    _check_names(latencies, list(servers))
    # Budget and minima are not known before the servers have answered.
    return node_config(servers, 1 << 40, latencies, access)


def _found() -> list[LocalServer]:
    """Any user can start what calls itself a server, and have it say anything."""
    found = local_servers()
    own = [one for one in found if one.is_believed]
    strangers = [one for one in found if not one.is_believed]
    for one in strangers[:_MOST_NAMED]:
        print(
            f"spreds: {one.url} is not looked at, as its socket is of {one.whose}: name the "
            "address, if you know whose server it is",
            file=sys.stderr,
        )
    if len(strangers) > _MOST_NAMED:
        print(f"spreds: nor are {len(strangers) - _MOST_NAMED} more", file=sys.stderr)
    if len(own) > _MOST_FOUND:
        print(
            f"spreds: of {len(own)} servers {_MOST_FOUND} are looked at: name the others",
            file=sys.stderr,
        )
    return own[:_MOST_FOUND]


def _check_names(latencies: Mapping[str, float], names: Sequence[str]) -> None:
    for name in latencies:
        if name not in names:
            raise DocumentError(
                f"--backend-latency {name}: there is no such server, but {', '.join(names)}"
            )


def _budget_bytes(options: argparse.Namespace, config: SidecarConfig, looking: Looking) -> int:
    """Return what the servers that are looked at may have together. Raises DocumentError."""
    given: int | None = options.budget
    if given is None and options.config:
        given = config.memory.budget_bytes
    if given is None:
        return looking.size_bytes
    left = given - sum(one.size_bytes for one in looking.refused)
    if left <= 0:
        raise DocumentError("the budget is what servers have that cannot be looked at")
    return left


def _with_budget(
    options: argparse.Namespace, config: SidecarConfig, looking: Looking, budget_bytes: int
) -> SidecarConfig:
    """Return the same servers, those that were looked at, dividing this budget. Raises
    DocumentError."""
    if options.config:
        return replace(config, memory=replace(config.memory, budget_bytes=budget_bytes))
    servers = {look.config.name: look.config.url for look in looking.looks}
    return node_config(servers, budget_bytes, dict(options.backend_latency))


def _guessed(options: argparse.Namespace, file: SidecarConfig | None) -> bool:
    """Whether nobody said what misses cost."""
    told = file and any(server.backend_latency_seconds is not None for server in file.servers)
    return not (told or options.backend_latency)


def _write(options: argparse.Namespace, access: Access, answer: Answer) -> None:
    """Write the node's file. Raises DocumentError, as ``write_new`` does."""
    servers = {one.config.name: one.config.url for one in answer.seen if one.has_config}
    if not servers:
        raise DocumentError(
            f"{options.init} is not written: no CONFIG in any of them, so nobody can set sizes here"
        )
    left_out = {one.name: (one.url, one.why) for one in answer.refused if one.url}
    hosted = [one for one in answer.seen if not one.has_config]
    left_out |= {one.config.name: (one.config.url, "has no CONFIG") for one in hosted}
    endpoint = options.init.absolute().parent / "samples"
    if os.geteuid() == 0 or len(os.fsencode(endpoint)) > _MOST_PATH_BYTES:
        endpoint = Path("/run/spreds/samples")
    # What each says at the end, for what one without CONFIG says may change.
    budget_bytes = sum(one.reading.size_bytes for one in answer.seen if one.has_config)
    if options.budget or options.config:
        hosted_bytes = sum(one.reading.size_bytes for one in hosted)
        budget_bytes = answer.found.observation.budget_bytes - hosted_bytes
    if budget_bytes < len(servers) * LEAST_BUDGET_BYTES:
        raise DocumentError(
            f"{options.init} is not written: servers without CONFIG leave too little of the budget"
        )
    latencies = dict(options.backend_latency)
    place, port = f"ipc://{endpoint}", free_page_port()
    text = node_text(servers, budget_bytes, latencies, access, place, left_out, port)
    write_new(options.init, text)


def _progress(
    look_seconds: float, every_seconds: float
) -> Callable[[float, Sequence[ServerLook]], None]:
    """Tells how far it is, apart from the answer: on the other stream."""
    told_at = 0.0

    def tell(seconds: float, looks: Sequence[ServerLook]) -> None:
        nonlocal told_at
        if seconds - told_at >= every_seconds:
            told_at = seconds
            print(progress_words(seconds, look_seconds, looks), file=sys.stderr)

    return tell


@contextmanager
def _stopped_by_hand() -> Iterator[Event]:
    """Give an event that Ctrl-C sets, once; the second one ends the command."""
    stopped = Event()

    def stop(*_: object) -> None:
        signal.signal(signal.SIGINT, before)
        stopped.set()

    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, stop)
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, before)

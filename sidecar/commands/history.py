"""``spreds history FILE`` tells what was planned, checked, ordered and rolled back, also while the
sidecar is down."""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sidecar.base.time_of_day import time_of_day
from sidecar.commands.arguments import add_command, add_verbose
from sidecar.commands.printing import print_wrapped
from sidecar.commands.running import FEW, client_despite, history_of
from sidecar.config.node import load_config
from solver_lambda.documents.reader import DocumentError
from solver_lambda.documents.units import format_size, parse_duration
from solver_lambda.documents.words import reason_words, without_backend

# The history in short: the sizes of a plan once, an order before what it causes.
_KNOWN = re.compile(r"; how far curves are known: (.*)", re.DOTALL)
_LITTLE_KNOWN = re.compile(r"([\w.-]+) (?:not at all|hardly \()|, and (\d+ more) hardly")
_CARRYING_OUT = re.compile(r"carrying out plan (\d+): [^;]*(?:; how far curves are known[^;]*)?")
_SIZE = r"[\d.]+ [KMGT]?i?B"
_SIZES = re.compile(rf"[\w.-]+ {_SIZE}(?: -> {_SIZE})?(?:, [\w.-]+ {_SIZE}(?: -> {_SIZE})?)+")


def in_short(entries: Sequence[dict[str, Any]], server: str | None) -> list[dict[str, Any]]:
    """Return the entries as they are told, of one ``server`` or all: their words say nothing twice,
    and those whose sizes stand elsewhere have none. Nor has a plan that another one replaced before
    anybody carried it out."""
    found: list[dict[str, Any]] = []
    moved = {entry["cycle"] for entry in entries if _is_moving(entry)}
    shown_only = [one["cycle"] for one in entries if _would_move(one) and one["cycle"] not in moved]
    replaced = set(shown_only[:-1])
    told: set[int] = set()
    for entry in entries:
        shown = {**entry, "words": _of_one(str(entry["words"]), server)}
        if entry["kind"] == "plan":
            shown = _plan(shown, moved, told)
            if shown.get("cycle") in replaced:
                shown.pop("sizes_bytes", None)
        elif entry["kind"] == "budget":
            shown.pop("sizes_bytes", None)  # its words have them
        elif (order := _CARRYING_OUT.search(shown["words"])) and int(order[1]) in moved:
            shown["words"] = _CARRYING_OUT.sub(r"carrying out plan \1", shown["words"])
            found.insert(_place(found, int(order[1])), shown)
            continue
        found.append(shown)
    return found


def _is_moving(entry: dict[str, Any]) -> bool:
    return bool(entry["kind"] == "plan" and entry.get("carried_out"))


def _would_move(entry: dict[str, Any]) -> bool:
    return bool(entry["kind"] == "plan" and entry.get("decision") == "apply")


def _plan(entry: dict[str, Any], moved: set[int], told: set[int]) -> dict[str, Any]:
    """Return an entry as it is shown. ``moved``: plans that were carried out; ``told``: plans whose
    reason was told."""
    cycle = entry.get("cycle")
    words = _KNOWN.sub(_hardly_known if _would_move(entry) else "", entry["words"])
    if _is_moving(entry) and cycle in told:
        words = words.partition(": ")[0]
    elif cycle in moved and not _is_moving(entry):
        entry.pop("sizes_bytes", None)
        told.add(int(entry["cycle"]))
    return {**entry, "words": words}


def _hardly_known(known: re.Match[str]) -> str:
    names = [one or more for one, more in _LITTLE_KNOWN.findall(known[1])]
    return f"; hardly known: {', '.join(names)}" if names else ""


def _place(found: Sequence[dict[str, Any]], cycle: int) -> int:
    """Return an order's place: before the plan that it has carried out."""
    for place in reversed(range(len(found))):
        if _is_moving(found[place]) and found[place]["cycle"] == cycle:
            return place
    return len(found)


def _of_one(words: str, server: str | None) -> str:
    """Return it without the sizes of other servers."""
    if server is None:
        return words

    def own(sizes: re.Match[str]) -> str:
        mine = [one for one in sizes[0].split(", ") if one.startswith(f"{server} ")]
        return ", ".join(mine) or sizes[0]

    return _SIZES.sub(own, words)


def concerning(entries: Sequence[dict[str, Any]], name: str) -> Iterator[dict[str, Any]]:
    """Yield what changed a server, or was said of it or of the whole node."""
    changing = {entry["cycle"]: _changes(entry, name) for entry in entries if _is_moving(entry)}
    for entry in entries:
        if _concerns(entry, name, changing):
            yield entry


def _changes(entry: dict[str, Any], name: str) -> bool:
    before, after = entry.get("sizes_before_bytes") or {}, entry.get("sizes_bytes") or {}
    return bool(before.get(name) != after.get(name))


def _concerns(entry: dict[str, Any], name: str, changing: dict[int, bool]) -> bool:
    kind = entry["kind"]
    if entry.get("sizes_bytes"):
        return _changes(entry, name)
    if kind == "plan":
        return False
    if kind in ("start", "stop", "reload", "yardstick", "gap"):
        return bool(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", str(entry["words"])))
    if kind == "check" and not changing.get(entry.get("cycle", -1), True):
        return False
    ordered = entry.get("order")
    of = ordered.get("server") if isinstance(ordered, dict) else entry.get("server")
    return (of or entry.get("at_fault")) in (None, name)


_LIMIT, _MOST_LIMIT = 50, 10_000
# As the page names them.
_KINDS = {
    "check": "outcome",
    "yardstick": "what counts",
    "budget": "room",
    "gap": "not written",
    "hand": "by hand",
}


def add_parser(commands: Any) -> None:
    """Add the command's arguments."""
    parser = add_command(
        commands, "history", "print what was planned, carried out, checked and ordered, and why"
    )
    parser.add_argument(
        "--server", metavar="SERVER", help="only what changed this server, or was said of it"
    )
    parser.add_argument(
        "--limit",
        metavar="N",
        type=_count,
        default=_LIMIT,
        help=f"at most so many entries, the last ones (default: {_LIMIT}; plans that kept all "
        "sizes count as one)",
    )
    parser.add_argument(
        "--since",
        metavar="DURATION",
        type=_seconds,
        help="only the entries of the last 24h, say",
    )
    add_verbose(parser, "each entry as it was written, with all sizes")
    parser.set_defaults(execute=execute)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= _MOST_LIMIT:
        raise argparse.ArgumentTypeError(
            f"must be a whole number from 1 to {_MOST_LIMIT}, not {text!r}"
        )
    return int(text)


def _seconds(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def execute(options: argparse.Namespace) -> int:
    """Print the entries, the oldest first; the last ones, as the sidecar has them, where its file
    has a mistake by now. Raises DocumentError, OSError, SidecarSilentError."""
    try:
        config = load_config(options.config, secrets=False)
    except DocumentError as error:
        return _print(client_despite(options.config, error).history(FEW), options)
    if config.state_file is None:
        raise DocumentError(
            f"{options.config}: has no state_file, and the history would lie beside it"
        )
    names = [server.name for server in config.servers]
    if options.server is not None and options.server not in names:
        raise DocumentError(
            f"{options.config}: has no server {options.server!r}, only {', '.join(names)}"
        )
    return _print(history_of(config), options)


def _print(entries: list[dict[str, Any]], options: argparse.Namespace) -> int:
    if options.server is not None:
        entries = list(concerning(entries, options.server))
    if options.since is not None:
        first = time.time() - options.since
        entries = [entry for entry in entries if entry["at_seconds"] >= first]
    if options.json:
        print(json.dumps(entries[-options.limit :], indent=1))
        return 0
    if not options.verbose:
        entries = in_short(entries, options.server)
    told = list(_folded(entries, options.server))[-options.limit :]
    for line, more in told:
        print_wrapped(line, indent="  ")
        for detail in more:
            print_wrapped(f"    {detail}", indent="      ")
    if not told:
        print(f"nothing has happened {'yet' if options.since is None else 'since then'}")
    return 0


def _folded(
    entries: Iterable[dict[str, Any]], server: str | None = None
) -> Iterator[tuple[str, list[str]]]:
    """Yield a line and its details, of one server or all, for each entry, and one for plans in a
    row that keep all sizes."""
    kept: list[dict[str, Any]] = []
    for entry in entries:
        if entry["kind"] == "plan" and entry.get("decision") == "keep":
            kept.append(entry)
            continue
        if kept:
            yield _kept_words(kept), []
            kept = []
        yield _words(entry), list(_details(entry, server))
    if kept:
        yield _kept_words(kept), []


def _kept_words(plans: list[dict[str, Any]]) -> str:
    first, last = plans[0], plans[-1]
    reason = reason_words(last.get("reason", ""))
    if len(plans) == 1:
        return f"{time_of_day(last['at_seconds'])}  1 plan kept all sizes: {reason}"
    return (
        f"{time_of_day(first['at_seconds'])} to {time_of_day(last['at_seconds'])}  {len(plans)} "
        f"plans kept all sizes, the last one: {reason}"
    )


def _words(entry: dict[str, Any]) -> str:
    # An entry has no giver if the sidecar acted by itself, or only tells of something.
    by = f" (by {entry['by']})" if entry.get("by") not in (None, "", "spreds") else ""
    times = ""
    if entry.get("times", 1) > 1 and "last_at_seconds" in entry:
        times = f" ({entry['times']} times, the last at {time_of_day(entry['last_at_seconds'])})"
    kind = _KINDS.get(entry["kind"], entry["kind"])
    said = str(entry.get("words", "")).replace("apply_from_now_on", "apply --from-now-on", 1)
    what = "" if not by and said.startswith(f"{kind} ") else f"{kind}{by}: "
    return f"{time_of_day(entry['at_seconds'])}  {what}{said}{times}"


def _details(entry: dict[str, Any], server: str | None = None) -> Iterator[str]:
    if entry.get("order"):
        return  # its words have them
    before, after = entry.get("sizes_before_bytes") or {}, entry.get("sizes_bytes") or {}
    reasons = entry.get("reasons") or {}
    for name, size in after.items():
        if before.get(name) != size and server in (None, name):
            had = format_size(before[name]) if name in before else "?"
            why = f" ({without_backend(reason_words(reasons[name]))})" if reasons.get(name) else ""
            yield f"{name} {had} -> {format_size(size)}{why}"

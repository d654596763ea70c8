"""``spreds weights show|set|unset SERVER`` shows and changes a team's own settings for its
server."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from sidecar.base.plain_text import quoted
from sidecar.commands.arguments import add_command, typed
from sidecar.commands.printing import print_wrapped
from sidecar.commands.running import who
from sidecar.config.node import ServerConfig, load_config
from sidecar.config.settings_limits import SettingsLimits
from sidecar.observing.team_wishes import BELIEVED_RATIO
from sidecar.settings.settings_check import check_minimum
from sidecar.settings.settings_documents import mark_changed
from sidecar.settings.team_report import MAX_REPORT_BYTES, report_limits, report_sentences
from sidecar.settings.team_settings import MAX_SETTINGS_BYTES, TeamSettings, now_text
from sidecar.storage.configured_stores import make_bucket, make_settings_store
from sidecar.storage.store import BucketStore, FolderStore, StoreError
from solver_lambda.documents.keys import NODE_PATTERN, SERVER_PATTERN, report_key, settings_key
from solver_lambda.documents.reader import DocumentError
from solver_lambda.documents.server_settings import SERVER_SETTINGS, ServerSetting
from solver_lambda.documents.units import parse_duration, parse_size

# Where a team's settings lie, as a command line says.
_NO_PLACE = (
    "say where the settings lie: --config FILE, or --node NODE with --folder FOLDER, or --node "
    "NODE with --bucket BUCKET and --region REGION"
)


@dataclass(frozen=True)
class SettingsPlace:
    """Tells where settings lie, and what the operator says if the node's file is at hand."""

    store: FolderStore | BucketStore
    node: str
    limits: SettingsLimits | None = None
    server: ServerConfig | None = None
    state_file: Path | None = None


def place_of(options: argparse.Namespace) -> SettingsPlace:
    """Return the place of settings. Raises DocumentError: it is not said, or makes no sense."""
    if not SERVER_PATTERN.fullmatch(options.server):
        raise DocumentError(f"SERVER {options.server!r} is not a server's name")
    if options.config:
        config = load_config(options.config)
        servers = {server.name: server for server in config.servers}
        if options.server not in servers:
            raise DocumentError(
                f"{options.config}: has no server {options.server!r}, only {', '.join(servers)}"
            )
        store = make_settings_store(config.controller)
        if store is None:
            raise DocumentError(
                f"{options.config}: controller has no store for settings: give it a folder"
            )
        server = servers[options.server]
        return SettingsPlace(store, config.node, config.limits, server, config.state_file)
    if not options.node:
        raise DocumentError(_NO_PLACE)
    if not NODE_PATTERN.fullmatch(options.node):
        raise DocumentError(f"--node {options.node!r} is not a node's name; or give --config")
    if options.folder and options.bucket:
        raise DocumentError("--folder and --bucket: settings lie in one of them")
    if options.folder:
        _check_folder(options.folder, options.node)
        return SettingsPlace(FolderStore(options.folder), options.node)
    if not options.bucket or not options.region:
        raise DocumentError(_NO_PLACE)
    return SettingsPlace(
        make_bucket(options.bucket, options.region, options.endpoint_url), options.node
    )


def _check_folder(folder: Path, node: str) -> None:
    """A typing error must not make a folder that no sidecar reads. Who may not look into one is
    told by the store."""
    below = folder / settings_key(node, "any")
    for path in (folder, below.parent):
        try:
            path.stat()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise DocumentError(
                f"--folder {folder}: there is no {path}, so no sidecar of a node {node!r} reads "
                "settings there; --config makes the folders of its node"
            ) from error
        except OSError:
            return


def _parse_number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"must be a finite number, not {text!r}")
    return number


_MEANINGS = {
    "weight": "how much a read of it counts beside a read of other servers",
    "backend_latency_seconds": "what it costs to get an object after a miss",
    "minimum_bytes": "the least memory that it is given",
    "latency_bound_seconds": "the mean access time wanted at most",
    "miss_bound_per_second": "the misses a second that its backend takes at most",
}
_DEFAULTS = {one.name: one.default for one in fields(ServerConfig)}
_PARSERS: Mapping[str, Callable[[str], float]] = {
    "number": _parse_number,
    "duration": parse_duration,
    "size": parse_size,
}


def add_parser(commands: Any) -> None:
    """Add the command's arguments."""
    parser = add_command(
        commands,
        "weights",
        "show or change a team's settings for its server",
        file=False,
        json=False,
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="show|set|unset")
    show = _add_verb(verbs, "show", "print what a server's team has set")
    put = _add_verb(verbs, "set", "change the named settings; the others stay as they are")
    unset = _add_verb(verbs, "unset", "remove the named settings, or all of them")
    for setting in SERVER_SETTINGS:
        option = _option(setting)
        parse = typed(_PARSERS[setting.written])
        meaning = _MEANINGS[setting.name]
        put.add_argument(option, metavar=setting.example, type=parse, help=meaning)
        unset.add_argument(option, action="store_true", help=f"remove: {meaning}")
    put.add_argument("--by", metavar="NAME", default=who(), help="who sets them")
    put.add_argument(
        "--dry-run",
        action="store_true",
        help="set nothing: print the next plan without them and with them, by the last observation",
    )
    unset.add_argument("--by", metavar="NAME", default=who(), help="who removes them")
    for verb in (show, put, unset):
        verb.add_argument("server", metavar="SERVER", help="the server's name")
        place = verb.add_argument_group("where the settings lie")
        place.add_argument(
            "--config",
            metavar="FILE",
            help="the node's TOML file, which says where; or name the place:",
        )
        place.add_argument("--node", help="the node's name")
        place.add_argument("--bucket", help="the bucket of observations")
        place.add_argument("--region", help="the bucket's region")
        place.add_argument("--endpoint-url", help="address of an emulator")
        place.add_argument("--folder", type=Path, help="the folder of an embedded controller")
        verb.set_defaults(execute=execute)
    show.add_argument(
        "--why",
        action="store_true",
        help="what became of them: the size that the server has, and why",
    )


def _add_verb(verbs: Any, name: str, help_text: str) -> argparse.ArgumentParser:
    return add_command(verbs, name, help_text, file=False)


def execute(options: argparse.Namespace) -> int:
    """Run the verb and print what holds then, with ``--json`` the document; 1 if there was nothing
    to remove. Raises DocumentError, StoreError."""
    place = place_of(options)
    key = settings_key(place.node, options.server)
    text = place.store.get(key, MAX_SETTINGS_BYTES)
    if options.verb == "show" and options.why:
        sentences = report_sentences(place.store, place.node, options.server, text)
        _print_report(list(sentences), options)
        return 0
    if options.verb == "show":
        _show(text, place, options)
        if text is not None and not options.json:
            print("whether they are in force, and what became of them: the same with --why")
        return 0
    changes = _changes(options)
    if options.verb == "set" and not changes:
        raise DocumentError("weights set: name at least one setting")
    if options.verb == "unset" and not changes:
        place.store.delete(key)
        _mark(place, options.server)
    if options.verb == "unset" and (not changes or text is None):
        _show(None, place, options)
        _say_from_when(options, had_effect=text is not None)
        return 0 if text is not None else 1
    # A damaged old document must be removed on purpose: ``unset`` without names.
    old = TeamSettings.loads(text, key).values if text is not None else {}
    values = {name: value for name, value in {**old, **changes}.items() if value is not None}
    settings = TeamSettings(options.by, now_text(), values)
    asked = f"weights {options.verb} {options.server}"
    is_told, limits = _told_limits(place, options.server)
    try:  # as the sidecar will: what it would ignore is not stored
        TeamSettings.loads(settings.dumps(), asked, limits)
    except DocumentError as error:
        words = _with_options(str(error).removeprefix(asked))
        raise DocumentError(asked + words + _of_before(error, changes)) from error
    if place.server is not None:
        check_minimum(place.server, settings, asked)
    if options.verb == "set" and options.dry_run:
        _dry_run(place, options, values)
        return 0
    place.store.put(key, settings.dumps())
    _tell_stored(place, options, settings, is_told=is_told)
    return 0


def _tell_stored(
    place: SettingsPlace, options: argparse.Namespace, settings: TeamSettings, *, is_told: bool
) -> None:
    _mark(place, options.server)
    _show(settings.dumps(), place, options)
    if options.backend_latency and not options.json:
        print(
            f"of what the operator says or what is measured, a {BELIEVED_RATIO}th to "
            f"{BELIEVED_RATIO} times counts"
        )
    if not is_told:
        print(
            f"spreds: node {place.node} has told nothing of a server {options.server} so far: "
            "nobody reads this if it has none",
            file=sys.stderr,
        )
    _say_from_when(options, had_effect=True)


def _told_limits(place: SettingsPlace, server: str) -> tuple[bool, SettingsLimits | None]:
    """Return whether the node is known to have the server, and how far its team may go. The node's
    file says it, or else its sidecar's report."""
    if place.server is not None:
        return True, place.limits
    key = report_key(place.node, server)
    try:
        text = place.store.get(key, MAX_REPORT_BYTES)
    except StoreError as error:
        print(f"spreds: how far settings may go is not known here: {error}", file=sys.stderr)
        return True, None
    return text is not None, None if text is None else report_limits(text, key)


def _option(setting: ServerSetting) -> str:
    return f"--{setting.option.replace('_', '-')}"


def _of_before(error: DocumentError, changes: Mapping[str, Any]) -> str:
    """Say what to do where it is none of the ``changes`` that is refused."""
    for setting in SERVER_SETTINGS:
        if setting.name in str(error) and setting.name not in changes:
            removes = f"`spreds weights unset` with {_option(setting)} removes it"
            return f"; that was set before: {removes}"
    return ""


def _with_options(words: str) -> str:
    """Return a document's words, with what people typed."""
    for setting in SERVER_SETTINGS:
        words = words.replace(setting.name, _option(setting))
    return words


def _dry_run(place: SettingsPlace, options: argparse.Namespace, values: Mapping[str, Any]) -> None:
    from sidecar.commands.weights_dry_run import (
        last_observation,
        operator_is_unknown,
        print_dry_run,
        wished,
    )

    observation = last_observation(place.store, place.node, options.server, place.state_file)
    asked = wished(observation, options.server, values, place.server)
    is_guess = place.server is None and operator_is_unknown(observation, options.server)
    print_dry_run(observation, asked, as_json=options.json, is_guess=is_guess)


def _say_from_when(options: argparse.Namespace, *, had_effect: bool) -> None:
    if had_effect and not options.json:
        print("that counts from the sidecar's next plan on")


def _print_report(sentences: list[str], options: argparse.Namespace) -> None:
    if options.json:
        print(json.dumps({"sentences": sentences}, indent=1))
        return
    for sentence in sentences:
        print_wrapped(sentence)


def _mark(place: SettingsPlace, server: str) -> None:
    try:
        mark_changed(place.store, place.node, server)
    except StoreError as error:
        print(
            "spreds: the change is stored, but the sidecar may find it only after a day, because "
            f"the marker of changes could not be written: {error}",
            file=sys.stderr,
        )


def _show(text: bytes | None, place: SettingsPlace, options: argparse.Namespace) -> None:
    if options.json:
        print("{}" if text is None else _read(text, place, options).dumps().decode())
    elif text is None:
        print(f"{options.server} has no settings of its team: the operator's or the defaults hold")
    else:
        settings = _read(text, place, options)
        for line in _words(settings, place.server):
            print(line)


def _read(text: bytes, place: SettingsPlace, options: argparse.Namespace) -> TeamSettings:
    return TeamSettings.loads(text, settings_key(place.node, options.server))


def _words(settings: TeamSettings, server: ServerConfig | None) -> Iterator[str]:
    """Say each setting as it is typed, and whose it is; the operator's or the default where the
    node's file is at hand."""
    yield f"set by {quoted(settings.set_by)} at {settings.set_at}"
    for setting in SERVER_SETTINGS:
        operators = None if server is None else _operators_value(server, setting)
        value = settings.values.get(setting.name, operators)
        if value is None:
            continue
        is_default = operators == _DEFAULTS.get(setting.name)
        its = "the default" if is_default else "the operator's"
        if setting.name in settings.values:
            has = "" if operators is None else f", where {its} is {setting.in_words(operators)}"
            its = f"its team's{has}"
        yield f"  {setting.option}: {setting.in_words(value)} ({its})"


def _operators_value(server: ServerConfig, setting: ServerSetting) -> float | None:
    return server.bounds.get(setting.name) if setting.is_bound else getattr(server, setting.name)


def _changes(options: argparse.Namespace) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for setting in SERVER_SETTINGS:
        value = getattr(options, setting.option)
        if options.verb == "set" and value is not None:
            changes[setting.name] = value
        elif options.verb == "unset" and value:
            changes[setting.name] = None
    return changes

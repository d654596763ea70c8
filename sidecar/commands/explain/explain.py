"""``spreds explain`` says in plain words what the sidecar does on this node, when, and why a server
has its size."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

from sidecar.base.glossary import WORDS, glossary_lines
from sidecar.commands.arguments import add_command
from sidecar.commands.explain.explain_words import server_sentences
from sidecar.commands.plan.plan_details import reasons_once
from sidecar.commands.plan.plan_words import gain_words, no_plan_words, plan_in_short
from sidecar.commands.printing import print_wrapped
from sidecar.commands.running import client_despite, history_of, status_of
from sidecar.commands.state_words import state_words
from sidecar.config.node import SidecarConfig, load_config
from sidecar.control.client import SidecarSilentError
from solver_lambda.documents.reader import DocumentError
from solver_lambda.documents.units import format_duration, format_size
from solver_lambda.documents.words import reason_words


def last_plan_sentences(told: Mapping[str, Any], *, is_verbose: bool = True) -> list[str]:
    """Say what is done with plans now, and what the last one was."""
    now = dict(told)
    first, *more = state_words(now)
    found = [f"Now: {first}.", *(f"{words[0].upper()}{words[1:]}." for words in more)]
    plan = told["last_plan"]
    found.append(f"The last plan: {plan_in_short(now)}." if plan else no_plan_words(now))
    outcome = told["last_check"]["words"] if told["last_check"] else ""
    if plan is not None and is_verbose:
        gain = gain_words(plan)
        if gain.startswith("mean") and gain not in reason_words(plan["reason"]):
            figures = gain.removeprefix("mean access time ")
            verb = "goes" if figures.startswith("from") else "is"
            found.append(f"By the curves, the mean access time {verb} {figures}.")
        found += [f"{words}." for words in reasons_once(plan, now)]
    if outcome:
        found.append(f"The last outcome: {outcome if is_verbose else outcome.partition(';')[0]}.")
    return found


# As in sidecar/curves/decaying_counts.py, which would import numpy: the shortest and the longest.
_SHORTEST, _LONGEST = 1 / 12, 6


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "explain",
        "say in plain words how memory is divided on this node, and why a server has its size",
        file=False,
    )
    parser.add_argument("config", metavar="FILE", nargs="?", help="the node's TOML file")
    parser.add_argument("server", metavar="SERVER", nargs="?", help="why this server has its size")
    parser.add_argument(
        "--glossary",
        action="store_true",
        help="say what the words mean: all, or with FILE those of the answer",
    )
    parser.add_argument("--verbose", action="store_true", help="say all that is known of it")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Print some sentences. Raises DocumentError, SidecarSilentError."""
    if options.config is None and options.glossary:
        _print(options, [], glossary_lines())
        return 0
    if options.config is None:
        raise DocumentError("explain: give the node's FILE, or --glossary")
    is_verbose = options.verbose or options.json
    sentences = _sentences(options.config, options.server, is_verbose=is_verbose)
    _print(options, sentences, glossary_lines("\n".join(sentences)))
    return 0


def _sentences(file: str, server: str | None, *, is_verbose: bool) -> list[str]:
    try:
        config = load_config(file, secrets=False)
    except DocumentError as error:
        # Only the file says what a server may have.
        if server is not None:
            raise
        return last_plan_sentences(client_despite(file, error).status(), is_verbose=is_verbose)
    if server is not None:
        return _server_now(config, file, server, is_verbose=is_verbose)
    explained = _explained(config) if is_verbose else _in_short(config)
    return [*explained.splitlines(), *_node_now(config, is_verbose=is_verbose)]


def _print(options: argparse.Namespace, sentences: list[str], words: list[str]) -> None:
    if options.json:
        used = [line.partition(":")[0] for line in words]
        print(json.dumps({"sentences": sentences, "words": {w: WORDS[w] for w in used}}, indent=1))
        return
    for sentence in sentences:
        print_wrapped(sentence)
    if sentences and not options.glossary:
        more = "" if options.verbose else "--verbose says more; "
        print(f"{more}--glossary adds what the words mean.")
        return
    if sentences and words:
        print("\nWhat the words mean:")
    for line in words:
        print_wrapped(f"  {line}" if sentences else line, indent="    ")


def _node_now(config: SidecarConfig, *, is_verbose: bool) -> list[str]:
    """Say what is known only while the sidecar runs; the rest is said all the same."""
    try:
        return last_plan_sentences(status_of(config), is_verbose=is_verbose)
    except SidecarSilentError as error:
        return [f"What it does now is not known: {str(error).rstrip('.')}."]


def _server_now(config: SidecarConfig, source: str, name: str, *, is_verbose: bool) -> list[str]:
    by_name = {server.name: server for server in config.servers}
    if name not in by_name:
        raise DocumentError(f"{source}: has no server {name!r}, only {', '.join(by_name)}")
    told = status_of(config)
    entries = history_of(config)
    return server_sentences(by_name[name], told, entries, is_verbose=is_verbose)


def _samples(config: SidecarConfig) -> str:
    each = " (an equal share of each server)" if len(config.servers) > 1 else ""
    return f"{config.cycle.samples} samples{each}"


def _who(config: SidecarConfig) -> str:
    size = format_size(config.memory.budget_bytes)
    count = len(config.servers)
    return f"{count} servers share {size}" if count > 1 else f"One server has {size}"


def _in_short(config: SidecarConfig) -> str:
    early = ", or earlier if much more can be gained" if config.forecasts else ""
    return (
        f"{_who(config)}. A plan comes every {format_duration(config.cycle.maximum_age_seconds)} "
        f"or after {config.cycle.samples} samples{early}. Memory moves if that gains "
        f"{config.planning.minimum_gain_ratio:.2%} beyond chance."
    )


def _explained(config: SidecarConfig) -> str:
    age = config.cycle.maximum_age_seconds
    least = f"{config.planning.minimum_gain_ratio:.2%}"
    who = _who(config)
    if not config.forecasts:
        return (
            f"{who}. Every {format_duration(age)}, or after {_samples(config)}, the "
            "sizes that would have been best in the last window are planned. They are taken at "
            f"once if they gain {least} of the mean access time with the misses of moving counted."
        )
    short, long = (format_duration(age * part) for part in (_SHORTEST, _LONGEST))
    return (
        f"{who}. Every {short} the sidecar tries to look back over {short} to {long}: by which of "
        "these times a plan would have served best since then. That one makes the next plan: "
        f"after {format_duration(age)}, or {_samples(config)}, or earlier if the load "
        "has clearly changed.\n"
        f"Nothing moves unless that gains {least} of the mean access time beyond what may be "
        "chance, which is measured by letting each sixteenth of the sampled keys judge a plan that "
        "the others made.\n"
        "Memory changes hands only as the server that is to grow fills it, so that a plan that was "
        "wrong costs little. If plans have cost more than the sizes that the sidecar found when it "
        "came first would have, it goes back to these."
    )

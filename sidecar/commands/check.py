"""``spreds check FILE`` prints the effective configuration, or the sentence that refuses it. With
``--connect`` it says whether that can work on this machine with these servers."""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Container, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from sidecar.commands.arguments import add_command, add_verbose
from sidecar.commands.printing import print_wrapped
from sidecar.commands.running import is_running, status_of, with_known_listeners
from sidecar.config.effective_file import effective_lines, written_lines
from sidecar.config.links import OWN, links
from sidecar.config.memory import MemoryConfig
from sidecar.config.node import SidecarConfig, load_config
from sidecar.control.client import SidecarSilentError
from sidecar.preflight.finding import Finding
from sidecar.servers.sizes.resident_budget import (
    HOLD_SECONDS,
    LEAST_RISE_RATIO,
    MARGIN_RATIO,
    SETTLE_SECONDS,
)
from solver_lambda.documents.reader import DocumentError
from solver_lambda.documents.units import format_duration, format_size


def headroom_rule(memory: MemoryConfig) -> str:
    """Say what the budget is, and what comes on top of it."""
    now = ""
    if memory.budget_share is not None:
        cgroup = f"the cgroup {memory.cgroup}" if memory.cgroup else "its own cgroup"
        now = f" ({memory.budget} of the machine's memory, or of the limit of {cgroup})"
    rule = f"maxmemory of all servers sums to at most {format_size(memory.budget_bytes)}{now}. "
    if memory.rss_budget is None:
        return rule + (
            "The programs themselves, fragmentation, pages that forks copy and buffers of replicas "
            "come on top of that, and are not held: leave room for them, or set memory.rss_budget."
        )
    return rule + (
        f"Resident memory of all servers is held below {memory.rss_budget}; what the last forks "
        "copied is set aside. Where it is above, maxmemory falls at once, so that "
        f"{100 * MARGIN_RATIO:g} % stay free, and again after each "
        f"{format_duration(SETTLE_SECONDS)} in which too little came back; it rises after "
        f"{format_duration(HOLD_SECONDS)} in "
        f"which there was room for {100 * LEAST_RISE_RATIO:g} % more, by half of that room."
    )


_MARKS = {"ok": "ok      ", "advice": "ADVICE  ", "problem": "PROBLEM "}


def add_parser(commands: Any) -> None:
    """Add the command's arguments."""
    parser = add_command(commands, "check", "check a configuration and print what it means")
    add_verbose(parser, "also what is ok and needs no word, and options that have their defaults")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--connect",
        action="store_true",
        help="ask the servers, and who is to plan, and look at the machine: can SPREDS work here? "
        "Changes nothing; CONFIG SET is tried by giving lfu-log-factor the value that it has, and "
        "the right to put observations by an empty document",
    )
    what.add_argument(
        "--acl",
        action="store_true",
        help="print the smallest Redis user that the sidecar works with, for redis-cli",
    )
    what.add_argument(
        "--iam", action="store_true", help="print the smallest IAM policy for the node's cloud"
    )
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Print what is asked for; 1 if something keeps SPREDS from working. Raises DocumentError."""
    config = load_config(options.config)
    if options.connect:
        return _connect(config, options)
    if options.acl:
        _print_acl(config, options.json)
    elif options.iam:
        _print_iam(config, options.config)
    else:
        _print_configuration(config, options)
    return 0


_ASK = "the cause may be there: run this check with an operator's credentials"


def _connect(config: SidecarConfig, options: argparse.Namespace) -> int:
    from sidecar.preflight.preflight import preflight
    from sidecar.preflight.solver_function import UNSEEN

    seen = _seen_by_the_sidecar(config)
    is_silent = any("the cloud has not answered" in one.what for one in seen)
    findings = [
        replace(one, level="advice", remedy=_ASK)
        if is_silent and one.level == "ok" and UNSEEN in one.what
        else one
        for one in preflight(with_known_listeners(config))
    ]
    findings += seen
    if options.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=1))
    else:
        names = {server.name for server in config.servers}
        for finding in findings if options.verbose else _in_short(findings, names):
            print_wrapped(f"{_MARKS[finding.level]}{finding.where}: {finding.what}", " " * 8)
            if finding.remedy:
                print_wrapped(f"        -> {finding.remedy}", " " * 11)
    return 1 if any(finding.level == "problem" for finding in findings) else 0


def _in_short(findings: Sequence[Finding], names: Container[str]) -> list[Finding]:
    """Return what asks for something, servers and budget, and how many links and others are ok."""
    is_shown = [one.level != "ok" or one.where in names for one in findings]
    budget = [place for place, one in enumerate(findings) if one.where == "memory.budget"]
    if budget and not any(is_shown[place] for place in budget):
        is_shown[budget[0]] = True
    found = [one for one, shown in zip(findings, is_shown, strict=True) if shown]
    rest = [one for one, shown in zip(findings, is_shown, strict=True) if not shown]
    own = [one for one in rest if one.where.startswith("link ") and one.what.startswith(OWN)]
    if own:
        found.append(Finding("ok", "links", f"{len(own)} addresses of the file are on {OWN}"))
    if more := len(rest) - len(own):
        found.append(Finding("ok", "others", f"{more} more are ok, --verbose lists them"))
    return found


def _seen_by_the_sidecar(config: SidecarConfig) -> list[Finding]:
    """Return what the sidecar that runs has seen, and no look from here would find. A function
    fails, a subscription is gone, or plans come from elsewhere. Nothing where none runs."""
    where = "running sidecar"
    if not is_running(config):
        return []
    try:
        told = status_of(config)
    except SidecarSilentError as error:
        return [Finding("advice", where, str(error), "ask as its user, or look at its log")]
    except DocumentError as error:
        return [Finding("problem", where, str(error))]
    problems = told["problems"]
    if not problems:
        return [Finding("ok", where, "it tells of no problem")]
    remedy = "what else is found here may be the cause; 'spreds status' tells when it is over"
    return [Finding("problem", where, words, remedy) for words in problems]


def _print_acl(config: SidecarConfig, as_json: bool) -> None:
    from sidecar.preflight.rights import acl_line

    lines = {
        server.name: acl_line(server.username, looks=server.sampler == "look")
        for server in config.servers
    }
    if as_json:
        print(json.dumps(lines, indent=1))
        return
    for line, names in _grouped(lines).items():
        print(f"# {', '.join(names)}: then ACL SAVE, or CONFIG REWRITE where there is no aclfile")
        print("# typed after redis-cli's prompt: a shell's arguments are read by every local user")
        print(line)


def _grouped(lines: dict[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, line in lines.items():
        found.setdefault(line, []).append(name)
    return found


def _print_iam(config: SidecarConfig, source: str) -> None:
    from sidecar.preflight.cloud import iam_policy

    if config.controller.cloud is None:
        raise DocumentError(f"{source}: controller names no cloud, so no IAM policy is needed")
    print(json.dumps(iam_policy(config.node, config.controller.cloud), indent=1))


def _print_configuration(config: SidecarConfig, options: argparse.Namespace) -> None:
    lines, found = effective_lines(config), links(config)
    if options.json:
        table = tomllib.loads("\n".join(lines))
        print(json.dumps({**table, "links": [asdict(link) for link in found]}, indent=1))
        return
    if not options.verbose:
        written = tomllib.loads(Path(options.config).read_text())
        lines = written_lines(config, written)
        found = [link for link in found if not link.how.startswith((OWN, "none"))]
    print("\n".join(lines), end="\n\n")
    for link in found:
        print_wrapped(f"# link {link.name}: {'OPEN: ' if link.is_open else ''}{link.how}", "# ")
    print_wrapped(f"# {headroom_rule(config.memory)}", "# ")
    planner = config.controller
    if planner.kind == "auto" and planner.cloud is None and planner.service is None:
        print_wrapped(
            '# controller.kind = "auto" without a cloud or a service plans in the sidecar itself, '
            'as "embedded" does',
            "# ",
        )

"""Lists EC2 instances that carry the tag of a node, and writes lines for the new ones.

Usage: python -m infra.nodes --tag spreds-node [--stack FILE] [--into FILE]

The tag's value is the node's name. A node that the stack's file does not name yet gets a line with
a cell that stays its own: the first of ``tagged-0``, ``tagged-1`` and so on with room for it.
``--into`` appends the lines to a file, which has to end with its ``[nodes]``; without it they are
printed.
Lines of machines that are gone stay: a stopped machine may come back, and whose plans and settings
are to go is for you to say. This is the only part that asks AWS; the synthesis never does.
Machines that have the same name, or one that no node can have, are left out and named.
The exit code is 0, or 1 with what was left out, or why nothing was done.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from infra.closed_pipe import exit_code
from infra.stack_file.configuration import Configuration, configuration_of
from infra.stack_file.names import NODE_TAG
from infra.whole_file import replace_text
from solver_lambda.documents.keys import NODE_PATTERN
from solver_lambda.documents.reader import shown

STACK_FILE = Path(__file__).resolve().parent / "stack.toml"
CELL = "tagged"


class NodesError(ValueError):
    """The file cannot take lines; the message names it."""


def tagged_nodes(ec2: Any, tag: str) -> tuple[list[str], list[str]]:
    """Return names of the nodes on machines that run or can be started again. Add a sentence for
    each value of the tag that cannot be a node: no node can be called so, or several machines
    are."""
    machines = _machines(ec2, tag)
    refused = {}
    for name, identities in machines.items():
        together = " and ".join(sorted(identities))
        if not NODE_PATTERN.fullmatch(name):
            refused[name] = (
                f"{together} has {tag} = {shown(name)}, which cannot be a node's name: it must "
                f"match {NODE_PATTERN.pattern}"
            )
        elif len(identities) > 1:
            refused[name] = f"{together} have the same {tag} = {name}: a node is one machine"
    return sorted(machines.keys() - refused.keys()), [refused[name] for name in sorted(refused)]


def _machines(ec2: Any, tag: str) -> dict[str, list[str]]:
    """Ids of the instances by the value of their tag."""
    machines: dict[str, list[str]] = {}
    pages = ec2.get_paginator("describe_instances").paginate(
        Filters=[
            {"Name": "tag-key", "Values": [tag]},
            {
                "Name": "instance-state-name",
                "Values": ["pending", "running", "stopping", "stopped"],
            },
        ]
    )
    for page in pages:
        for reservation in page["Reservations"]:
            for instance in reservation["Instances"]:
                (name,) = (item["Value"] for item in instance["Tags"] if item["Key"] == tag)
                machines.setdefault(name, []).append(instance["InstanceId"])
    return machines


def new_lines(configuration: Configuration, names: Iterable[str]) -> list[str]:
    """Lines for the names that the configuration does not have."""
    known = {node.name for node in configuration.nodes}
    members = Counter(node.cell for node in configuration.nodes)
    lines = []
    number = 0
    for name in names:
        if name in known:
            continue
        while members[f"{CELL}-{number}"] >= configuration.nodes_per_cell:
            number += 1
        cell = f"{CELL}-{number}"
        members[cell] += 1
        lines.append(f'{name} = {{ cell = "{cell}" }}')
    return lines


def extended(path: Path, lines: list[str]) -> str:
    """The text of the file with the lines at its end.

    Raises:
        NodesError: the file does not end with its ``[nodes]``.
        DocumentError: it would be refused.
        OSError: it cannot be read.
    """
    text = path.read_text()
    tables = [line.strip() for line in text.splitlines() if line.lstrip().startswith("[")]
    if not tables or tables[-1].partition("#")[0].strip() != "[nodes]":
        raise NodesError(f"{path}: must end with the lines of its [nodes]")
    longer = "\n".join([text.rstrip("\n"), *lines, ""])
    configuration_of(longer, str(path))
    return longer


def _main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m infra.nodes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--tag", default=NODE_TAG, metavar="KEY")
    parser.add_argument("--stack", type=Path, default=STACK_FILE, metavar="FILE")
    parser.add_argument("--into", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    stack = arguments.into or arguments.stack
    try:
        configuration = configuration_of(stack.read_text(), str(stack))
        ec2 = boto3.client("ec2", endpoint_url=os.environ.get("AWS_ENDPOINT_URL"))
        names, refused = tagged_nodes(ec2, arguments.tag)
        lines = new_lines(configuration, names)
        longer = extended(stack, lines) if lines else ""
        if arguments.into and lines:
            replace_text(arguments.into, longer)
    except (ValueError, OSError, BotoCoreError, ClientError) as error:
        print(f"nodes: {error}", file=sys.stderr)
        return 1
    for line in lines:
        print(line)
    for why in refused:
        print(f"nodes: left out: {why}", file=sys.stderr)
    print(f"nodes: {len(names)} machines, {len(lines)} of them new", file=sys.stderr)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(exit_code(_main))

"""Writes the part of a node's configuration that the installation knows: its ``[controller]``.

Usage: python -m infra.node_config --node NAME --outputs FILE [--stack FILE] --into node.toml
       python -m infra.node_config --node NAME --account ID --region REGION [--stack FILE]

The node's cell follows from the stack's file (infra/stack.toml), and all names from that. FILE is
what ``cdk deploy --all --outputs-file FILE`` wrote: so a cell that is not deployed is noticed. A
node that was added to a deployed cell is not: deploy that again first, or its queue is not there.
The table in node.toml is replaced, but for ``folder`` and limits of time that stand there, unless
the file is another node's; without ``--into`` the new one is printed. The exit code is 0, or 1 with
the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.closed_pipe import exit_code
from infra.stack_file import names
from infra.stack_file.configuration import Cell, Configuration, read_configuration
from infra.stacks.chosen_controller import chosen_controller
from infra.whole_file import replace_text

STACK_FILE = Path(__file__).resolve().parent / "stack.toml"
DEFAULT_LISTEN = "0.0.0.0:8080"
# A task takes half a minute to start: sooner, the sidecar would plan by itself each time.
FARGATE_PLAN_DEADLINE = "3m"
# Kept from a table that is replaced, because the stack says nothing about them.
KEPT = (
    *("folder", "keep_documents", "keep_documents_number"),
    *("plan_deadline", "maximum_plan_age"),
)
# The table with its comments, up to the next one; what is said right above that is of that.
_SECTION = re.compile(
    r"^\[controller\].*?(?=^\s*$\n(?:^#.*\n)*^\[|^\[|\Z)", re.MULTILINE | re.DOTALL
)

Outputs = Mapping[str, Mapping[str, str]]


class NodeConfigError(ValueError):
    """What is asked of does not describe the node; the message names what is missing."""


def controller_table(
    configuration: Configuration,
    node: str,
    place: names.Place,
    *,
    listen: str | None = None,
    endpoint_url: str | None = None,
) -> dict[str, str]:
    """Keys and values of the sidecar's ``[controller]``.

    Its kind is ``auto``: the cell's solver, and where no plan comes from it in time, the sidecar's
    own. ``embedded``, if the cell has no solver.

    Args:
        node: one of the configuration's.
        place: that it is deployed to.
        listen: where the sidecar takes notifications that come over HTTP; DEFAULT_LISTEN, if it is
            ``None``.
        endpoint_url: of an emulator.

    Raises:
        NodeConfigError: there is no such node, or it is to listen and has a queue.
        ValueError: no controller is fast enough.
    """
    cell, found = _found(configuration, node)
    controller = chosen_controller(configuration)
    table = {
        "kind": "embedded" if controller == "embedded" else "auto",
        "region": place.region,
        "observations_bucket": place.bucket(cell.stack, "observations"),
        "plans_bucket": place.bucket(cell.stack, "plans"),
        "account_id": place.account,
        "topic_arn": place.regional_arn("sns", names.plans_topic(cell.stack)),
    }
    if found.delivery == "http":
        table |= {"delivery": "http", "listen": listen or DEFAULT_LISTEN}
    elif listen is not None:
        raise NodeConfigError(
            f"--listen {listen}: {node!r} is told by a queue and listens nowhere; its line in "
            f'{configuration.source} would need delivery = "http" and public_url'
        )
    else:
        queue = names.node_queue(configuration.name, node)
        table |= {"delivery": "sqs", "queue_url": place.queue_url(queue, endpoint_url)}
    if controller == "fargate":
        table["plan_deadline"] = FARGATE_PLAN_DEADLINE
    if endpoint_url:
        table["endpoint_url"] = endpoint_url
    return table


def _found(configuration: Configuration, node: str) -> tuple[Cell, Any]:
    found = configuration.cell_of(node)
    if found is None:
        raise NodeConfigError(f"{node!r} is no node of {configuration.source}")
    return found


def deployed_place(configuration: Configuration, node: str, outputs: Outputs) -> names.Place:
    """Account and region that the node's cell was deployed to, by the outputs of the stacks.

    Raises:
        NodeConfigError: it was not, or with another name or controller.
    """
    cell, _ = _found(configuration, node)
    if cell.stack not in outputs:
        raise NodeConfigError(f"the outputs have no {cell.stack}: {node!r} is not deployed yet")
    of_cell = outputs[cell.stack]
    for name in ("PlansTopicArn", "Controller"):
        if name not in of_cell:
            raise NodeConfigError(f"the outputs of {cell.stack} have no {name}")
    controller = chosen_controller(configuration)
    if of_cell["Controller"] != controller:
        raise NodeConfigError(
            f"the outputs of {cell.stack} are of the controller {of_cell['Controller']!r}, and the "
            f"stack's file is of {controller!r}: deploy it"
        )
    parts = of_cell["PlansTopicArn"].split(":")
    if len(parts) != 6:
        raise NodeConfigError(
            f"the outputs of {cell.stack} have {of_cell['PlansTopicArn']!r}, which is no topic"
        )
    return names.place(account=parts[4], region=parts[3])


def controller_toml(table: Mapping[str, str]) -> str:
    """The table as text for the sidecar's file."""
    # A JSON string is a TOML basic string.
    lines = [f"{key} = {json.dumps(value)}" for key, value in table.items()]
    return "\n".join(["[controller]", *lines]) + "\n"


def replace_controller(text: str, table: Mapping[str, str]) -> str:
    """The text of a sidecar's file with ``table`` in place of its ``[controller]``.

    Raises:
        NodeConfigError: the text, or what would become of it, is not a TOML document.
    """
    try:
        old: Any = tomllib.loads(text).get("controller", {})
        kept = {key: old[key] for key in KEPT if key in old and key not in table}
        new = controller_toml({**table, **kept})
        section = _SECTION.search(text)
        if section is None:
            replaced = f"{text.rstrip()}\n\n{new}"
        else:
            replaced = f"{text[: section.start()]}{new}\n{text[section.end() :].lstrip()}"
        tomllib.loads(replaced)
    except (ValueError, TypeError, AttributeError) as error:
        raise NodeConfigError(f"not a sidecar's TOML file: {error}") from error
    return replaced


def read_outputs(path: Path) -> dict[str, dict[str, str]]:
    """Return what ``cdk deploy --outputs-file`` wrote: each stack's outputs, by the stack's name.

    Raises:
        NodeConfigError: it is not such a file.
        OSError: it cannot be read.
    """
    try:
        outputs: Any = json.loads(path.read_text())
    except ValueError as error:
        raise NodeConfigError(f"{path}: not a JSON document: {error}") from error
    if (
        not isinstance(outputs, dict)
        or not all(isinstance(values, dict) for values in outputs.values())
        or not any("PlansTopicArn" in values for values in outputs.values())
    ):
        raise NodeConfigError(f"{path}: has no outputs of SPREDS' stacks")
    return outputs


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m infra.node_config",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--node", required=True, metavar="NAME")
    parser.add_argument("--stack", type=Path, default=STACK_FILE, metavar="FILE")
    parser.add_argument("--outputs", type=Path, metavar="FILE")
    parser.add_argument("--account", metavar="ID", help="12 digits; instead of --outputs")
    parser.add_argument("--region", metavar="REGION", help="with --account")
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help=f"of a node that is told over HTTP (default: {DEFAULT_LISTEN})",
    )
    parser.add_argument(
        "--endpoint-url",
        default=os.environ.get("AWS_ENDPOINT_URL"),
        metavar="URL",
        help="address of an emulator (default: AWS_ENDPOINT_URL)",
    )
    parser.add_argument(
        "--into", type=Path, metavar="FILE", help="the sidecar's configuration file to change"
    )
    return parser


def _main() -> int:
    parser = _parser()
    arguments = parser.parse_args()
    by_rule = (arguments.account is not None, arguments.region is not None)
    if by_rule not in ((True, True), (False, False)) or by_rule[0] == bool(arguments.outputs):
        parser.error("give --outputs, or --account and --region")
    try:
        configuration = read_configuration(arguments.stack)
        if arguments.outputs:
            outputs = read_outputs(arguments.outputs)
            place = deployed_place(configuration, arguments.node, outputs)
        else:
            place = names.place(names.account(arguments.account), arguments.region)
        table = controller_table(
            configuration,
            arguments.node,
            place,
            listen=arguments.listen,
            endpoint_url=arguments.endpoint_url,
        )
        if arguments.into is None:
            print(controller_toml(table), end="")
        else:
            _change(arguments.into, arguments.node, table)
    except (ValueError, OSError) as error:
        print(f"node_config: {error}", file=sys.stderr)
        return 1
    return 0


def _change(path: Path, node: str, table: Mapping[str, str]) -> None:
    """Put the table into a file, whole or not at all."""
    try:
        text = replace_controller(path.read_text(), table)
        named = tomllib.loads(text).get("node", node)
        if named != node:
            raise NodeConfigError(f"node is {named!r} there, and --node is {node!r}")
    except NodeConfigError as error:
        raise NodeConfigError(f"{path}: {error}") from error
    replace_text(path, text)


if __name__ == "__main__":
    sys.exit(exit_code(_main))

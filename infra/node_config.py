"""Writes the part of a node's configuration that the stack knows: its ``[controller]``.

Usage: python -m infra.node_config --outputs FILE --node NAME --into node.toml

FILE is what ``cdk deploy --outputs-file FILE`` wrote. The table in node.toml is replaced, but for
``folder`` and limits of time that stand there, unless the file is another node's; without
``--into`` the new one is printed. The exit code is 0, or 1 with the reason.
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

from infra.outputs import output_name

DEFAULT_LISTEN = "0.0.0.0:8080"
# A task takes half a minute to start: sooner, the sidecar would plan by itself each time.
FARGATE_PLAN_DEADLINE = "3m"
# Kept from a table that is replaced, because the stack says nothing about them.
KEPT = ("folder", "plan_deadline", "maximum_plan_age")
# The table with its comments, up to the next one.
_SECTION = re.compile(r"^\[controller\].*?(?=^\[|\Z)", re.MULTILINE | re.DOTALL)


class NodeConfigError(ValueError):
    """The outputs do not describe the node; the message names what is missing."""


def controller_table(
    outputs: Mapping[str, str],
    node: str,
    *,
    listen: str = DEFAULT_LISTEN,
    endpoint_url: str | None = None,
) -> dict[str, str]:
    """Keys and values of the sidecar's ``[controller]``.

    Its kind is ``auto``: the stack's solver, and where no plan comes from it in time, the sidecar's
    own. ``embedded``, if the stack has no solver.

    Args:
        outputs: of the stack.
        node: one of its nodes.
        listen: where the sidecar takes notifications, if they come over HTTP.
        endpoint_url: of an emulator.

    Raises:
        NodeConfigError: an output is missing.
    """

    def output(name: str) -> str:
        if name not in outputs:
            raise NodeConfigError(f"the outputs have no {name}: is {node!r} a node of this stack?")
        return outputs[name]

    controller = output("Controller")
    table = {
        "kind": "embedded" if controller == "embedded" else "auto",
        "region": output("Region"),
        "observations_bucket": output("ObservationsBucket"),
        "plans_bucket": output("PlansBucket"),
        "topic_arn": output("PlansTopicArn"),
    }
    if output_name(node, "PublicUrl") in outputs:
        table |= {"delivery": "http", "listen": listen}
    else:
        table |= {"delivery": "sqs", "queue_url": output(output_name(node, "QueueUrl"))}
    if controller == "fargate":
        table["plan_deadline"] = FARGATE_PLAN_DEADLINE
    if endpoint_url:
        table["endpoint_url"] = endpoint_url
    return table


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


def read_outputs(path: Path) -> dict[str, str]:
    """The outputs of the one stack in a file written by ``cdk deploy --outputs-file``.

    Raises:
        NodeConfigError: it is not such a file.
        OSError: it cannot be read.
    """
    try:
        outputs: Any = json.loads(path.read_text())
    except ValueError as error:
        raise NodeConfigError(f"{path}: not a JSON document: {error}") from error
    if isinstance(outputs, dict) and len(outputs) == 1:
        (outputs,) = outputs.values()
    if not isinstance(outputs, dict) or "PlansTopicArn" not in outputs:
        raise NodeConfigError(f"{path}: has no outputs of one SPREDS stack")
    return outputs


def _main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m infra.node_config",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--outputs", type=Path, required=True, metavar="FILE")
    parser.add_argument("--node", required=True, metavar="NAME")
    parser.add_argument("--listen", default=DEFAULT_LISTEN, metavar="HOST:PORT")
    parser.add_argument(
        "--endpoint-url",
        default=os.environ.get("AWS_ENDPOINT_URL"),
        metavar="URL",
        help="address of an emulator (default: AWS_ENDPOINT_URL)",
    )
    parser.add_argument(
        "--into", type=Path, metavar="FILE", help="the sidecar's configuration file to change"
    )
    arguments = parser.parse_args()
    try:
        table = controller_table(
            read_outputs(arguments.outputs),
            arguments.node,
            listen=arguments.listen,
            endpoint_url=arguments.endpoint_url,
        )
        if arguments.into is None:
            print(controller_toml(table), end="")
        else:
            _change(arguments.into, arguments.node, table)
    except (NodeConfigError, OSError) as error:
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
    written = path.with_name(f".{path.name}.new")
    written.write_text(text)
    written.chmod(path.stat().st_mode)
    written.replace(path)


if __name__ == "__main__":
    sys.exit(_main())

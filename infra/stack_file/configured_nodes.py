"""``[nodes]`` of the installation's file: lines that name one node each, or many."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from infra.stack_file import limits
from infra.stack_file.cells import CELL_PATTERN, PatternError, named_by
from solver_lambda.documents.keys import NODE_PATTERN
from solver_lambda.documents.planning_settings import METHODS
from solver_lambda.documents.reader import Fields

DELIVERIES = ("sqs", "http")
NODE_PLACEHOLDER = "{node}"  # in the public_url of a line that names several


@dataclass(frozen=True)
class Node:
    """One machine with Redis servers.

    Attributes:
        name: also in its S3 keys.
        delivery: ``sqs``: plans wait in the node's queue, and the node only makes outbound calls;
            ``http``: SNS posts them to ``public_url``.
        public_url: of the node's listener, http or https; or empty.
        solver: ``dirichlet`` or ``hill_climbing``: a function of its own that searches with it,
            as the thesis has two; ``auto``: the function that chooses by the number of servers.
        cell: that the node is in.
    """

    name: str
    delivery: str = "sqs"
    public_url: str = ""
    solver: str = "auto"
    cell: str = "main"


def read_nodes(table: Fields, nodes_per_cell: int) -> Iterator[Node]:
    """Yield all nodes of all lines. Raises DocumentError."""
    lines: dict[str, str] = {}
    posted_to: dict[tuple[str, str], str] = {}
    for key in table.names():
        line = table.table(key)
        node = _node(line)
        try:
            named = list(named_by(key, node.cell, nodes_per_cell, limits.ACCOUNT_FILTERS.most))
        except PatternError as error:
            raise table.refuse(key, str(error)) from error
        if len(named) > 1 and node.public_url and NODE_PLACEHOLDER not in node.public_url:
            raise line.refuse("public_url", f"must have {NODE_PLACEHOLDER} where the name belongs")
        for one in named:
            if not NODE_PATTERN.fullmatch(one.node):
                raise table.refuse(
                    key,
                    f"names no node: {one.node!r} does not match {NODE_PATTERN.pattern}",
                )
            if one.node in lines:
                raise table.refuse(
                    key, f"names {one.node!r}, which {table.where(lines[one.node])} names as well"
                )
            lines[one.node] = key
            public_url = node.public_url.replace(NODE_PLACEHOLDER, one.node)
            other = posted_to.setdefault((one.cell, public_url), one.node)
            if public_url and other != one.node:
                # SNS takes an address once for a topic, with one filter.
                raise line.refuse(
                    "public_url",
                    f"{public_url!r} is the address of {other!r} in the same cell as well",
                )
            yield replace(node, name=one.node, cell=one.cell, public_url=public_url)


def _node(line: Fields) -> Node:
    """Read a line, with the name still open; ``cell`` is empty where the line has none."""
    if line.has("servers"):
        raise line.refuse(
            "servers",
            "belongs here no longer: give a team its role by what `python -m infra.roles --team "
            "NODE/SERVER` prints",
        )
    node = Node(
        name="",
        delivery=line.text("delivery", "sqs", DELIVERIES),
        public_url=line.text("public_url") if line.has("public_url") else "",
        solver=line.text("solver", "auto", METHODS),
        cell=line.text("cell") if line.has("cell") else "",
    )
    line.done()
    if node.cell and not CELL_PATTERN.fullmatch(node.cell):
        raise line.refuse("cell", f"must match {CELL_PATTERN.pattern}, not {node.cell!r}")
    if (node.delivery == "http") != bool(node.public_url):
        raise line.refuse("public_url", 'goes with delivery = "http", and only with it')
    if node.public_url and not re.match(r"https?://[^/]+", node.public_url):
        raise line.refuse("public_url", f"must be a URL, not {node.public_url!r}")
    return node

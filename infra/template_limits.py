"""How much CloudFormation takes in one template, and how much a configuration puts into it.

Counted before synthesis, which would find too much only when all is built; a test holds the counts
to the templates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Counts:
    """Of a template, or of a part of one."""

    resources: int
    outputs: int

    def plus(self, part: Counts, times: int = 1) -> Counts:
        return Counts(self.resources + times * part.resources, self.outputs + times * part.outputs)

    def room_for(self, part: Counts) -> int:
        """How many of ``part`` fit into a template besides this; below 0 if this does not fit."""
        rooms = [(LIMITS.resources - self.resources) // part.resources]
        if part.outputs:
            rooms.append((LIMITS.outputs - self.outputs) // part.outputs)
        return min(rooms)


# https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html
LIMITS = Counts(resources=500, outputs=200)
STACK = {
    "embedded": Counts(resources=12, outputs=6),
    "lambda": Counts(resources=15, outputs=6),
    "fargate": Counts(resources=41, outputs=6),
    "auto": Counts(resources=41, outputs=6),  # the larger of what it chooses between
}
FUNCTION = Counts(resources=9, outputs=0)
NODE = {"sqs": Counts(resources=6, outputs=2), "http": Counts(resources=4, outputs=2)}
SERVER = Counts(resources=2, outputs=1)


def without_servers(controller: str, functions: int, deliveries: Sequence[str]) -> Counts:
    """What a stack with a node for each of ``deliveries`` needs.

    Args:
        functions: that make plans; they count only if the controller is ``lambda``.
    """
    needed = STACK[controller]
    if controller == "lambda":
        needed = needed.plus(FUNCTION, functions)
    for delivery in deliveries:
        needed = needed.plus(NODE[delivery])
    return needed


def excess(controller: str, functions: int, deliveries: Sequence[str], servers: int) -> str | None:
    """What is too much and what would fit, for a stack with ``servers`` on all nodes together;
    ``None`` if all of it fits.
    """
    nodes = len(deliveries)
    with_nodes = without_servers(controller, functions, deliveries)
    room = with_nodes.room_for(SERVER)
    if servers <= room:
        return None
    if room >= 0:
        fits = f"{nodes} nodes have room for {room} servers"
    else:
        largest = max((NODE[delivery] for delivery in deliveries), key=lambda node: node.resources)
        alone = without_servers(controller, functions, ())
        fits = f"{alone.room_for(largest)} nodes without servers fit"
    needed = with_nodes.plus(SERVER, servers)
    return (
        f"({nodes}, with {servers} servers) make {needed.resources} resources and "
        f"{needed.outputs} outputs, but CloudFormation takes {LIMITS.resources} and "
        f"{LIMITS.outputs} in a stack: {fits}"
    )

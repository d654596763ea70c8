"""What a configuration is counted to need is what its template has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from infra.configuration import Node
from infra.outputs import node_outputs
from infra.template_limits import LIMITS, SERVER, excess, without_servers

SOLVERS = (Node("a", solver="dirichlet"), Node("b", solver="hill_climbing"), Node("c"))
POSTED = (Node("edge", ("a", "b"), "http", "https://edge.example.com/plans"),)


@pytest.mark.parametrize(
    "changes",
    [
        {"controller": "lambda"},
        {"controller": "fargate"},
        {"controller": "embedded"},
        {"nodes": SOLVERS},
        {"controller": "embedded", "nodes": POSTED},
    ],
)
def test_the_counts_are_those_of_the_template(changes: Any, synthesise: Callable) -> None:
    made = synthesise(**changes)
    nodes = made.configuration.nodes
    counts = without_servers(
        made.configuration.controller,
        len({node.solver for node in nodes}),
        [node.delivery for node in nodes],
    ).plus(SERVER, sum(len(node.servers) for node in nodes))
    assert len(made.template["Resources"]) == counts.resources
    assert len(made.template["Outputs"]) == counts.outputs
    of_nodes = {
        output
        for node in nodes
        for output, _ in node_outputs(node.name, node.delivery, node.servers)
    }
    assert of_nodes < set(made.template["Outputs"])


@pytest.mark.parametrize("delivery", ["sqs", "http"])
@pytest.mark.parametrize("controller", ["auto", "lambda", "fargate", "embedded"])
@pytest.mark.parametrize("nodes", [1, 28, 60])
def test_what_is_said_to_fit_does_and_no_more(controller: str, delivery: str, nodes: int) -> None:
    deliveries = [delivery] * nodes
    needed = without_servers(controller, 1, deliveries)
    room = needed.room_for(SERVER)
    assert excess(controller, 1, deliveries, room) is None
    said = excess(controller, 1, deliveries, room + 1)
    assert said is not None
    assert f"{nodes} nodes have room for {room} servers" in said
    full = needed.plus(SERVER, room + 1)
    assert full.resources > LIMITS.resources or full.outputs > LIMITS.outputs

"""What a configuration is counted to need is what its templates have, and no more is taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from infra.stack_file import limits
from infra.stack_file.configuration import Configuration
from infra.stack_file.configured_nodes import Node
from infra.stack_file.limits import CellSize, Limit, too_much_in_a_cell, too_much_in_the_account

SOLVERS = (Node("a", solver="dirichlet"), Node("b", solver="hill_climbing"), Node("c"))
POSTED = (Node("edge", "http", "https://edge.example.com/plans"), Node("queued"))
# As long as names may be.
LONG = tuple(Node(f"{'n' * 60}-{number:02d}", cell="c" * 13) for number in range(40))


@pytest.mark.parametrize(
    "changes",
    [
        {"controller": "lambda"},
        {"controller": "fargate"},
        {"controller": "embedded"},
        {"nodes": SOLVERS},
        {"controller": "embedded", "nodes": POSTED},
        {"nodes": LONG},
        {"nodes": SOLVERS, "topics": "two"},
        {"analytics": True},
        {"nodes": LONG, "analytics": True},
        {"nodes": SOLVERS, "cell_alarms": True},
    ],
)
def test_the_counts_are_those_of_the_templates(changes: Any, synthesise: Callable) -> None:
    made = synthesise(**changes)
    (cell,) = made.configuration.cells
    analytics = made.configuration.analytics
    size = CellSize(
        cell.name,
        tuple(node.delivery for node in cell.nodes),
        len(cell.methods),
        analytics,
        made.configuration.topics == "two",
        made.configuration.cell_alarms,
    )
    counts = size.counts(made.configuration.controller)
    assert len(made.cell.template["Resources"]) == counts.resources
    assert len(made.cell.template["Outputs"]) == counts.outputs
    assert made.cell.path.stat().st_size <= counts.size_bytes <= 1.7 * made.cell.path.stat().st_size
    refused = 0 if made.configuration.controller == "embedded" else limits.REFUSED.resources
    shared = limits.SHARED.resources + refused + (limits.DATABASE.resources if analytics else 0)
    assert len(made.shared.template["Resources"]) == shared
    assert len(made.shared.template["Outputs"]) == limits.SHARED.outputs


def test_managed_policies_are_as_long_as_iam_takes_at_most(synthesise: Callable) -> None:
    policies = synthesise().shared.of_type("IAM::ManagedPolicy")
    assert len(policies) == 2
    for policy in policies.values():
        # Spelt with references, which are longer than what they stand for.
        assert len(str(policy["PolicyDocument"]).replace(" ", "")) < limits.POLICY_CHARACTERS.most


def test_each_limit_names_a_page_of_aws() -> None:
    table = [value for value in vars(limits).values() if isinstance(value, Limit)]
    assert len(table) >= 15
    assert len({limit.what for limit in table}) == len(table)
    for limit in table:
        assert limit.most > 0
        assert limit.source.startswith("https://docs.aws.amazon.com/")


@pytest.mark.parametrize(
    ("controller", "delivery", "most", "what"),
    [
        ("lambda", "sqs", 162, "resources in a CloudFormation stack"),
        ("embedded", "sqs", 164, "resources in a CloudFormation stack"),
        ("lambda", "http", 200, "filter policies on an SNS topic"),
    ],
)
def test_a_cell_takes_as_many_nodes_as_aws_lets_it(
    controller: str, delivery: str, most: int, what: str
) -> None:
    assert not list(too_much_in_a_cell(controller, CellSize("a", (delivery,) * most, 1)))
    (said,) = too_much_in_a_cell(controller, CellSize("a", (delivery,) * (most + 1), 1))
    assert f"put {most + 1} nodes into the cell 'a'" in said
    assert what in said


def test_each_node_with_a_solver_of_its_own_is_a_notification() -> None:
    assert not list(too_much_in_a_cell("lambda", CellSize("a", ("http",) * 100, 2)))
    (said,) = too_much_in_a_cell("lambda", CellSize("a", ("http",) * 101, 2))
    assert "101 notification configurations of an S3 bucket, and AWS takes 100" in said


@pytest.mark.parametrize(
    ("controller", "cells", "nodes", "reserved", "key", "said"),
    [
        ("lambda", 2_000, 2_000, None, "nodes", "2001 CloudFormation stacks"),
        ("lambda", 300, 10_001, None, "nodes", "10001 SNS filter policies"),
        ("fargate", 5, 200, None, "nodes", "6 networks"),
        ("lambda", 26, 1_000, 35, "reserved_concurrency", "910 in all"),
    ],
)
def test_what_all_cells_need_together_is_looked_at(
    controller: str, cells: int, nodes: int, reserved: int | None, key: str, said: str
) -> None:
    ((at, sentence),) = too_much_in_the_account(controller, cells, nodes, cells, reserved)
    assert (at, said in sentence) == (key, True), sentence


def test_a_thousand_nodes_are_within_all_limits() -> None:
    assert not list(too_much_in_the_account("lambda", 26, 1_000, 26, 34))
    assert not list(too_much_in_a_cell("lambda", CellSize("a", ("sqs",) * 40, 3)))
    assert Configuration("a", ()).nodes_per_cell == 40

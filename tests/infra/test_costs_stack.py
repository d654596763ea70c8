"""The bills are of the stack that is deployed: its memory, alarms and ways are the model's."""

from __future__ import annotations

from pathlib import Path

import pytest
from aws_cdk import App, aws_lambda
from aws_cdk.assertions import Template

from infra.costs.workload import (
    FUNCTION_TIMEOUT_SECONDS,
    TASK_GB,
    TASK_VCPU,
    Workload,
)
from infra.stack_file.configuration import Configuration
from infra.stack_file.configured_nodes import Node
from infra.stack_file.limits import MOST_SERVERS
from infra.stacks.installation import add_stacks
from solver_lambda.documents.reader import MAX_SERVERS

TWO_NODES = (Node("one"), Node("two"))


def templates(controller: str, code: Path) -> tuple[Template, Template]:
    """Return the templates of the shared stack, and of the one cell."""
    (code / "handler.py").write_text("")
    shared, cell = add_stacks(
        App(),
        Configuration(name="costs", nodes=TWO_NODES, controller=controller),
        lambda: aws_lambda.Code.from_asset(str(code)),
    )
    return Template.from_stack(shared), Template.from_stack(cell)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Template, Template]:
    return templates("lambda", tmp_path_factory.mktemp("code"))


@pytest.fixture(scope="module")
def with_function(both: tuple[Template, Template]) -> Template:
    return both[1]


def test_the_function(with_function: Template) -> None:
    default = Workload()
    properties = {
        "MemorySize": default.memory_mb,
        "Timeout": FUNCTION_TIMEOUT_SECONDS,
        "Architectures": ["arm64"],
    }
    with_function.has_resource_properties("AWS::Lambda::Function", properties)
    with_function.resource_count_is("AWS::Lambda::Function", 1)


def test_cells_have_as_many_nodes() -> None:
    assert Workload().nodes_per_cell == Configuration(name="n", nodes=()).nodes_per_cell


def test_a_node_has_as_many_servers_as_its_observation_holds() -> None:
    assert MOST_SERVERS == MAX_SERVERS


def test_all_cells_share_the_alarms(both: tuple[Template, Template]) -> None:
    shared, cell = both
    shared.resource_count_is("AWS::CloudWatch::Alarm", Workload().alarms)
    cell.resource_count_is("AWS::CloudWatch::Alarm", 0)


def test_every_subscription_filters_by_message_body(with_function: Template) -> None:
    subscriptions = with_function.find_resources("AWS::SNS::Subscription").values()
    assert len(subscriptions) == len(TWO_NODES)
    for subscription in subscriptions:
        assert subscription["Properties"]["FilterPolicyScope"] == "MessageBody"


def test_nothing_that_costs_by_the_hour(with_function: Template) -> None:
    """What the model has no term for."""
    for kind in ("KMS::Key", "EC2::NatGateway", "EC2::VPCEndpoint", "CloudTrail::Trail"):
        with_function.resource_count_is(f"AWS::{kind}", 0)


def test_the_task(tmp_path: Path) -> None:
    _, found = templates("fargate", tmp_path)
    properties = {"Cpu": f"{TASK_VCPU * 1024:.0f}", "Memory": f"{TASK_GB * 1024:.0f}"}
    found.has_resource_properties("AWS::ECS::TaskDefinition", properties)
    found.resource_count_is("AWS::EC2::NatGateway", 0)

"""A configuration with a mistake is refused with one sentence that names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.app import DEFAULT
from infra.chosen_controller import chosen_controller
from infra.configuration import Configuration, Node, read_configuration
from solver_lambda.documents.reader import DocumentError


def read(tmp_path: Path, text: str) -> Configuration:
    path = tmp_path / "stack.toml"
    path.write_text(text)
    return read_configuration(path)


NODES = "[nodes]\na = {}\n"


def many_nodes(nodes: int, servers: int) -> str:
    names = [f"s{number}" for number in range(servers)]
    lines = [f"n{number} = {{ servers = {names} }}\n" for number in range(nodes)]
    return "[nodes]\n" + "".join(lines)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("retention_day = 3\n" + NODES, "retention_day is not a known key; did you mean 'retent"),
        ("retention_days = 0\n" + NODES, "retention_days must be at least 1, not 0"),
        ("retention_days = true\n" + NODES, "retention_days must be a whole number"),
        (
            "retention_days = 99999999999\n" + NODES,
            "retention_days must be at most 36500, not 99999999999",
        ),
        ("cycles_per_day = 100000\n" + NODES, "cycles_per_day must be at most 10000, not 100000"),
        ('name = "xn--a"\n' + NODES, "name must not start like S3's own 'xn--': 'xn--a'"),
        ('name = "sthree"\n' + NODES, "name must not start like S3's own 'sthree-': 'sthree'"),
        ('name = "amzn-s3-demo-a"\n' + NODES, "S3's own 'amzn-s3-demo-': 'amzn-s3-demo-a'"),
        ("log_retention_days = 100\n" + NODES, "log_retention_days must be one of 1, 3, 5"),
        ('controller = "lamda"\n' + NODES, "controller must be one of auto, lambda, fargate"),
        ('name = "Spreds"\n' + NODES, "name must match"),
        ("", "nodes is missing"),
        ("nodes = {}", "nodes must be a table"),
        ("[nodes]\nA = {}\n", "nodes.A is not the name of a node"),
        ('[nodes]\na = { server = ["x"] }\n', "nodes.a.server is not a known key; did you mean"),
        ('[nodes]\na = { servers = ["x", "x"] }\n', "nodes.a.servers has two servers named 'x'"),
        ("[nodes]\na = { servers = [[]] }\n", "nodes.a.servers must match"),
        ('[nodes]\na = { servers = "x" }\n', "nodes.a.servers must be a list"),
        (
            'controller = "auto"\n[nodes]\na = { solver = "dirichlet" }\n',
            'nodes.a.solver goes with controller = "lambda"',
        ),
        ('[nodes]\na = { solver = "best" }\n', "nodes.a.solver must be one of auto, dirichlet"),
        ('[nodes]\na = { servers = ["x/y"] }\n', "nodes.a.servers must match"),
        ('[nodes]\na = { delivery = "mail" }\n', "nodes.a.delivery must be one of sqs, http"),
        ('[nodes]\na = { delivery = "http" }\n', "nodes.a.public_url goes with"),
        ('[nodes]\na = { public_url = "https://x" }\n', "nodes.a.public_url goes with"),
        ('[nodes]\na = { delivery = "http", public_url = "x" }\n', "must be a URL"),
        ("[nodes", "not a TOML document"),
        ('name = "a-rather-long-stack-name"\n' + NODES, "name must match"),
        (
            f"[nodes]\n{'n' * 43} = {{}}\n",
            f"nodes.{'n' * 43} is too long: its role would be spreds.{'n' * 43}.ap-southeast-1, "
            "and IAM takes 64 characters, not 65",
        ),
        (
            '[nodes]\na = { servers = ["x-y", "x_y"] }\n',
            "nodes.a.servers 'x_y' and nodes.a.servers 'x-y' would both give the output AXYTeam",
        ),
        (
            '[nodes]\nx = { servers = ["s"] }\nx-s-team = {}\n',
            "nodes.x-s-team and nodes.x.servers 's' would both give the output XSTeamRoleArn",
        ),
        ("[nodes]\na-1 = {}\na1 = {}\n", "nodes.a1 and nodes.a-1 would both give the output A1"),
        (
            many_nodes(28, 5),
            "nodes (28, with 140 servers) make 472 resources and 202 outputs, but "
            "CloudFormation takes 500 and 200 in a stack: 28 nodes have room for 138 servers",
        ),
        (
            'controller = "fargate"\n' + many_nodes(80, 0),
            "nodes (80, with 0 servers) make 521 resources and 166 outputs, but "
            "CloudFormation takes 500 and 200 in a stack: 76 nodes without servers fit",
        ),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(DocumentError, match=r"stack\.toml: ") as refused:
        read(tmp_path, text)
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_node_is_one_line(tmp_path: Path) -> None:
    line = 'a = { servers = ["x"], delivery = "http", public_url = "https://a.example.com" }'
    made = read(tmp_path, f"[nodes]\n{line}\n")
    assert made.nodes == (Node("a", ("x",), "http", "https://a.example.com"),)


def test_names_that_only_look_alike_are_taken(tmp_path: Path) -> None:
    made = read(tmp_path, '[nodes]\nweb = { servers = ["cache"] }\nweb-cache = {}\n')
    assert [node.name for node in made.nodes] == ["web", "web-cache"]


def test_a_name_as_long_as_a_role_may_have_is_taken(tmp_path: Path) -> None:
    assert read(tmp_path, f"[nodes]\n{'n' * 42} = {{}}\n").nodes


def test_as_much_as_cloudformation_takes_is_taken(tmp_path: Path) -> None:
    assert len(read(tmp_path, many_nodes(27, 5)).nodes) == 27


def test_the_most_cycles_leave_time_for_a_plan_of_the_most_servers(tmp_path: Path) -> None:
    made = read(tmp_path, 'controller = "auto"\ncycles_per_day = 10000\n' + many_nodes(1, 192))
    assert chosen_controller(made) == "lambda"


def test_the_file_that_comes_with_the_stack_is_good() -> None:
    configuration = read_configuration(DEFAULT)
    assert configuration.retention_days == 180
    assert configuration.nodes

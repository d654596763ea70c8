"""What `infra.roles` prints fits the installation and its place; what cannot be is said."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infra.configuration import Configuration
from infra.configured_nodes import Node
from infra.names import place
from infra.roles import RoleError, node_lines, team_lines

CONFIGURATION = Configuration("spreds", (Node("web"), Node("n" * 45)))
OHIO = place("123456789012", "us-east-2")
CHINA = place("123456789012", "cn-north-1")


def trust(lines: list[list[str]]) -> dict[str, str]:
    """Who may assume the role that the first command makes."""
    document = json.loads(lines[0][lines[0].index("--assume-role-policy-document") + 1])
    (statement,) = document["Statement"]
    # Who may tag a session could take any node's place.
    assert statement["Action"] == "sts:AssumeRole"
    principal = statement["Principal"]
    assert isinstance(principal, dict)
    return principal


def test_a_nodes_role_is_for_ec2_and_who_may_assume_it() -> None:
    lines = node_lines(CONFIGURATION, "web", OHIO)
    assert [line[2] for line in lines] == [
        "create-role", "attach-role-policy", "create-instance-profile",
        "add-role-to-instance-profile",
    ]  # fmt: skip
    assert trust(lines) == {
        "Service": "ec2.amazonaws.com",
        "AWS": "arn:aws:iam::123456789012:root",
    }
    assert "arn:aws:iam::123456789012:policy/spreds-nodes-us-east-2" in lines[1]


def test_in_china_names_are_china_s() -> None:
    lines = node_lines(CONFIGURATION, "web", CHINA)
    assert trust(lines)["Service"] == "ec2.amazonaws.com.cn"
    assert "arn:aws-cn:iam::123456789012:policy/spreds-nodes-cn-north-1" in lines[1]


def test_a_teams_role_is_for_whom_it_is_given_to() -> None:
    somebody = "arn:aws:iam::123456789012:role/checkout"
    lines = team_lines(CONFIGURATION, "web", "cart.eu", OHIO, somebody)
    assert trust(lines) == {"AWS": somebody}
    tags = lines[0][lines[0].index("--tags") + 1 :]
    assert tags == ["Key=spreds-node,Value=web", "Key=spreds-server,Value=cart.eu"]


@pytest.mark.parametrize(
    ("node", "server", "said"),
    [
        ("nobody", None, "'nobody' is no node of the stack's file"),
        ("nobody", "cart", "'nobody' is no node of the stack's file"),
        ("web", "a/b", "no server can be called 'a/b': it must match"),
        ("web", "", "no server can be called ''"),
        ("n" * 45, "cart-and-more", "AWS takes 64 characters in the name of an IAM role: give a r"),
    ],
)
def test_what_cannot_be_is_said(node: str, server: str | None, said: str) -> None:
    arguments = [CONFIGURATION, node, *([] if server is None else [server]), OHIO]
    make: Any = node_lines if server is None else team_lines
    with pytest.raises(RoleError) as refused:
        make(*arguments)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_command_prints_lines_for_a_shell(tmp_path: Path) -> None:
    stack = tmp_path / "stack.toml"
    stack.write_text("[nodes]\nweb = {}\n")
    command = [sys.executable, "-m", "infra.roles", "--stack", str(stack)]
    place_options = ["--account", "123456789012", "--region", "us-east-2"]
    said = subprocess.run(
        [*command, *place_options, "--team", "web/cart"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = [shlex.split(line) for line in said.stdout.splitlines()]
    configuration = Configuration("spreds", (Node("web"),))
    assert lines == team_lines(configuration, "web", "cart", OHIO)
    nobody = subprocess.run(
        [*command, *place_options, "--node", "nobody"], capture_output=True, text=True
    )
    assert nobody.stderr == f"roles: 'nobody' is no node of {stack}\n"
    refused = subprocess.run(
        [*command, *place_options, "--team", "web"], capture_output=True, text=True
    )
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("roles: no server can be called ''")

"""What `infra.roles` prints fits the installation and its place; what cannot be is said."""

from __future__ import annotations

import json
import os
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import botocore.exceptions
import jmespath
import pytest
from moto.server import ThreadedMotoServer

from infra.roles import Line, RoleError, node_lines, removal_lines, team_lines
from infra.stack_file.account import Account
from infra.stack_file.configuration import Configuration
from infra.stack_file.configured_nodes import Node
from infra.stack_file.names import place
from tests.end_to_end.printed_commands import api_arguments

CONFIGURATION = Configuration("spreds", (Node("web"), Node("n" * 45)))
OHIO = place("123456789012", "us-east-2")
CHINA = place("123456789012", "cn-north-1")


def trust(lines: list[Line]) -> dict[str, str]:
    """Return who may assume the role that the first command makes."""
    made = lines[0].arguments
    document = json.loads(made[made.index("--assume-role-policy-document") + 1])
    (statement,) = document["Statement"]
    # Who may tag a session could take any node's place.
    assert statement["Action"] == "sts:AssumeRole"
    principal = statement["Principal"]
    assert isinstance(principal, dict)
    return principal


def test_a_nodes_role_is_for_ec2_and_who_may_assume_it() -> None:
    lines = node_lines(CONFIGURATION, "web", OHIO)
    assert [line.arguments[0] for line in lines] == [
        "create-role", "update-assume-role-policy", "tag-role", "attach-role-policy",
        "create-instance-profile", "add-role-to-instance-profile",
    ]  # fmt: skip
    assert trust(lines) == {
        "Service": "ec2.amazonaws.com",
        "AWS": "arn:aws:iam::123456789012:root",
    }
    assert "arn:aws:iam::123456789012:policy/spreds-nodes-us-east-2" in lines[3].arguments


def test_in_china_names_are_china_s() -> None:
    lines = node_lines(CONFIGURATION, "web", CHINA)
    assert trust(lines)["Service"] == "ec2.amazonaws.com.cn"
    assert "arn:aws-cn:iam::123456789012:policy/spreds-nodes-cn-north-1" in lines[3].arguments


def test_a_teams_role_is_for_whom_it_is_given_to() -> None:
    somebody = "arn:aws:iam::123456789012:role/checkout"
    lines = team_lines(CONFIGURATION, "web", "cart.eu", OHIO, somebody)
    assert trust(lines) == {"AWS": somebody}
    made = lines[0].arguments
    tags = list(made[made.index("--tags") + 1 :])
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
    configuration = Configuration("spreds", (Node("web"),))
    assert said.stdout.splitlines() == [
        str(line) for line in team_lines(configuration, "web", "cart", OHIO)
    ]
    nobody = subprocess.run(
        [*command, *place_options, "--node", "nobody"], capture_output=True, text=True
    )
    assert nobody.stderr == f"roles: 'nobody' is no node of {stack}\n"
    refused = subprocess.run(
        [*command, *place_options, "--team", "web"], capture_output=True, text=True
    )
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("roles: no server can be called ''")


def test_what_an_organisation_demands_is_on_the_role() -> None:
    account = Account((("owner", "caches"),), permissions_boundary="bound")
    lines = node_lines(replace(CONFIGURATION, account=account), "web", OHIO)
    bound = ("--permissions-boundary", "arn:aws:iam::123456789012:policy/bound")
    tags = ("--tags", "Key=owner,Value=caches", "Key=spreds-node,Value=web")
    role = ("--role-name", "spreds.web.us-east-2")
    assert lines[0].arguments[-5:] == (*bound, *tags)
    assert lines[2].arguments == ("tag-role", *role, *tags)
    assert lines[3].arguments == ("put-role-permissions-boundary", *role, *bound)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[tuple[Callable[[list[Line]], int], Any]]:
    """Runs lines as a shell does, each until one fails, by an ``aws`` that speaks to an emulator;
    and IAM there."""
    (program := tmp_path / "aws").write_text(f"#!{sys.executable} -IS\n{AWS}")
    program.chmod(0o755)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    keys = {"aws_access_key_id": "x", "aws_secret_access_key": "x"}
    url = f"http://{host}:{port}"
    iam = boto3.client("iam", endpoint_url=url, region_name="us-east-2", **keys)

    class Asked(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(json.dumps(answer(iam, json.loads(self.rfile.readline()))).encode())

    asked = socketserver.UnixStreamServer(str(tmp_path / "asked"), Asked)
    threading.Thread(target=asked.serve_forever, args=(0.01,), daemon=True).start()
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def run(lines: list[Line]) -> int:
        text = "\n".join(map(str, lines))
        return subprocess.run(["sh", "-e"], input=text, text=True, env=environment).returncode

    try:
        yield run, iam
    finally:
        asked.shutdown()
        asked.server_close()
        server.stop()


# Asks this process: to load all of AWS' library for each line takes half a second.
AWS = """
import json, os, socket, sys

asked = socket.socket(socket.AF_UNIX)
asked.connect(os.path.join(os.path.dirname(sys.argv[0]), "asked"))
asked.sendall(json.dumps(sys.argv[1:]).encode() + b"\\n")
error, text = json.loads(asked.makefile().read())
sys.exit(error or print(text))
"""


def answer(iam: Any, words: list[str]) -> tuple[str, str]:
    """An error, or what is printed: the AWS CLI's own way with options, of IAM's commands and of
    no others."""
    service, command, *options = words
    assert service == "iam"
    values = api_arguments(options)
    query = values.pop("Query", None)
    values.pop("Output", None)
    try:
        found = getattr(iam, command.replace("-", "_"))(**values)
    except botocore.exceptions.ClientError as error:
        return str(error), ""
    found.pop("ResponseMetadata", None)
    return "", "\n".join(jmespath.search(query, found)) if query else json.dumps(found, default=str)


def test_the_lines_can_be_run_again_and_be_taken_back(
    shell: tuple[Callable[[list[Line]], int], Any],
) -> None:
    run, iam = shell
    for kind in ("nodes", "teams"):
        statement = {"Effect": "Allow", "Action": "s3:ListAllMyBuckets", "Resource": "*"}
        document = {"Version": "2012-10-17", "Statement": [statement]}
        name = f"spreds-{kind}-us-east-2"
        iam.create_policy(PolicyName=name, PolicyDocument=json.dumps(document))
    for _ in range(2):
        assert run(node_lines(CONFIGURATION, "web", OHIO)) == 0
    role = "spreds.web.us-east-2"
    (held,) = iam.get_instance_profile(InstanceProfileName=role)["InstanceProfile"]["Roles"]
    assert held["RoleName"] == role
    (attached,) = iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]
    assert attached["PolicyName"] == "spreds-nodes-us-east-2"
    # Somebody else may assume it now, and it has what the organisation demands.
    other = replace(CONFIGURATION, account=Account((("owner", "caches"),)))
    somebody = "arn:aws:iam::123456789012:role/ops"
    assert run(node_lines(other, "web", OHIO, somebody)) == 0
    found = iam.get_role(RoleName=role)["Role"]
    assert found["AssumeRolePolicyDocument"]["Statement"][0]["Principal"]["AWS"] == somebody
    tags = {tag["Key"]: tag["Value"] for tag in iam.list_role_tags(RoleName=role)["Tags"]}
    assert tags == {"owner": "caches", "spreds-node": "web"}
    assert run(team_lines(CONFIGURATION, "web", "cart", OHIO)) == 0
    # Also of nodes that the file does not name any more.
    gone = Configuration("spreds", (Node("other"),))
    assert run(removal_lines(gone, "web", None, OHIO)) == 0
    assert run(removal_lines(gone, "web", "cart", OHIO)) == 0
    assert iam.list_roles()["Roles"] == []
    assert iam.list_instance_profiles()["InstanceProfiles"] == []

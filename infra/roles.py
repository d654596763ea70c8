"""Prints the AWS CLI's lines that make the role of a node or of a team; it runs nothing.

Usage: python -m infra.roles --account ID --region REGION --node cache-001 [--stack FILE]
       python -m infra.roles --account ID --region REGION --team cache-001/sessions [--trusted ARN]

Who may do what stands in two policies of the installation; a role only says by its tags which node
or server it is of. A role that you have already serves as well: give it the tags and attach the
policy. So whoever may tag roles decides who is which node. A node's role is for an EC2 instance by
its profile, and for those who may assume it; a team's for ``--trusted`` (by default: whom the
account's own policies let). The exit code is 0, or 1 with the reason.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path

from infra import limits, names
from infra.configuration import Configuration, read_configuration
from solver_lambda.documents.keys import SERVER_PATTERN

STACK_FILE = Path(__file__).resolve().parent / "stack.toml"


class RoleError(ValueError):
    """No role can be made so; the message says why."""


def node_lines(
    configuration: Configuration, node: str, place: names.Place, trusted: str | None = None
) -> list[list[str]]:
    """The commands, each as its arguments, that make a node's role and instance profile.

    Args:
        trusted: who may assume it beside EC2; the account's own policies decide if it is ``None``.

    Raises:
        RoleError: there is no such node, or its role's name would be too long.
    """
    _check_node(configuration, node)
    role = names.node_role(configuration.name, node, place.region)
    policy = names.nodes_policy(configuration.name, place.region)
    # EC2's name follows the partition, other services' do not.
    principal = {"Service": f"ec2.{place.url_suffix}", "AWS": trusted or place.iam_arn("root")}
    return [
        *_role(role, principal, {names.NODE_TAG: node}, place.iam_arn(f"policy/{policy}")),
        ["aws", "iam", "create-instance-profile", "--instance-profile-name", role],
        [
            *("aws", "iam", "add-role-to-instance-profile"),
            *("--instance-profile-name", role, "--role-name", role),
        ],
    ]


def team_lines(
    configuration: Configuration,
    node: str,
    server: str,
    place: names.Place,
    trusted: str | None = None,
) -> list[list[str]]:
    """The commands that make the role of the team of one server.

    Raises:
        RoleError: there is no such node, no server can be called so, or the role's name would be
            too long.
    """
    _check_node(configuration, node)
    if not SERVER_PATTERN.fullmatch(server):
        raise RoleError(
            f"no server can be called {server!r}: it must match {SERVER_PATTERN.pattern}"
        )
    role = names.team_role(configuration.name, node, server, place.region)
    policy = names.teams_policy(configuration.name, place.region)
    tags = {names.NODE_TAG: node, names.SERVER_TAG: server}
    principal = {"AWS": trusted or place.iam_arn("root")}
    return _role(role, principal, tags, place.iam_arn(f"policy/{policy}"))


def _check_node(configuration: Configuration, node: str) -> None:
    if configuration.cell_of(node) is None:
        raise RoleError(f"{node!r} is no node of {configuration.source}")


def _role(
    role: str, principal: dict[str, str], tags: dict[str, str], policy_arn: str
) -> list[list[str]]:
    if len(role) > limits.ROLE_NAME.most:
        raise RoleError(
            f"the role would be {role}, and AWS takes {limits.ROLE_NAME.most} "
            f"{limits.ROLE_NAME.what}: give a role of yours the tags "
            f"{', '.join(f'{key}={value}' for key, value in tags.items())} and {policy_arn}"
        )
    trust = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}],
    }
    return [
        [
            *("aws", "iam", "create-role", "--role-name", role),
            *("--assume-role-policy-document", json.dumps(trust)),
            *("--tags", *(f"Key={key},Value={value}" for key, value in tags.items())),
        ],
        [
            *("aws", "iam", "attach-role-policy", "--role-name", role),
            *("--policy-arn", policy_arn),
        ],
    ]


def _main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m infra.roles",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--account", required=True, metavar="ID")
    parser.add_argument("--region", required=True, metavar="REGION")
    whose = parser.add_mutually_exclusive_group(required=True)
    whose.add_argument("--node", metavar="NAME")
    whose.add_argument("--team", metavar="NODE/SERVER")
    parser.add_argument("--trusted", metavar="ARN", help="who may assume the role")
    parser.add_argument("--stack", type=Path, default=STACK_FILE, metavar="FILE")
    arguments = parser.parse_args()
    try:
        configuration = read_configuration(arguments.stack)
        place = names.place(names.account(arguments.account), arguments.region)
        if arguments.node:
            lines = node_lines(configuration, arguments.node, place, arguments.trusted)
        else:
            node, _, server = arguments.team.partition("/")
            lines = team_lines(configuration, node, server, place, arguments.trusted)
    except (ValueError, OSError) as error:
        print(f"roles: {error}", file=sys.stderr)
        return 1
    for line in lines:
        print(shlex.join(line))
    return 0


if __name__ == "__main__":
    sys.exit(_main())

"""Prints the AWS CLI's lines that make the role of a node or of a team; it runs nothing.

Usage: python -m infra.roles --account ID --region REGION --node cache-001 [--stack FILE]
       python -m infra.roles --account ID --region REGION --team cache-001/sessions [--trusted ARN]
       python -m infra.roles --account ID --region REGION --node cache-001 --remove

The lines can be run again: what is there already is brought to what they say.

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
from collections.abc import Container
from pathlib import Path
from typing import NamedTuple

from infra.closed_pipe import exit_code
from infra.stack_file import limits, names
from infra.stack_file.configuration import Configuration, read_configuration
from solver_lambda.documents.keys import SERVER_PATTERN

STACK_FILE = Path(__file__).resolve().parent / "stack.toml"


class Line(NamedTuple):
    """A command of the AWS CLI's ``iam``, and the shell's condition under which it is left out."""

    arguments: tuple[str, ...]
    unless: str | None = None

    def __str__(self) -> str:
        command = shlex.join(("aws", "iam", *self.arguments))
        return f"{self.unless} || {command}" if self.unless else command


class RoleError(ValueError):
    """No role can be made so; the message says why."""


def node_lines(
    configuration: Configuration, node: str, place: names.Place, trusted: str | None = None
) -> list[Line]:
    """The commands that make a node's role and instance profile.

    Args:
        trusted: who may assume it beside EC2; the account's own policies decide if it is ``None``.

    Raises:
        RoleError: there is no such node, or its role's name would be too long.
    """
    _check_node(configuration, node)
    role, tags = _role_of(configuration, node, None, place)
    # EC2's name follows the partition, other services' do not.
    principal = {"Service": f"ec2.{place.url_suffix}", "AWS": trusted or place.iam_arn("root")}
    return [
        *_role(configuration, role, principal, tags, place),
        Line(
            ("create-instance-profile", "--instance-profile-name", role),
            unless=f"{_named('get-instance-profile', 'instance-profile', role)} >/dev/null 2>&1",
        ),
        Line(
            (
                *("add-role-to-instance-profile", "--instance-profile-name", role),
                *("--role-name", role),
            ),
            unless=f"{_named('get-instance-profile', 'instance-profile', role)} "
            f"--query 'InstanceProfile.Roles[].RoleName' --output text | grep -qxF {role}",
        ),
    ]


def team_lines(
    configuration: Configuration,
    node: str,
    server: str,
    place: names.Place,
    trusted: str | None = None,
) -> list[Line]:
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
    role, tags = _role_of(configuration, node, server, place)
    principal = {"AWS": trusted or place.iam_arn("root")}
    return _role(configuration, role, principal, tags, place)


def _role_of(
    configuration: Configuration, node: str, server: str | None, place: names.Place
) -> tuple[str, dict[str, str]]:
    """Return a role's name, and what marks it: a node's, or that of its ``server``'s team."""
    tags = {names.NODE_TAG: node}
    if server is None:
        return names.node_role(configuration.name, node, place.region), tags
    name = names.team_role(configuration.name, node, server, place.region)
    return name, tags | {names.SERVER_TAG: server}


def _check_node(configuration: Configuration, node: str) -> None:
    if configuration.cell_of(node) is None:
        raise RoleError(f"{node!r} is no node of {configuration.source}")


def _role(
    configuration: Configuration,
    role: str,
    principal: dict[str, str],
    tags: dict[str, str],
    place: names.Place,
) -> list[Line]:
    policy_arn = _policy_arn(configuration, tags, place)
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
    of_role = ("--role-name", role)
    document = json.dumps(trust)
    account = configuration.account
    # The tags that mark a role come last: an organisation's own tags never take their place.
    tagged = ("--tags", *(f"Key={k},Value={v}" for k, v in {**dict(account.tags), **tags}.items()))
    boundary = account.boundary_arn(place)
    bounded = ("--permissions-boundary", boundary) if boundary else ()
    made = ("create-role", *of_role, "--assume-role-policy-document", document, *bounded, *tagged)
    return [
        Line(made, unless=f"{_named('get-role', 'role', role)} >/dev/null 2>&1"),
        Line(("update-assume-role-policy", *of_role, "--policy-document", document)),
        Line(("tag-role", *of_role, *tagged)),
        *([Line(("put-role-permissions-boundary", *of_role, *bounded))] if bounded else []),
        Line(("attach-role-policy", *of_role, "--policy-arn", policy_arn)),
    ]


def _named(command: str, kind: str, name: str) -> str:
    return shlex.join(("aws", "iam", command, f"--{kind}-name", name))


def _policy_arn(configuration: Configuration, tags: Container[str], place: names.Place) -> str:
    of_kind = names.teams_policy if names.SERVER_TAG in tags else names.nodes_policy
    return place.iam_arn(f"policy/{of_kind(configuration.name, place.region)}")


def removal_lines(
    configuration: Configuration, node: str, server: str | None, place: names.Place
) -> list[Line]:
    """The commands that remove what ``node_lines`` or, for a ``server``, ``team_lines`` made; also
    of a node that the file does not name any more."""
    role, tags = _role_of(configuration, node, server, place)
    of_role, of_profile = ("--role-name", role), ("--instance-profile-name", role)
    profile = [
        Line(("remove-role-from-instance-profile", *of_profile, *of_role)),
        Line(("delete-instance-profile", *of_profile)),
    ]
    policy_arn = _policy_arn(configuration, tags, place)
    return [
        *(profile if server is None else []),
        Line(("detach-role-policy", *of_role, "--policy-arn", policy_arn)),
        Line(("delete-role", *of_role)),
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
    parser.add_argument("--remove", action="store_true", help="print what takes it away again")
    parser.add_argument("--stack", type=Path, default=STACK_FILE, metavar="FILE")
    arguments = parser.parse_args()
    try:
        configuration = read_configuration(arguments.stack)
        place = names.place(names.account(arguments.account), arguments.region)
        name, _, server = (arguments.node or arguments.team).partition("/")
        if arguments.remove:
            of_team = None if arguments.node else server
            lines = removal_lines(configuration, name, of_team, place)
        elif arguments.node:
            lines = node_lines(configuration, arguments.node, place, arguments.trusted)
        else:
            lines = team_lines(configuration, name, server, place, arguments.trusted)
    except (ValueError, OSError) as error:
        print(f"roles: {error}", file=sys.stderr)
        return 1
    for line in lines:
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(exit_code(_main))

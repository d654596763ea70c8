"""Names of the stack's outputs; CloudFormation takes letters and digits only."""

from __future__ import annotations

import re
from collections.abc import Collection

ADDRESS = {"sqs": "QueueUrl", "http": "PublicUrl"}


def output_name(node: str, value: str, server: str = "") -> str:
    """Name of the output ``value`` of a node, or of one of its servers."""
    words = [*node.split("-"), *re.split(r"[-_.]", server)]
    return "".join(word[:1].upper() + word[1:] for word in words) + value


def node_outputs(node: str, delivery: str, servers: Collection[str]) -> list[tuple[str, str]]:
    """Names of all outputs of a node, each with the server that it belongs to, or ``""``."""
    return [
        (output_name(node, "RoleArn"), ""),
        (output_name(node, ADDRESS[delivery]), ""),
        *((output_name(node, "TeamRoleArn", server), server) for server in servers),
    ]

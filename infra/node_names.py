"""Names of the resources that belong to a single node.

Names of stacks and nodes are of letters, digits and hyphens: any other sign between them keeps the
node ``b-c`` of a stack ``a`` apart from the node ``c`` of a stack ``a-b``, and both from what
belongs to a stack as a whole.
"""

from __future__ import annotations


def role_name(stack: str, node: str, region: str) -> str:
    """Name of the role and of the instance profile; IAM shares its names among all regions."""
    return f"{stack}.{node}.{region}"


def queue_name(stack: str, node: str) -> str:
    """Name of the queue; SQS does not allow dots."""
    return f"{stack}_{node}"

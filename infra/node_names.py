"""Names of what a node has to itself.

Names of stacks and nodes are of letters, digits and hyphens: any other sign between them keeps the
node ``b-c`` of a stack ``a`` apart from the node ``c`` of a stack ``a-b``, and both from what
belongs to a stack as a whole.
"""

from __future__ import annotations


def role_name(stack: str, node: str, region: str) -> str:
    """Of the role and the instance profile; IAM has one set of names for all regions."""
    return f"{stack}.{node}.{region}"


def queue_name(stack: str, node: str) -> str:
    """SQS takes no dot."""
    return f"{stack}_{node}"

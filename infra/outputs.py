"""Names of the stack's outputs; CloudFormation takes letters and digits only."""

from __future__ import annotations

import re


def output_name(node: str, value: str, server: str = "") -> str:
    """Name of the output ``value`` of a node, or of one of its servers."""
    words = [*node.split("-"), *re.split(r"[-_.]", server)]
    return "".join(word[:1].upper() + word[1:] for word in words) + value

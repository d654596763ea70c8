"""Gives the reason of a server's size, where a plan counted from another one than it had."""

from __future__ import annotations

import re

from solver_lambda.documents.units import format_size, parse_size
from solver_lambda.documents.words import reason_words

_HOW_MUCH = re.compile(r"^([\d.,]+ [KMGT]?i?B) (more|less)\b(?! than )")


def reason_with_planned_change(reason: str, from_bytes: int, to_bytes: int) -> str:
    """Return a reason, and whose it is where it begins with another amount than that between the
    sizes that there were. A plan counts from the one before it, which perhaps was never reached;
    its milliseconds are of that amount only."""
    words = reason_words(reason)
    amount = _HOW_MUCH.match(words)
    if amount is None or not from_bytes or not to_bytes:
        return reason
    change = to_bytes - from_bytes
    much = f"{format_size(abs(change))} {'more' if change > 0 else 'less'}"
    if amount[0] == much:
        return reason
    planned_bytes = parse_size(amount[1].replace(",", ""))
    was_bytes = to_bytes - planned_bytes if amount[2] == "more" else to_bytes + planned_bytes
    was = format_size(max(0, was_bytes))
    return f"{amount[0]} than the {was} planned before{words[amount.end() :]}"

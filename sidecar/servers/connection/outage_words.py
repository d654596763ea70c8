"""Says why a server cannot be read, for people."""

from __future__ import annotations

import re

# As the client library tells it, with the command that failed.
_CONNECTING = re.compile(r"(?:[A-Z ]+: )?Error -?\d+ connecting to .+?\. (\w.*)", re.DOTALL)


def outage_words(error: str) -> str:
    """Say why a server cannot be read, for people: without the command, the number and the
    address."""
    found = _CONNECTING.fullmatch(error)
    if found is None:
        return f"cannot be read: {error.rstrip('.')}"
    why = found[1].rstrip(".")
    return f"cannot be reached: {why[0].lower()}{why[1:]}"

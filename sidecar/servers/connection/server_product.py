"""Tells which program answers, where it speaks Redis' protocol and is neither Redis nor Valkey.

Such a program may count, evict and resize otherwise, so it is left alone and named.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# Fields of INFO that only it has; the value is its version.
_VERSIONS = {
    "dragonfly_version": "Dragonfly",
    "garnet_version": "Garnet",
    "kvrocks_version": "Kvrocks",
}
# A word; with spaces it could be a sentence.
_VERSION = re.compile(r"[\w.-]{1,32}", re.ASCII)


def other_product(info: Mapping[str, Any]) -> str | None:
    """Return the name and version of such a program; ``None`` for Redis and Valkey."""
    for field, name in _VERSIONS.items():
        if field in info:
            version = str(info[field])
            return f"{name} {version}" if _VERSION.fullmatch(version) else name
    is_keydb = "keydb" in str(info.get("executable", "")) or info.get("role") == "active-replica"
    return "KeyDB" if is_keydb else None

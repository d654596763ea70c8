"""Lists the rights that looking at keys takes."""

from __future__ import annotations

# Rights, as an ACL calls them; with all keys (``~*``).
NEEDED = ("+info", "+scan", "+object|idletime", "+memory|usage", "+pttl")
# Without the first its settings are taken for Redis' defaults; the last is for several dbs.
WANTED = ("+config|get", "+select")
# From Redis 7.2 and Valkey on; Redis 7.0 does not know such a right.
NO_TOUCH = "+client|no-touch"


def acl_line(username: str = "spreds-look", *, no_touch: bool = True) -> str:
    """Return the smallest user that a look works with, as a command for redis-cli."""
    rights = " ".join([*NEEDED, *WANTED, *([NO_TOUCH] if no_touch else [])])
    return f"ACL SETUSER {username} on >PASSWORD resetkeys ~* -@all {rights}"

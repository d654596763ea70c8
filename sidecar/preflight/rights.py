"""Which commands the sidecar's user needs on a server, and whether it may run them."""

from __future__ import annotations

from collections.abc import Iterator

from sidecar.config.node import ServerConfig
from sidecar.preflight.finding import Finding
from sidecar.servers.redis_server import MissingRightError, RedisServer, ServerRefusedError

# By what an ACL calls them. Without the others the sidecar works, and why they are wanted is said.
NEEDED = ("+info", "+config|get", "+config|set")
WANTED = {
    "+memory|stats": "without it a server of Redis 7.4 or later, or Valkey, that once held very "
    "many keys may be shrunk too far",
    "+client|setname": "without it sidecars on other machines and in other containers are not seen",
    "+client|list": "without it sidecars on other machines and in other containers are not seen",
}
# A knob that the sidecar never changes: setting it to the value that it has sets nothing.
HARMLESS_KNOB = "lfu-log-factor"
DEFAULT_USER = "spreds"
OTHER_NAME = (
    "the command may have another name (rename-command in its file), or be switched off by who "
    "hosts the server: SPREDS needs it as it is"
)


def acl_line(username: str | None = None) -> str:
    """The smallest user that the sidecar works with, as a command for redis-cli."""
    rights = " ".join([*NEEDED, *WANTED])
    return f"ACL SETUSER {username or DEFAULT_USER} on >PASSWORD resetkeys -@all {rights}"


def check_rights(config: ServerConfig, server: RedisServer) -> Iterator[Finding]:
    """Run each command once, in a way that changes nothing: CONFIG SET puts back the value that a
    knob has, and the client's name is that of our own connection.

    Raises:
        ServerDownError: it does not answer any more.
    """
    user = config.username or "default"
    for right in (*NEEDED, *WANTED):
        why = WANTED.get(right)
        try:
            server.try_right(right, HARMLESS_KNOB)
        except MissingRightError as error:
            yield Finding(
                "problem" if why is None else "advice",
                config.name,
                f"user {user} lacks {right} ({error})" + (f"; {why}" if why else ""),
                f"redis-cli ACL SETUSER {user} '{right}', then ACL SAVE or CONFIG REWRITE",
            )
        except ServerRefusedError as error:
            yield Finding(
                "problem" if why is None else "advice",
                config.name,
                f"{right.removeprefix('+').replace('|', ' ').upper()} is refused: {error}",
                OTHER_NAME,
            )

"""Checks which commands the sidecar's user needs on a server, and whether it may run them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sidecar.config.node import ServerConfig
from sidecar.look import look_rights
from sidecar.preflight.finding import Finding
from sidecar.servers.connection.redis_server import RedisServer
from sidecar.servers.connection.server_errors import MissingRightError, ServerRefusedError

# ACLs call them so. The sidecar works without the others, and says why they are wanted.
NEEDED = ("+info", "+config|get", "+config|set")
WANTED = {
    "+memory|stats": "without it a server of Redis 7.4 or later, or Valkey, that once held very "
    "many keys may be shrunk too far",
    "+client|setname": "without it sidecars on other machines and in other containers are not seen",
    "+client|list": "without it sidecars on other machines and in other containers are not seen",
}
# Where keys are looked at, of all keys.
LOOK_NEEDED = tuple(right for right in look_rights.NEEDED if right not in NEEDED)
# A knob that the sidecar never changes: setting it to the value that it has sets nothing.
HARMLESS_KNOB = "lfu-log-factor"
_NO_KEY = "spreds-check"
DEFAULT_USER = "spreds"
OTHER_NAME = (
    "the command may have another name (rename-command in its file), or be switched off by who "
    "hosts the server: SPREDS needs it as it is"
)


def acl_line(username: str | None = None, *, looks: bool = False) -> str:
    """Return the smallest user that the sidecar works with, as a command for redis-cli; ``looks``:
    where it looks at keys."""
    more = (*LOOK_NEEDED, "+select") if looks else ()
    rights, keys = " ".join([*NEEDED, *WANTED, *more]), "~* " if looks else ""
    return f"ACL SETUSER {username or DEFAULT_USER} on >PASSWORD resetkeys {keys}-@all {rights}"


def check_rights(config: ServerConfig, server: RedisServer, *, looks: bool) -> Iterator[Finding]:
    """Run each command once, in a way that changes nothing. CONFIG SET puts back the value that a
    knob has. The client's name is that of our own connection, and no key has the name asked for.

    Raises:
        ServerDownError: it does not answer any more.
    """
    user = config.username or "default"
    for right in (*NEEDED, *WANTED, *(LOOK_NEEDED if looks else ())):
        why, given = WANTED.get(right), f"{right} ~*" if right in LOOK_NEEDED else right
        try:
            _try_right(server, right)
        except MissingRightError as error:
            yield Finding(
                "problem" if why is None else "advice",
                config.name,
                f"user {user} lacks {given} ({error})" + (f"; {why}" if why else ""),
                f"redis-cli ACL SETUSER {user} {_quoted(given)}, then ACL SAVE or CONFIG REWRITE",
            )
        except ServerRefusedError as error:
            yield Finding(
                "problem" if why is None else "advice",
                config.name,
                f"{right.removeprefix('+').replace('|', ' ').upper()} is refused: {error}",
                OTHER_NAME,
            )


def _quoted(rights: str) -> str:
    return " ".join(f"'{right}'" for right in rights.split())


def _try_right(server: RedisServer, right: str) -> None:
    words = right.removeprefix("+").replace("|", " ").upper()
    if words == "CONFIG SET":
        found = server.ask("CONFIG GET", HARMLESS_KNOB)
        if not isinstance(found, Mapping) or HARMLESS_KNOB not in found:
            raise ServerRefusedError(f"CONFIG GET: it tells nothing of {HARMLESS_KNOB}")
        server.set({HARMLESS_KNOB: found[HARMLESS_KNOB]})
    elif words == "CONFIG GET":
        server.ask(words, HARMLESS_KNOB)
    elif words == "SCAN":
        server.ask(words, "0", "COUNT", "1")
    elif words == "CLIENT SETNAME" or right in LOOK_NEEDED:
        server.ask(words, _NO_KEY)
    else:
        server.ask(words)

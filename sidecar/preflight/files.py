"""Whether only the sidecar's user may write where it keeps its files.

Which commands the sidecar's user needs on a server, and whether it may run them.
"""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Iterator

from sidecar.base.private_files import OWN_FOLDER, who_else_may_write
from sidecar.config.node import ServerConfig, SidecarConfig
from sidecar.preflight.finding import Finding
from sidecar.servers.redis_server import RedisServer
from sidecar.servers.server_errors import MissingRightError, ServerRefusedError
from sidecar.state.node_lock import own_folders

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


def check_files(config: SidecarConfig) -> Iterator[Finding]:
    """A finding for each folder of endpoint, state, history and socket.

    Root asks for the sidecar's user: the owner of the folder of its state.
    """
    user = None
    state = config.state_file.parent if config.state_file else None
    if os.geteuid() == 0 and state is not None and state.is_dir():
        user = state.stat().st_uid
    for key, folder in own_folders(config).items():
        if why := who_else_may_write(folder, user):
            what = f"{why}, so others could take its place: 'spreds run' refuses that"
            yield Finding("problem", key, what, OWN_FOLDER)
        elif not folder.is_dir():
            yield Finding("ok", key, f"{folder} is still to be made, where nobody else may write")
        else:
            who = "the sidecar's user" if user is None else _name(user)
            who = "root" if user == 0 else f"{who} and root"
            yield Finding("ok", key, f"only {who} may write to {folder.absolute()}")
    user = os.geteuid() if user is None and os.geteuid() == 0 else user
    if config.operators.group is not None:
        group = grp.getgrnam(config.operators.group).gr_gid
        yield from _check_group("operators.group", group, user)
    if config.sampling.group is not None:
        yield from _check_group("sampling.group", config.sampling.group, user)


def _check_group(key: str, group: int, user: int | None) -> Iterator[Finding]:
    """Whether a socket can be given to its group: nobody may give a file to a group that he is no
    member of."""
    if user == 0:
        return
    groups: list[int] = [os.getegid(), *os.getgroups()]
    if user is not None:
        account = pwd.getpwuid(user)
        groups = os.getgrouplist(account.pw_name, account.pw_gid)
    if group not in groups:
        me = _name(os.geteuid() if user is None else user)
        yield Finding(
            "problem",
            key,
            f"{me} is no member of {group_name(group)}, so the socket cannot be given to it",
            f"usermod -aG {group_name(group)} {me}, and start the sidecar anew",
        )


def group_name(group: int) -> str:
    """Or its number, where it has none."""
    try:
        return grp.getgrgid(group).gr_name
    except KeyError:
        return str(group)


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"uid {user}"

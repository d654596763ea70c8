"""Whether only the sidecar's user may write where it keeps its files."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Iterator

from sidecar.base.private_files import OWN_FOLDER, who_else_may_write
from sidecar.config.node import SidecarConfig
from sidecar.preflight.finding import Finding
from sidecar.state.node_lock import own_folders


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

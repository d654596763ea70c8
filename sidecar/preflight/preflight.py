"""Looks at all that ``spreds check --connect`` checks."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Iterator
from pathlib import Path

from sidecar.base.private_files import OWN_FOLDER, who_else_may_write
from sidecar.config.addresses import shown_url
from sidecar.config.controller_config import ControllerConfig
from sidecar.config.links import links
from sidecar.config.node import SidecarConfig
from sidecar.controllers.solver_service import ServiceError, SolverService
from sidecar.preflight.cgroups import check_cgroups
from sidecar.preflight.cloud import check_cloud
from sidecar.preflight.endpoint import (
    check_endpoint,
    check_taken_by,
    check_way_for,
    server_process,
)
from sidecar.preflight.finding import Finding
from sidecar.preflight.listeners import check_listen
from sidecar.preflight.machine import check_machine, check_sums
from sidecar.preflight.servers import check_servers, check_taken, tcp_backlog
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.state.node_lock import is_locked, lock_paths, locked_by, own_folders
from solver_lambda.documents.keys import settings_prefix


def check_files(config: SidecarConfig) -> Iterator[Finding]:
    """Check whether only the sidecar's user may write to the folders of endpoint, state, history
    and socket: a finding for each.

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
    yield from _check_disk(config, user)
    user = os.geteuid() if user is None and os.geteuid() == 0 else user
    if config.operators.group is not None:
        group = grp.getgrnam(config.operators.group).gr_gid
        yield from _check_group("operators.group", group, user)
    if config.sampling.group is not None:
        yield from _check_group("sampling.group", config.sampling.group, user)


def _check_disk(config: SidecarConfig, user: int | None) -> Iterator[Finding]:
    """Check whether whoever sets a team's wishes can fill the disk of the state file."""
    documents, state = config.controller.folder, config.state_file
    if documents is None or state is None:
        return
    settings = documents / settings_prefix(config.node)
    try:
        is_same = settings.stat().st_dev == state.parent.stat().st_dev
    except OSError:
        return  # nobody writes there yet
    if is_same and (why := who_else_may_write(settings, user)):
        yield Finding(
            "advice",
            "state_file",
            f"{why}, and can fill the disk that {state} lies on: orders given then are forgotten "
            "by a restart",
            f"a file system of its own for {settings.parent}, if its writers are not trusted",
        )


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
    """Return a group's name, or its number where it has none."""
    try:
        return grp.getgrgid(group).gr_name
    except KeyError:
        return str(group)


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"uid {user}"


# Whether the service that makes the plans is there and believes the sidecar.
_KEY = "controller.url"


def check_service(controller: ControllerConfig) -> Iterator[Finding]:
    """Asks it once, if there is one."""
    config = controller.service
    if config is None or controller.kind == "embedded":
        return
    try:
        SolverService(config, controller.plan_deadline_seconds).look()
    except ServiceError as error:
        remedy = "start it (python -m solver_lambda serve), or mend the address"
        if error.status in (401, 403):
            verb = "mend" if config.token is not None else "set"
            remedy = f"{verb} controller.token_file or token_env: the service's SPREDS_TOKEN"
            if error.status == 403:
                verb = "mend" if config.key is not None else "set"
                remedy = f"{verb} controller.key_file or key_env: the service's SPREDS_KEY"
        yield Finding("problem", _KEY, str(error), remedy)
        return
    yield Finding("ok", _KEY, f"{shown_url(config.url)} answers")


def preflight(config: SidecarConfig) -> list[Finding]:
    """Return what was found, in the order of servers, addresses and machine."""
    readings: dict[str, ServerReading] = {}
    findings = list(check_servers(config, readings))
    process = process_of(config) if is_locked(config) else None
    findings += [*check_taken(config, readings, process is not None), *check_sums(config, readings)]
    findings += check_files(config)
    findings += check_listen(config.operators.listen, process)
    findings += [
        Finding("advice" if link.is_open else "ok", f"link {link.name}", link.how)
        for link in links(config)
    ]
    findings += check_service(config.controller)
    findings += check_cloud(config.node, config.controller)
    endpoint = config.sampling.endpoint
    findings += check_endpoint(endpoint, process)
    processes: dict[str, Path] = {}
    for name, reading in readings.items():
        findings += check_taken_by(name, reading, endpoint)
        server = server_process(name, reading.process_id) if reading.process_id else None
        if server is not None:
            processes[name] = Path(f"/proc/{reading.process_id}")
        if server is None or reading.is_looked_at:  # which sends nothing
            continue
        if (obstacle := check_way_for(server, endpoint, config.sampling.group)) is not None:
            findings.append(obstacle)
    findings += check_cgroups(config.memory, config.servers, processes)
    on_tcp = [
        tcp_backlog(readings[server.name])
        for server in config.servers
        if server.name in readings and not server.url.startswith("unix:")
    ]
    findings += check_machine(
        config.memory.budget_bytes,
        max(on_tcp, default=None),
        share=str(config.memory.budget) if config.memory.budget_share is not None else "",
        servers=list(readings.values()),
    )
    return findings


def process_of(config: SidecarConfig) -> int:
    """Return the process of the sidecar that runs with this configuration; 0: its lock cannot be
    read."""
    try:
        text = locked_by(next(iter(lock_paths(config).values())))
    except OSError:
        return 0
    return int(text or 0)

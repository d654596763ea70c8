"""Finds the running sidecar of a node's file, for the commands."""

from __future__ import annotations

import getpass
import os
import re
import sys
from pathlib import Path
from typing import Any

from sidecar.config.node import SidecarConfig, load_config
from sidecar.config.operators import own_socket
from sidecar.control.client import SidecarClient, SidecarSilentError
from solver_lambda.documents.reader import DocumentError
from solver_lambda.http.message import user_of

# Entries of the history that the sidecar is asked for, where its file cannot be read.
FEW = 500


def client_of(config: SidecarConfig) -> SidecarClient:
    """Return a client of the sidecar that runs with this configuration. Raises
    SidecarSilentError."""
    path = config.operators.socket
    if path is None:
        raise SidecarSilentError(
            "a sidecar without state_file cannot be asked: its socket would lie beside that file"
        )
    return SidecarClient(
        path, runs=lambda: is_running(config), runs_as=lambda user: _runs_as(config, user)
    )


def status_despite(file: str) -> dict[str, Any]:
    """Return the status document, also of a sidecar that goes on with its file as it was. Raises
    DocumentError, SidecarSilentError."""
    try:
        config = load_config(file, secrets=False)
    except DocumentError as error:
        return client_despite(file, error).status()
    return status_of(config)


def client_despite(file: str, error: DocumentError) -> SidecarClient:
    """Return a client for a sidecar whose file has become invalid since it was read. Only the
    socket's path is taken from that file. Raises the error if it names none."""
    try:
        text = (path := Path(file)).read_text("utf-8", errors="replace")
    except OSError:
        raise error from None

    def said(key: str) -> Path | None:
        found = re.search(rf'^\s*{key}\s*=\s*"([^"\n]+)"', text, re.MULTILINE)
        return path.parent / found[1] if found else None

    state_file = said("state_file")
    socket = said("socket") or (own_socket(state_file) if state_file else None)
    if socket is None or not socket.is_socket():
        raise error
    print(
        f"spreds: {error}; the sidecar that runs goes on with the file as it was", file=sys.stderr
    )
    return SidecarClient(socket, runs_as=lambda user: _is_users(state_file, user))


def _runs_as(config: SidecarConfig, user: int) -> bool:
    return _is_users(config.state_file, user)


def _is_users(state_file: Path | None, user: int) -> bool:
    """Whether the sidecar may run as a user: root, who asks, or whose alone its folder is."""
    if user in (0, os.geteuid()) or state_file is None:
        return True
    from sidecar.base.private_files import whose_alone

    return whose_alone(state_file.parent) == user


def is_running(config: SidecarConfig) -> bool:
    """Whether a sidecar runs with this configuration."""
    # Imported here: only who finds no socket needs it.
    from sidecar.state.node_lock import is_locked

    return is_locked(config)


def status_of(config: SidecarConfig) -> dict[str, Any]:
    """Return the sidecar's status document. Raises SidecarSilentError, or DocumentError where it is
    another node's."""
    told = client_of(config).status()
    if told["node"] != config.node:
        raise DocumentError(
            f"this file is of node {config.node}, and the sidecar that answers is of node "
            f"{told['node']}: both files name the same state_file; give each node its own"
        )
    return told


def check_whose_files(config: SidecarConfig) -> None:
    """Check the owner: what lies beside the state file may be anybody's. Raises DocumentError."""
    from sidecar.base.private_files import whose_alone

    if config.state_file is None:
        return
    folder = config.state_file.parent
    try:
        owner = folder.stat().st_uid
    except OSError:
        return  # there is nothing to read
    if owner not in (0, os.geteuid()) and whose_alone(folder) is None:
        raise DocumentError(
            f"state_file: {folder} belongs to {user_of(owner)}, who may have made it himself, so "
            "nothing in it is believed: take a folder that root made for the sidecar's user"
        )


def with_known_listeners(config: SidecarConfig) -> SidecarConfig:
    """Return the same, with those who the sidecar knows to listen at the servers' addresses. It
    says so itself to who may not read its state. If that is not to be had either, root and we are
    believed. Raises DocumentError."""
    from sidecar.servers.connection.known_listeners import listened_place, with_known
    from sidecar.state.state_store import load_state

    check_whose_files(config)
    path = config.state_file
    if path is None:
        return config
    if os.access(path, os.R_OK):
        return with_known(config, load_state(path).listeners)
    try:
        told = {one["name"]: one["listeners"] for one in status_of(config)["servers"]}
    except SidecarSilentError:
        if _is_absent(path):
            return config
        told = {}
    known = {listened_place(one.url): told.get(one.name) or () for one in config.servers}
    return with_known(config, known)


def _is_absent(path: Path) -> bool:
    """Whether no sidecar has kept a state there; a folder that we may not look into may have it."""
    try:
        path.stat()
    except OSError as error:
        return isinstance(error, FileNotFoundError)
    return False


def history_of(config: SidecarConfig) -> list[dict[str, Any]]:
    """Return all entries of the history's file. Who may speak to the running sidecar and not read
    its files gets the last ones from it. Raises DocumentError, OSError."""
    from sidecar.control.history import history_path, read_history

    if config.state_file is None:
        return []
    check_whose_files(config)
    try:
        return read_history(history_path(config.state_file))
    except PermissionError:
        return client_of(config).history(FEW)


def who() -> str:
    """Say whom orders and settings come from; a user without a name has a number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"

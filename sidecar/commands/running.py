"""The running sidecar of a node's file, for the commands."""

from __future__ import annotations

import getpass
import os
from typing import Any

from sidecar.config.node import SidecarConfig
from sidecar.control.client import SidecarClient, SidecarSilentError


def client_of(config: SidecarConfig) -> SidecarClient:
    """For the sidecar that runs with this configuration. Raises SidecarSilentError."""
    path = config.operators.socket
    if path is None:
        raise SidecarSilentError(
            "a sidecar without state_file cannot be asked: its socket would lie beside that file"
        )
    return SidecarClient(
        path, runs=lambda: _runs(config), runs_as=lambda user: _runs_as(config, user)
    )


def _runs_as(config: SidecarConfig, user: int) -> bool:
    """Whether the sidecar may run as a user: root, who asks, or whose alone its folder is."""
    if user in (0, os.geteuid()) or config.state_file is None:
        return True
    from sidecar.base.private_files import whose_alone

    return whose_alone(config.state_file.parent) == user


def _runs(config: SidecarConfig) -> bool:
    # Imported here: only who finds no socket needs it.
    from sidecar.state.node_lock import is_locked

    return is_locked(config)


def status_of(config: SidecarConfig) -> dict[str, Any]:
    """Its status document. Raises SidecarSilentError."""
    return client_of(config).status()


def history_of(config: SidecarConfig) -> list[dict[str, Any]]:
    """All entries of the history's file; the last ones, from the running sidecar, for who may speak
    to it and not read its files. Raises OSError."""
    from sidecar.control.history import history_path, read_history

    if config.state_file is None:
        return []
    try:
        return read_history(history_path(config.state_file))
    except PermissionError:
        return client_of(config).history(500)


def who() -> str:
    """Whom orders and settings come from; a user without a name has a number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"

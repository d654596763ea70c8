"""Whether only the sidecar's user may write where it keeps its files."""

from __future__ import annotations

from collections.abc import Iterator

from sidecar.base.private_files import who_else_may_write
from sidecar.config.node import SidecarConfig
from sidecar.preflight.finding import Finding
from sidecar.state.node_lock import OWN_FOLDER, own_folders


def check_files(config: SidecarConfig) -> Iterator[Finding]:
    """A finding for each folder of endpoint, state, history and socket."""
    for key, folder in own_folders(config).items():
        if why := who_else_may_write(folder):
            what = f"{why}, so others could take its place: 'spreds run' refuses that"
            yield Finding("problem", key, what, OWN_FOLDER)
        else:
            yield Finding("ok", key, f"only the sidecar's user and root may write to {folder}")

"""Where a team's settings lie, as a command line says."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from sidecar.config.node import ServerConfig, load_config
from sidecar.config.settings_limits import SettingsLimits
from sidecar.storage.configured_stores import make_bucket, make_settings_store
from sidecar.storage.store import BucketStore, FolderStore
from solver_lambda.documents.keys import NODE_PATTERN, SERVER_PATTERN, settings_key
from solver_lambda.documents.reader import DocumentError

_NO_PLACE = (
    "say where the settings lie: --config FILE, or --node NODE with --folder FOLDER, or --node "
    "NODE with --bucket BUCKET and --region REGION"
)


@dataclass(frozen=True)
class SettingsPlace:
    """Where settings lie, and what the operator says if the node's file is at hand."""

    store: FolderStore | BucketStore
    node: str
    limits: SettingsLimits | None = None
    server: ServerConfig | None = None
    state_file: Path | None = None


def place_of(options: argparse.Namespace) -> SettingsPlace:
    """Raises DocumentError: it is not said, or makes no sense."""
    if not SERVER_PATTERN.fullmatch(options.server):
        raise DocumentError(f"SERVER {options.server!r} is not a server's name")
    if options.config:
        config = load_config(options.config)
        servers = {server.name: server for server in config.servers}
        if options.server not in servers:
            raise DocumentError(
                f"{options.config}: has no server {options.server!r}, only {', '.join(servers)}"
            )
        store = make_settings_store(config.controller)
        if store is None:
            raise DocumentError(
                f"{options.config}: controller has no store for settings: give it a folder"
            )
        server = servers[options.server]
        return SettingsPlace(store, config.node, config.limits, server, config.state_file)
    if not options.node:
        raise DocumentError(_NO_PLACE)
    if not NODE_PATTERN.fullmatch(options.node):
        raise DocumentError(f"--node {options.node!r} is not a node's name; or give --config")
    if options.folder and options.bucket:
        raise DocumentError("--folder and --bucket: settings lie in one of them")
    if options.folder:
        _check_folder(options.folder, options.node)
        return SettingsPlace(FolderStore(options.folder), options.node)
    if not options.bucket or not options.region:
        raise DocumentError(_NO_PLACE)
    return SettingsPlace(
        make_bucket(options.bucket, options.region, options.endpoint_url), options.node
    )


def _check_folder(folder: Path, node: str) -> None:
    """A typing error must not make a folder that no sidecar reads. Who may not look into one is
    told by the store."""
    below = folder / settings_key(node, "any")
    for path in (folder, below.parent):
        try:
            path.stat()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise DocumentError(
                f"--folder {folder}: there is no {path}, so no sidecar of a node {node!r} reads "
                "settings there; --config makes the folders of its node"
            ) from error
        except OSError:
            return

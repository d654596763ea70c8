"""Names for what this folder's fixtures are, as tests take them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sidecar.config.node import SidecarConfig
from tests.sidecar.actuated_node import ActuatedNode
from workloads.local_server import LocalServer

StartServer = Callable[..., LocalServer]
WriteNode = Callable[..., Path]
LoadNode = Callable[..., SidecarConfig]
MakeNode = Callable[..., ActuatedNode]
Servers = dict[str, LocalServer]

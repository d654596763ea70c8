"""Tells which users are known to listen at a server's address. Who takes it while the server is
down is asked for nothing."""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit

from sidecar.config.addresses import REDIS_PORT
from sidecar.config.listeners import FoundListeners
from sidecar.config.node import ServerConfig, SidecarConfig
from sidecar.state.state_store import StateStore
from solver_lambda.http.message import uid_of, user_of


class StoredListeners:
    """Remembers with the sidecar's state who listened first at one address."""

    def __init__(self, store: StateStore, url: str) -> None:
        self._store, self._place = store, listened_place(url)

    @property
    def users(self) -> Collection[int] | None:
        """Return their numbers; ``None``: nobody has been seen there."""
        return self._store.now.listeners.get(self._place)

    def learn(self, users: Collection[int]) -> None:
        """Remember those that were found there first."""
        with self._store.update() as state:
            state.listeners = state.listeners | {self._place: tuple(sorted(users))}


def listened_place(url: str) -> str:
    """Return the same for all spellings of an address; of a socket the path as it is written: where
    a link leads may be a stranger's choice."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return os.path.normpath(unquote(parts.path))
    host = unquote(parts.hostname or "localhost").lower()
    host = "127.0.0.1" if host == "localhost" else host
    with suppress(OSError):
        host = socket.inet_ntoa(socket.inet_aton(host))  # as 127.1
    with suppress(ValueError):
        address = ip_address(host)
        host = str(getattr(address, "ipv4_mapped", None) or address)
    return f"{host}:{parts.port or REDIS_PORT}"


def with_stored(server: ServerConfig, store: StateStore) -> ServerConfig:
    """Return the server's configuration with the listeners that the state file knows."""
    return replace(server, listeners=StoredListeners(store, server.url))


def with_known(config: SidecarConfig, listeners: Mapping[str, Collection[int]]) -> SidecarConfig:
    """Return the configuration with known listeners, for a command: like the sidecar, it sends
    nothing to others."""
    servers = (
        replace(one, listeners=FoundListeners(listeners.get(listened_place(one.url))))
        for one in config.servers
    )
    return replace(config, servers=tuple(servers))


def believe(store: StateStore, server: ServerConfig | None, listener: str, uid: int | None) -> str:
    """Believe the user ``listener``, by name or number, at a server's address from now on, and
    nobody else but root and us. Return that, for people. ``uid``: whose order it is.

    Raises:
        ValueError: he may not say so, or there is no such user or server.
    """
    if server is None:
        raise ValueError("a listener is one of a server of this node: name it")
    if uid not in (0, os.geteuid()):
        raise ValueError(
            f"who listens for {server.name} gets its password: only root and the sidecar's own "
            "user may say who that is, over the socket"
        )
    user = uid_of(listener)
    StoredListeners(store, server.url).learn({user})
    return f"{user_of(user)} is believed at {server.name}'s address from now on"

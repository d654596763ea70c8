"""Which users are known to listen at a server's address: who takes it while the server is down is
asked for nothing."""

from __future__ import annotations

import socket
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

from sidecar.config.addresses import place_of
from sidecar.config.listeners import FoundListeners
from sidecar.config.node import ServerConfig, SidecarConfig
from sidecar.state.state_store import StateStore
from solver_lambda.http.listening_sockets import addresses_of, listening_users


class StoredListeners:
    """Of one address, for the sidecar: remembered with its state, from the first time on."""

    def __init__(self, store: StateStore, url: str) -> None:
        self._store, self._place = store, listened_place(url)

    @property
    def users(self) -> Collection[int] | None:
        """Their numbers; ``None``: nobody has been seen there."""
        return self._store.now.listeners.get(self._place)

    def learn(self, users: Collection[int]) -> None:
        """Remember those that were found there first."""
        with self._store.update() as state:
            state.listeners = state.listeners | {self._place: tuple(sorted(users))}


def listened_place(url: str) -> str:
    """The same for all spellings of an address."""
    host, port = place_of(url)
    if not port:
        return host
    with suppress(OSError):
        host = socket.inet_ntoa(socket.inet_aton(host))  # as 127.1
    with suppress(ValueError):
        address = ip_address(host)
        host = str(getattr(address, "ipv4_mapped", None) or address)
    return f"{host}:{port}"


def with_stored(server: ServerConfig, store: StateStore) -> ServerConfig:
    """The same, for the sidecar."""
    return replace(server, listeners=StoredListeners(store, server.url))


def with_known(config: SidecarConfig, listeners: Mapping[str, Collection[int]]) -> SidecarConfig:
    """The same, for a command, that sends nothing to whom the sidecar would send nothing."""
    servers = (
        replace(one, listeners=FoundListeners(listeners.get(listened_place(one.url))))
        for one in config.servers
    )
    return replace(config, servers=tuple(servers))


def believe_listeners(store: StateStore, url: str) -> Collection[int]:
    """Those who listen at this address now are believed; who that is.

    Raises:
        ValueError: nobody listens there.
        OSError: that cannot be told.
    """
    users = _listening_users(url)
    if not users:
        raise ValueError("nobody listens there now")
    StoredListeners(store, url).learn(users)
    return users


def _listening_users(url: str) -> Collection[int]:
    """Of an address of this machine. Raises OSError."""
    host, port = place_of(url)
    if not port:
        return {Path(host).stat().st_uid}
    return listening_users(addresses_of(host, port), port)

"""Which users are known to listen at a server's address: who takes it while the server is down is
asked for nothing."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from sidecar.config.node import ServerConfig, SidecarConfig
from sidecar.state.sidecar_state import SidecarState
from sidecar.state.state_store import StateStore


class StoredListeners:
    """Of one address, for the sidecar: remembered with its state, from the first time on."""

    def __init__(self, store: StateStore, url: str) -> None:
        self._store, self._url = store, url

    @property
    def users(self) -> Collection[int] | None:
        """Their numbers; ``None``: nobody has been seen there."""
        return self._store.now.listeners.get(self._url)

    def learn(self, users: Collection[int]) -> None:
        """Remember those that were found there first."""
        with self._store.update() as state:
            state.listeners = state.listeners | {self._url: tuple(sorted(users))}


class FoundListeners:
    """Of one address, for a command: those that the sidecar knows, or that are found first."""

    def __init__(self, users: Collection[int] | None) -> None:
        self.users = users

    def learn(self, users: Collection[int]) -> None:
        """For this command's other connections."""
        self.users = users


def with_stored(server: ServerConfig, store: StateStore) -> ServerConfig:
    """The same, for the sidecar."""
    return replace(server, listeners=StoredListeners(store, server.url))


def with_known(config: SidecarConfig, state: SidecarState) -> SidecarConfig:
    """The same, for a command, that sends nothing to whom the sidecar would send nothing."""
    servers = (
        replace(one, listeners=FoundListeners(state.listeners.get(one.url)))
        for one in config.servers
    )
    return replace(config, servers=tuple(servers))


def forget_listeners(store: StateStore, url: str) -> bool:
    """Whoever listens at this address next is believed; whether anybody was known."""
    if url not in store.now.listeners:
        return False
    with store.update() as state:
        state.listeners = {place: who for place, who in state.listeners.items() if place != url}
    return True

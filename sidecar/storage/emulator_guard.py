"""Checks who has our connection to an emulator of AWS on this machine. Any local user may listen at
its port while it is down. He would be sent observations, and believed for plans."""

from __future__ import annotations

import http.client
import os
import socket
import urllib.request
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

from botocore.exceptions import BotoCoreError

from sidecar.storage.emulator_listeners import believed_listeners
from solver_lambda.http.listening_sockets import (
    accepted_ends,
    is_of_this_machine,
    listening_users,
)
from solver_lambda.http.message import users_in_words


class StrangerError(BotoCoreError):  # type: ignore[misc]
    """Nothing was sent to who has the connection."""

    fmt = "{words}"


def guard(client: Any, endpoint_url: str) -> None:
    """Have each connection in plain text to an address of this machine checked before anything is
    sent on it. Only root, we, and those of ``believe_listeners`` are believed.

    A call raises StrangerError then.
    """
    classes = client._endpoint.http_session._pool_classes_by_scheme
    classes["http"] = _guarded_pools(classes["http"], _believed_at(endpoint_url))


class GuardedHandler(urllib.request.HTTPHandler):
    """Opens addresses of an emulator likewise. Raises URLError."""

    def __init__(self, endpoint_url: str) -> None:
        super().__init__()
        self._believed = _believed_at(endpoint_url)

    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._connection, request)

    def _connection(self, host: str, /, **how: Any) -> http.client.HTTPConnection:
        made = http.client.HTTPConnection(host, **how)
        connect: Any = made.connect

        def connect_guarded() -> None:
            connect()
            try:
                _checked(made.sock, self._believed)
            except StrangerError as error:
                raise OSError(error) from error

        made.connect = connect_guarded  # type: ignore[method-assign]
        return made


def _believed_at(endpoint_url: str) -> set[int]:
    return {0, os.geteuid(), *believed_listeners(endpoint_url)}


def _guarded_pools(make_pool: Callable[..., Any], believed: set[int]) -> Callable[..., Any]:
    def pool(*words: Any, **how: Any) -> Any:
        made = make_pool(*words, **how)
        connection_class = made.ConnectionCls

        def connection(*words: Any, **how: Any) -> Any:
            made = connection_class(*words, **how)
            connect = made._new_conn
            made._new_conn = lambda: _checked(connect(), believed)
            return made

        made.ConnectionCls = connection
        return made

    return pool


def _checked(connected: socket.socket, believed: set[int]) -> socket.socket:
    """Return the connection if no stranger has it. Raises StrangerError."""
    try:
        _refuse_stranger(connected, believed)
    except StrangerError:
        connected.close()
        raise
    return connected


def _refuse_stranger(connected: socket.socket, believed: set[int]) -> None:
    name, port, *_ = connected.getpeername()
    address = ip_address(name.partition("%")[0])
    if not is_of_this_machine(connected):
        return
    try:
        users = listening_users((address,), port)
        if users <= believed:
            accepted = accepted_ends(connected, connected.gettimeout() or 0)
            users = {one.user_id for one in accepted}
    except OSError as error:
        raise StrangerError(words=f"controller.endpoint_url: {address}:{port}: {error}") from error
    if users and users <= believed:
        return
    who = users_in_words(users - believed) or "somebody who cannot be seen"
    raise StrangerError(
        words=f"controller.endpoint_url: {who} has {address}:{port}, and nothing was sent: only "
        "root and our user are believed, and by a sidecar who listened there when it started; if "
        "he is the emulator's, run this as its user"
    )

"""Who has the port of a solver on this machine: any local user may take it while it is down, or
have our connection while it listens."""

from __future__ import annotations

import os
import socket
from ipaddress import ip_address

from solver_lambda.http.listening_sockets import (
    accepted_ends,
    is_of_this_machine,
    listening_users,
)
from solver_lambda.http.message import users_in_words


class StrangerError(Exception):
    """Another one than root and our user; words for people."""


def check_listener(connected: socket.socket, wait_seconds: float) -> None:
    """Of a connection in plain text, before anything is sent; waits so long until it is accepted.

    Raises:
        StrangerError: nothing may be sent.
        OSError: nobody accepts it, or the kernel does not tell.
    """
    if not is_of_this_machine(connected):
        return
    host, port, *_ = connected.getpeername()
    address = ip_address(host)
    _check(listening_users((address,), port), "there listens")
    # Nor to whom nobody can see: a port may be forwarded, or have had a stranger a moment ago.
    _check({end.user_id for end in accepted_ends(connected, wait_seconds)}, "our connection has")


def _check(users: set[int], have_it: str) -> None:
    if not users or users - {0, os.geteuid()}:
        who = users_in_words(users) or "nobody who can be seen"
        raise StrangerError(
            f"{have_it} {who}, not our user or root, and nothing was sent: with "
            "controller.key_file and no token, nobody else's plan is believed"
        )

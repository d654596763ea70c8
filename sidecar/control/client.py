"""Speaks to a running sidecar: HTTP over its Unix socket."""

from __future__ import annotations

import grp
import json
import os
import urllib.parse
from collections.abc import Callable
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from sidecar.base.kernel_waits import unix_stream
from sidecar.control.order import Order, OrderRefusedError
from solver_lambda.http.message import user_of
from solver_lambda.http.peer import peer_credentials

# As in sidecar/config/addresses.py, which knows this folder.
MOST_SOCKET_PATH_BYTES = 107
# An order may wait for a server that hangs.
LIMIT_SECONDS = 10.0
MOST_ANSWER_BYTES = 64 * 1024 * 1024


def _anybody(_user: int) -> bool:
    return True


class SidecarSilentError(OSError):
    """The sidecar cannot be spoken to; one sentence says why."""


class SidecarNotRunningError(SidecarSilentError):
    """Nobody listens at its socket."""


class SidecarForbiddenError(SidecarSilentError):
    """It listens, but not to us."""


class SidecarClient:
    """Asks the sidecar whose socket this is. Every method raises ``SidecarSilentError``."""

    def __init__(
        self,
        path: Path,
        limit_seconds: float = LIMIT_SECONDS,
        runs: Callable[[], bool] = lambda: False,
        runs_as: Callable[[int], bool] = _anybody,
    ) -> None:
        """Take the socket's ``path``. ``runs``: whether it is known to run, asked if there is no
        socket. ``runs_as``: whether it may run as a user: nobody else is told or believed
        anything."""
        self._path = path
        self._limit_seconds = limit_seconds
        self._runs, self._runs_as = runs, runs_as

    def status(self) -> dict[str, Any]:
        """Return the status document."""
        return self._table(self._ask("GET", "/api/status"))

    def history(self, limit: int, before: int | None = None) -> list[dict[str, Any]]:
        """Return a page of the history, the oldest entry first: those before the one with the
        number ``before``, or the last ones. It may have fewer than ``limit``; if it is empty there
        are no earlier ones."""
        query = urllib.parse.urlencode({"limit": limit, **({"before": before} if before else {})})
        status, answer = self._ask("GET", f"/api/history?{query}")
        if status != 200 or not isinstance(answer, list):
            raise self._puzzled(status)
        return answer

    def order(self, order: Order) -> str:
        """Give an order and return what was done.

        Raises:
            OrderRefusedError: it was not.
        """
        # Without a name of its own it comes from the user whom the socket knows.
        fields = {key: value for key, value in order.to_json().items() if value not in (None, "")}
        status, answer = self._ask("POST", "/api/orders", fields)
        if not isinstance(answer, dict):
            raise self._puzzled(status)
        if status >= 400:
            raise OrderRefusedError(str(answer.get("error", f"refused with status {status}")))
        return str(answer.get("done", "done"))

    def _table(self, answered: tuple[int, Any]) -> dict[str, Any]:
        status, answer = answered
        if status != 200 or not isinstance(answer, dict):
            raise self._puzzled(status)
        return answer

    def _puzzled(self, status: int) -> SidecarSilentError:
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            return SidecarSilentError(f"{self._path}: the sidecar has too much to do to answer now")
        return SidecarSilentError(
            f"{self._path}: whoever listens there is no sidecar of this version (status {status})"
        )

    def _ask(self, method: str, target: str, body: object = None) -> tuple[int, Any]:
        connection = _UnixConnection(self._path, self._limit_seconds, self._runs_as)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        text = None if body is None else json.dumps(body)
        try:
            connection.request(method, target, text, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read(MOST_ANSWER_BYTES))
        except (FileNotFoundError, ConnectionRefusedError) as error:
            if self._runs():
                raise SidecarSilentError(
                    f"the sidecar runs, but nobody listens at {self._path}: it is starting, or its "
                    "socket was removed, which it makes again within a minute"
                ) from error
            raise SidecarNotRunningError(
                f"the sidecar is not running: nobody listens at {self._path}; `spreds run FILE` or "
                "`systemctl start spreds` starts it"
            ) from error
        except PermissionError as error:
            raise SidecarForbiddenError(_forbidden(self._path)) from error
        except TimeoutError as error:
            raise SidecarSilentError(
                f"the sidecar does not answer within {self._limit_seconds:g} s at {self._path}"
            ) from error
        except (OSError, HTTPException, ValueError) as error:
            raise SidecarSilentError(
                f"{self._path}: the sidecar cannot be asked: {error}"
            ) from error
        finally:
            connection.close()


class _UnixConnection(HTTPConnection):
    def __init__(
        self, path: Path, limit_seconds: float, runs_as: Callable[[int], bool] = _anybody
    ) -> None:
        super().__init__("localhost", timeout=limit_seconds)
        self._path, self._runs_as = path, runs_as

    def connect(self) -> None:
        self._connect()
        _, user = peer_credentials(self.sock)
        if not self._runs_as(user):
            raise ConnectionAbortedError(
                f"{user_of(user)} listens there, and was told nothing: only root, you, or the user "
                "whose alone the folder of state_file is may be the sidecar"
            )

    def _connect(self) -> None:
        self.sock = unix_stream()
        self.sock.settimeout(self.timeout)
        if len(os.fsencode(self._path)) <= MOST_SOCKET_PATH_BYTES:
            self.sock.connect(os.fspath(self._path))
            return
        folder = os.open(self._path.parent, os.O_PATH | os.O_DIRECTORY)
        try:
            self.sock.connect(f"/proc/self/fd/{folder}/{self._path.name}")
        finally:
            os.close(folder)


def _forbidden(path: Path) -> str:
    try:
        number = path.stat().st_gid
    except OSError:
        return f"you may not speak to the sidecar: you may not look into the folder of {path}"
    try:
        group = grp.getgrgid(number).gr_name
    except KeyError:
        group = str(number)
    return f"you may not speak to the sidecar: its socket {path} belongs to group {group}"

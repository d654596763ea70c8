"""Between the sidecar and one server: passes all on, or is slow, mute, or a liar."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

RECEIVE_BYTES = 1 << 16
LATE_SECONDS = 0.7
IS_SET = b"CONFIG\r\n$3\r\nSET\r\n"


class Proxy:
    """Stands before a server, on a Unix socket; a context manager.

    Attributes:
        delay_seconds: that each reply takes longer.
        is_mute: commands reach the server, and no reply comes back.
        lie: what comes back in place of a reply, if it returns something.
        at_set: what befalls the CONFIG SET of this number, of those from now on, counted from 1:
            ``refused`` | ``lost`` (it does not arrive, the connection ends) | ``cut`` (it arrives,
            the connection ends) | ``hangs`` (it arrives, no reply) | ``late``. 0: each of them.
        sets: CONFIG SETs since ``at_set`` was set.
        done: which of these faults have come about.
    """

    def __init__(self, path: Path, server: Path) -> None:
        self.path = path
        self._server = server
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(64)
        self._healed = threading.Event()
        self._lines: set[_Line] = set()
        self.sets = 0
        self.done: list[str] = []
        self._set_faults: dict[int, str] = {}
        self.heal()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def at_set(self) -> dict[int, str]:
        return self._set_faults

    @at_set.setter
    def at_set(self, faults: dict[int, str]) -> None:
        self.sets = 0
        self._set_faults = faults
        self._healed.clear()

    def heal(self) -> None:
        """Pass all on, from now on."""
        self.delay_seconds = 0.0
        self.is_mute = False
        self.lie: Callable[[bytes], bytes | None] = lambda _command: None
        self._set_faults = {}
        self._healed.set()

    def hurt(self) -> None:
        """Call after setting ``delay_seconds`` or ``is_mute``."""
        self._healed.clear()

    def close(self) -> None:
        """Hang up."""
        self._healed.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for line in list(self._lines):
            line.hang_up()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server:
            line = _Line(client, server)
            self._lines.add(line)
            try:
                server.connect(str(self._server))
                threading.Thread(target=self._answers, args=(line,), daemon=True).start()
                while command := client.recv(RECEIVE_BYTES):
                    if not self._pass_on(command, line):
                        break
            except OSError:
                pass
            finally:
                self._lines.discard(line)
                line.hang_up()

    def _pass_on(self, command: bytes, line: _Line) -> bool:
        """Whether the connection goes on."""
        if (lie := self.lie(command)) is not None:
            line.client.sendall(lie)
            return True
        fault = self._fault_of(command)
        if fault == "refused":
            line.client.sendall(b"-ERR not now\r\n")
            return True
        if fault == "lost":
            return False
        line.is_mute = line.is_mute or fault in ("cut", "hangs")
        line.late_seconds = LATE_SECONDS if fault == "late" else 0.0
        line.server.sendall(command)
        return fault != "cut"

    def _fault_of(self, command: bytes) -> str | None:
        if IS_SET not in command:
            return None
        self.sets += 1
        fault = self._set_faults.get(self.sets, self._set_faults.get(0))
        if fault:
            self.done.append(fault)
        return fault

    def _answers(self, line: _Line) -> None:
        with suppress(OSError):
            while data := line.server.recv(RECEIVE_BYTES):
                if seconds := self.delay_seconds + line.late_seconds:
                    self._healed.wait(seconds)
                if not (self.is_mute or line.is_mute):
                    line.client.sendall(data)
        with suppress(OSError):
            line.client.shutdown(socket.SHUT_RDWR)


@dataclass(eq=False)
class _Line:
    """Joins the two ends of one connection."""

    client: socket.socket
    server: socket.socket
    is_mute: bool = False
    late_seconds: float = 0.0

    def hang_up(self) -> None:
        for end in (self.client, self.server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

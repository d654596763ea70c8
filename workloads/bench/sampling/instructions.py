"""Instructions that a server executes for one command, counted by callgrind.

Unlike times they do not depend on the machine, nor on what else it is doing. The server's clocks
stand still and its random numbers are fixed, so that no timer runs and its hash tables collide the
same way each time: two counts of one server agree.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import redis

from workloads.preloaded_server import PreloadedServer

Command = tuple[str | bytes | int, ...]

_STEADY = Path(__file__).with_name("steady.c")


def available() -> str | None:
    """None if instructions can be counted here, else why they cannot."""
    for program in ("valgrind", "callgrind_control"):
        if not shutil.which(program):
            return f"{program} is not installed (apt-get install valgrind)"
    return None


class CountedServer(PreloadedServer):
    """A local server under callgrind; ``settings`` as for a local server.

    Counted is all that its main thread executes outside of the kernel, its event loop too; not the
    threads of ZeroMQ.

    Raises:
        RuntimeError: the server did not come up.
        subprocess.CalledProcessError: no C compiler.
    """

    def __init__(self, settings: dict[str, object], binary: Path) -> None:
        callgrind = ["valgrind", "--tool=callgrind", "--toggle-collect=main"]
        super().__init__(
            _STEADY, settings, binary, wrapper=[*callgrind, "--callgrind-out-file=counts.%p"]
        )

    def instructions_per_command(self, commands: Sequence[Command], pipeline: int) -> float:
        """Mean instructions for each of ``commands``, sent ``pipeline`` at a time.

        All of them are sent once before, to warm up.
        """
        connection: redis.Connection = self.client.connection_pool.get_connection()
        try:
            _send(connection, commands, pipeline)
            self._control("-z")
            _send(connection, commands, pipeline)
            before = set(self.folder.glob("counts.*"))
            self._control("-d")
            (dump,) = set(self.folder.glob("counts.*")) - before
        finally:
            self.client.connection_pool.release(connection)
        totals = re.findall(r"^(?:totals|summary): (\d+)", dump.read_text(), re.MULTILINE)
        return int(totals[0]) / len(commands)

    def _control(self, request: str) -> None:
        subprocess.run(
            ["callgrind_control", request, str(self.process.pid)], check=True, capture_output=True
        )


def _send(connection: redis.Connection, commands: Sequence[Command], pipeline: int) -> None:
    for start in range(0, len(commands), pipeline):
        batch = commands[start : start + pipeline]
        packed = connection.pack_commands(batch)  # type: ignore[no-untyped-call]
        connection.send_packed_command([b"".join(packed)], check_health=False)  # type: ignore[no-untyped-call]
        for _ in batch:
            connection.read_response()

"""Instructions that a server executes for one command, counted by callgrind.

Unlike times they do not depend on the machine, nor on what else it is doing.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import redis

from workloads.local_server import LocalServer

# Counted are the functions that serve clients, and what the event loop does around them: not the
# timer, whose share depends on how slow the machine is.
SERVING_FUNCTIONS = ("readQueryFromClient", "beforeSleep", "afterSleep")
WARM_UP_COMMANDS = 512


def available() -> str | None:
    """None if instructions can be counted here, else why they cannot."""
    for program in ("valgrind", "callgrind_control"):
        if not shutil.which(program):
            return f"{program} is not installed (apt-get install valgrind)"
    return None


def _control(*arguments: str) -> None:
    subprocess.run(["callgrind_control", *arguments], check=True, capture_output=True)


class CountedServer(LocalServer):
    """A local server under callgrind; ``settings`` as for a local server."""

    def __init__(self, settings: dict[str, object], binary: Path) -> None:
        super().__init__(
            settings,
            binary,
            wrapper=[
                "valgrind",
                "--tool=callgrind",
                "--callgrind-out-file=counts.%p",
                *(f"--toggle-collect={name}" for name in SERVING_FUNCTIONS),
            ],
        )

    def __enter__(self) -> CountedServer:
        return self

    def instructions_per_command(
        self, commands: list[tuple[str | bytes | int, ...]], pipeline: int, repeat: int
    ) -> float:
        """Mean instructions for each of ``commands``, sent ``pipeline`` at a time.

        All of them are sent ``repeat`` times, after some that only warm up.
        """
        pid = str(self.process.pid)
        self._send(commands, pipeline, max(1, WARM_UP_COMMANDS // len(commands)))
        _control("-z", pid)
        self._send(commands, pipeline, repeat)
        before = set(self.folder.glob("counts.*"))
        _control("-d", pid)
        (dump,) = set(self.folder.glob("counts.*")) - before
        totals = re.findall(r"^(?:totals|summary): (\d+)", dump.read_text(), re.MULTILINE)
        return int(totals[0]) / (len(commands) * repeat)

    def _send(
        self, commands: list[tuple[str | bytes | int, ...]], pipeline: int, repeat: int
    ) -> None:
        connection: redis.Connection = self.client.connection_pool.get_connection()
        try:
            stream = commands * repeat
            for start in range(0, len(stream), pipeline):
                batch = stream[start : start + pipeline]
                packed = connection.pack_commands(batch)  # type: ignore[no-untyped-call]
                connection.send_packed_command([b"".join(packed)], check_health=False)  # type: ignore[no-untyped-call]
                for _ in batch:
                    connection.read_response()
        finally:
            self.client.connection_pool.release(connection)

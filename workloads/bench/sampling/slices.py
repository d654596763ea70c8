"""One slice of load on one server: what its clients saw, and what it cost the server."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from workloads.local_server import LocalServer

CLIENTS = 50
KEYS = 10_000
VALUE_BYTES = 100
PERCENTILES = (1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0, 99.9)
_SOURCE = Path(__file__).with_name("closed_loop_load.c")


class Kind(NamedTuple):
    """What the clients ask for.

    Attributes:
        command: ``get`` or ``set``.
        pipeline: requests that a client sends at once.
    """

    command: str
    pipeline: int

    def __str__(self) -> str:
        return self.command.upper() + (f" x{self.pipeline}" if self.pipeline > 1 else "")


KINDS = tuple(Kind(command, pipeline) for command in ("get", "set") for pipeline in (1, 16))


class Slice(NamedTuple):
    """What was measured.

    Attributes:
        throughput: requests a second.
        latency_seconds: at each of ``PERCENTILES``; of all requests sent at once, where they are
            pipelined.
        cpu_seconds: processor time for each request, of the server's main thread.
        process_cpu_seconds: the same, of all its threads.
    """

    throughput: float
    latency_seconds: list[float]
    cpu_seconds: float
    process_cpu_seconds: float


class LoadProgram:
    """Compiles the load generator; a context manager.

    Raises:
        subprocess.CalledProcessError: no C compiler.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="spreds-load-")
        self._program = Path(self._folder.name) / "load"
        subprocess.run(["cc", "-O2", "-o", self._program, _SOURCE, "-lm"], check=True)

    def __enter__(self) -> LoadProgram:
        return self

    def __exit__(self, *exception: object) -> None:
        self._folder.cleanup()

    def run(
        self,
        server: LocalServer,
        kind: Kind,
        seconds: float,
        seed: int,
        *,
        clients: int = CLIENTS,
        skew: float = 0.0,
    ) -> Slice:
        """Load ``server``, which ``fill`` has filled.

        ``skew`` is the exponent of Zipf's law for the keys; 0: all are asked for as often.

        Raises:
            subprocess.CalledProcessError: a reply was not the expected one; stderr says more.
        """
        before = processor_times(server)
        arguments = [kind.command, clients, kind.pipeline, KEYS, VALUE_BYTES, seconds, seed, skew]
        output = subprocess.run(
            [self._program, server.socket, *map(str, arguments)], check=True, stdout=subprocess.PIPE
        ).stdout
        after = processor_times(server)
        elapsed_seconds = int(np.frombuffer(output, np.uint64, 1)[0]) / 1e9
        latencies_ns = np.frombuffer(output, np.uint32, offset=8)
        requests = len(latencies_ns) * kind.pipeline
        return Slice(
            requests / elapsed_seconds,
            (np.percentile(latencies_ns, PERCENTILES) / 1e9).tolist(),
            (after[0] - before[0]) / requests,
            (after[1] - before[1]) / requests,
        )


def fill(server: LocalServer) -> None:
    """Set all keys that the load will ask for."""
    server.client.mset({f"key:{number:012d}": b"x" * VALUE_BYTES for number in range(KEYS)})


def processor_times(server: LocalServer) -> tuple[float, float]:
    """Of the server's main thread, and of all its threads, since it began; seconds."""
    cpu = server.client.info("cpu")
    main = cpu["used_cpu_user_main_thread"] + cpu["used_cpu_sys_main_thread"]
    return main, cpu["used_cpu_user"] + cpu["used_cpu_sys"]

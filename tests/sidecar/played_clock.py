"""Real servers whose clock goes as it is told: a load of minutes takes seconds.

A library that is loaded before the C library answers the server's questions for the time of day
from a file. How long its own timers wait is another clock, which is left alone.
"""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
import time
from pathlib import Path

import pytest

from tests.sidecar.fixtures import StartServer
from workloads.local_server import LocalServer

_SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *clock_us(void)
{
    static volatile int64_t *at;
    if (!at) at = mmap(0, 8, PROT_READ, MAP_SHARED, open(getenv("PLAYED_CLOCK"), O_RDONLY), 0);
    return at;
}

int gettimeofday(struct timeval *tv, void *zone)
{
    (void)zone;
    int64_t us = *clock_us();
    tv->tv_sec = us / 1000000;
    tv->tv_usec = us % 1000000;
    return 0;
}

time_t time(time_t *t)
{
    time_t now = *clock_us() / 1000000;
    if (t) *t = now;
    return now;
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
    if (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)
        return syscall(SYS_clock_gettime, id, ts);
    int64_t us = *clock_us();
    ts->tv_sec = us / 1000000;
    ts->tv_nsec = us % 1000000 * 1000;
    return 0;
}
"""
_PATIENCE_SECONDS = 20.0


class PlayedClock:
    """Plays a clock to its servers; ``seconds`` is Unix time, half past a full second at first."""

    def __init__(self, folder: Path, start: StartServer) -> None:
        if shutil.which("cc") is None:
            pytest.skip("there is no C compiler")
        self._library, self._file = folder / "played_clock.so", folder / "clock"
        (folder / "played_clock.c").write_text(_SOURCE)
        subprocess.run(
            ["cc", "-O1", "-shared", "-fPIC", "-o", self._library, folder / "played_clock.c"],
            check=True,
        )
        self.seconds = 1_800_000_000.5
        self._file.write_bytes(bytes(8))
        with self._file.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 8)
        self._set()
        self._start = start
        self._servers: list[LocalServer] = []

    def _set(self) -> None:
        self._map[:] = struct.pack("<q", round(self.seconds * 1e6))

    def start(self, binary: Path, **settings: object) -> LocalServer:
        wrapper = ["env", f"LD_PRELOAD={self._library}", f"PLAYED_CLOCK={self._file}"]
        server = self._start(binary=binary, wrapper=wrapper, hz=500, **settings)
        self._servers.append(server)
        return server

    def go_on(self, seconds: int = 1) -> None:
        """Move the clock on, and wait until all servers have noticed."""
        self.seconds += seconds
        self._set()
        deadline = time.monotonic() + _PATIENCE_SECONDS
        for server in self._servers:
            while server.client.info("server")["lru_clock"] != int(self.seconds) % (1 << 24):
                assert time.monotonic() < deadline, "the server's clock does not go on"

"""Look-aside replay inside the server: a Lua script reads, and fills what it missed.

For experiments that need exact miss ratios of a real server, not latencies: no round trip for each
request, and (with ``FastServer``) a clock that the load drives.
"""

from __future__ import annotations

import mmap
import struct
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from workloads.local_server import PreloadedServer

_FAST_CLOCK = Path(__file__).with_name("fast_clock.c")
# Evictions happen between scripts: few requests in each, so that memory hardly overshoots.
REQUESTS_PER_SCRIPT = 20
# The server's clock moves in steps of this, which is also the period of its cron.
STEP_SECONDS = 0.1
_LARGEST_VALUE = 1 << 16
_SCRIPT = """
for i = 1, #KEYS do
    local key, kind = KEYS[i], string.sub(ARGV[i], 1, 1)
    local found
    if kind == 's' then found = redis.call('GET', key)
    else found = redis.call('HGET', key, 'field') end
    if not found then
        local size, ttl = string.match(ARGV[i], '(%d+),(%d+)')
        local value = string.rep('x', tonumber(size))
        if kind == 'h' then
            redis.call('HSET', key, 'field', value)
            if ttl ~= '0' then redis.call('PEXPIRE', key, ttl) end
        elseif ttl == '0' then redis.call('SET', key, value)
        else redis.call('SET', key, value, 'PX', ttl) end
    end
end
collectgarbage()
"""


@dataclass(frozen=True, eq=False)
class Load:
    """Reads of a look-aside cache.

    Attributes:
        keys: shape (n,), numbers from 0 to less than the number of keys.
        sizes_bytes: shape (number of keys,), key and value.
        ttls_seconds: shape (number of keys,), set with each fill; 0 is none.
        are_hashes: shape (number of keys,), whose value is a hash of one field; others are strings
            (``None``: all).
    """

    name: str
    keys: npt.NDArray[np.int64]
    sizes_bytes: npt.NDArray[np.int64]
    ttls_seconds: npt.NDArray[np.float64]
    are_hashes: npt.NDArray[np.bool_] | None = None


class FastServer(PreloadedServer):
    """A ``LocalServer`` whose clocks stand still until ``advance`` moves them.

    Raises:
        RuntimeError: the server did not come up.
        subprocess.CalledProcessError: no C compiler.
    """

    def __init__(self, settings: dict[str, object], binary: Path) -> None:
        self._passed_us = 0
        with tempfile.NamedTemporaryFile(prefix="spreds-clock-") as file:
            file.write(bytes(8))
            file.flush()
            self._clock = mmap.mmap(file.fileno(), 8)
            # It has mapped the clock, too, when it is up.
            variables = {"FAST_CLOCK": file.name}
            settings = {"hz": round(1 / STEP_SECONDS), **settings}
            super().__init__(_FAST_CLOCK, settings, binary, variables=variables)

    def advance(self, seconds: float) -> None:
        """Let time pass for the server."""
        self._passed_us += round(seconds * 1e6)
        self._clock[:] = struct.pack("<q", self._passed_us)

    @property
    def passed_seconds(self) -> float:
        """Return the seconds since it began, by its clock."""
        return self._passed_us / 1e6

    def settle(self) -> None:
        """Let three seconds pass in which nothing happens: it closes what its cron does in time,
        as freeing the buffers of idle clients and counting what is left of them."""
        for _ in range(round(3 / STEP_SECONDS)):
            self.advance(STEP_SECONDS)
            self.client.ping()

    def stop(self) -> None:
        """End the process and remove its folders; may be called twice."""
        # Its cron, which would see the signal to terminate, waits for time to pass.
        self.process.kill()
        super().stop()


class Replay:
    """A load as a server is sent it, in parts if need be."""

    def __init__(self, server: FastServer, load: Load) -> None:
        self._server = server
        self._keys = load.keys.tolist()
        texts = [str(key) for key in range(len(load.sizes_bytes))]
        are_hashes = np.zeros(len(texts)) if load.are_hashes is None else load.are_hashes
        lengths = load.sizes_bytes - np.array([len(text) for text in texts])
        columns = (
            np.clip(lengths, 1, _LARGEST_VALUE).tolist(),
            np.rint(load.ttls_seconds * 1000).astype(int).tolist(),
            np.where(are_hashes, "h", "s").tolist(),
        )
        self._texts = [text.encode() for text in texts]
        self._fills = [
            f"{kind}{length},{ttl}".encode() for length, ttl, kind in zip(*columns, strict=True)
        ]
        self._script = server.client.script_load(_SCRIPT)

    def send(
        self, start: int, end: int, requests_per_second: float, after_step: Callable[[], None]
    ) -> None:
        """Send the requests ``start`` to ``end``, in order, ``requests_per_second`` by the server's
        clock, as fast as the machine can; ``after_step`` is called after each step of the clock."""
        texts, fills = self._texts, self._fills
        requests = max(1, round(requests_per_second * STEP_SECONDS))
        for first in range(start, end, requests):
            pipeline = self._server.client.pipeline(transaction=False)
            last = min(end, first + requests)
            for begin in range(first, last, REQUESTS_PER_SCRIPT):
                part = self._keys[begin : min(last, begin + REQUESTS_PER_SCRIPT)]
                pipeline.evalsha(
                    self._script, len(part), *[texts[k] for k in part], *[fills[k] for k in part]
                )
            self._server.advance((last - first) / requests_per_second)
            pipeline.execute()
            after_step()


def replay(
    server: FastServer, load: Load, requests_per_second: float, after_step: Callable[[], None]
) -> None:
    """Send all of ``load``, see ``Replay.send``."""
    Replay(server, load).send(0, len(load.keys), requests_per_second, after_step)

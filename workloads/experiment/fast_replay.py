"""Look-aside replay inside the server: a Lua script reads, and fills what it missed.

For experiments that need exact miss ratios of a real server, not latencies: no round trip for each
request, and (with ``FastServer``) a clock that runs as fast as the load.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from workloads.local_server import LocalServer

# Evictions happen between scripts: few requests in each, so that memory hardly overshoots.
REQUESTS_PER_SCRIPT = 40
SCRIPTS_PER_ROUND = 50
_LARGEST_VALUE = 1 << 16
_SCRIPT = f"""
local filler = string.rep('x', {_LARGEST_VALUE})
for i = 1, #KEYS do
    local key = KEYS[i]
    if not redis.call('GET', key) then
        local size, ttl = string.match(ARGV[i], '(%d+),(%d+)')
        local value = string.sub(filler, 1, tonumber(size))
        if ttl == '0' then redis.call('SET', key, value)
        else redis.call('SET', key, value, 'PX', ttl) end
    end
end
"""


@dataclass(frozen=True, eq=False)
class Load:
    """Reads of a look-aside cache.

    Attributes:
        keys: shape (n,), numbers from 0 to less than the number of keys.
        sizes_bytes: shape (number of keys,), key and value.
        ttls_seconds: shape (number of keys,), set with each fill; 0 is none.
    """

    name: str
    keys: npt.NDArray[np.int64]
    sizes_bytes: npt.NDArray[np.int64]
    ttls_seconds: npt.NDArray[np.float64]

    def part(self, start: int, end: int) -> Load:
        """Requests ``start`` to ``end``."""
        return Load(self.name, self.keys[start:end], self.sizes_bytes, self.ttls_seconds)


class FastServer(LocalServer):
    """A ``LocalServer`` whose clocks run ``speed`` times as fast.

    Raises:
        RuntimeError: the server did not come up.
        subprocess.CalledProcessError: no C compiler.
    """

    def __init__(self, settings: dict[str, object], binary: Path, speed: float) -> None:
        self.speed = speed
        self._tools = Path(tempfile.mkdtemp(prefix="spreds-clock-"))
        library, wrapper = self._tools / "fast_clock.so", self._tools / "server"
        source = Path(__file__).with_name("fast_clock.c")
        try:
            subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
            wrapper.write_text(
                f'#!/bin/sh\nFAST_CLOCK={speed} LD_PRELOAD={library} exec {binary} "$@"\n'
            )
            wrapper.chmod(0o700)
            # By its clock everything is slow, and the slow log would take half a megabyte.
            settings = {"hz": 100, "slowlog-log-slower-than": -1, **settings}
            super().__init__(settings, wrapper)
        except BaseException:
            shutil.rmtree(self._tools, ignore_errors=True)
            raise

    def __enter__(self) -> FastServer:
        return self

    def stop(self) -> None:
        """End the process and remove its folders; may be called twice."""
        super().stop()
        shutil.rmtree(self._tools, ignore_errors=True)


def replay(
    server: FastServer, load: Load, requests_per_second: float, after_round: Callable[[], None]
) -> float:
    """Send all of ``load``, in order, ``requests_per_second`` by the server's clock;
    ``after_round`` is called every ``REQUESTS_PER_SCRIPT * SCRIPTS_PER_ROUND`` requests and at
    the end.

    Returns:
        How many times longer it took than it should have: 1 is on time.
    """
    texts = [str(key) for key in range(len(load.sizes_bytes))]
    limit = _LARGEST_VALUE
    fills = [
        f"{min(limit, max(1, size - len(text)))},{round(ttl * 1000)}"
        for text, size, ttl in zip(
            texts, load.sizes_bytes.tolist(), load.ttls_seconds.tolist(), strict=True
        )
    ]
    script = server.client.script_load(_SCRIPT)
    keys = load.keys.tolist()
    step = REQUESTS_PER_SCRIPT
    started = time.monotonic()
    real_rate = requests_per_second * server.speed
    for start in range(0, len(keys), step * SCRIPTS_PER_ROUND):
        pipeline = server.client.pipeline(transaction=False)
        end = min(len(keys), start + step * SCRIPTS_PER_ROUND)
        for first in range(start, end, step):
            part = keys[first : min(end, first + step)]
            pipeline.evalsha(
                script, len(part), *[texts[k] for k in part], *[fills[k] for k in part]
            )
        pipeline.execute()
        after_round()
        time.sleep(max(0.0, started + end / real_rate - time.monotonic()))
    return (time.monotonic() - started) * real_rate / len(keys)

"""Bytes that a monitor keeps: ``python -m workloads.bench.curves.engine_memory KEYS``."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
import tracemalloc
from collections.abc import Iterator

import numpy as np

from sidecar.curves.monitor import ServerMonitor
from sidecar.samples.batch import decode_batch
from sidecar.samples.wire_format import DEFAULT_MODULUS, Operation
from sidecar.servers.connection.server_reading import ServerReading
from workloads.sample_batches import SampledServer, number_hashes

_WINDOWS = 20
_PART = 1 << 20
_BUDGET_BYTES = 1 << 40
_MOST_SAMPLED_KEYS = 2_500_000
_SECONDS = 2


class _Mallinfo(ctypes.Structure):
    """What ``mallinfo2`` of the C library tells (glibc 2.33 or later)."""

    _names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in _names.split()]


def _allocated_bytes() -> int:
    """Count this process' bytes; Python's only where its objects are the C library's (``main``)."""
    library = ctypes.CDLL(None)
    library.mallinfo2.restype = _Mallinfo
    told = library.mallinfo2()
    return int(told.uordblks + told.hblkhd)


def measure(key_count: int) -> dict[str, int]:
    """Memory of one server's monitor, live and at its peak, when ``key_count`` keys have passed.

    Each is missed; half are filled, a quarter is read again, and some are deleted or expire; three
    in four have a TTL. The server samples one key in four, or what it takes to sample 2.5 million.
    All this takes 40 seconds, whatever the number of keys: every bounded table reaches its bound.
    What Python needs for a batch is measured in a second run, since to trace it takes memory.
    """
    monitor, _, _ = _run(key_count)
    live_objects = len(monitor.shards)
    gc.collect()
    with_monitor = _allocated_bytes()
    del monitor
    gc.collect()
    live_bytes = with_monitor - _allocated_bytes()
    tracemalloc.start()
    _, samples, most_bytes = _run(key_count)
    tracemalloc.stop()
    return {
        "keys": key_count,
        "samples": samples,
        "live_objects": live_objects,
        "live_bytes": live_bytes,
        "peak_bytes": live_bytes + most_bytes,
    }


def _run(key_count: int) -> tuple[ServerMonitor, int, int]:
    """The monitor, the samples that it took, and the most bytes that were traced in a batch."""
    monitor = ServerMonitor("one")
    rate = min(0.25, _MOST_SAMPLED_KEYS / key_count)
    server = SampledServer(threshold=round(rate * DEFAULT_MODULUS))
    peak_bytes = samples = 0
    for window in range(_WINDOWS):
        monitor.observe(_stats(window), _BUDGET_BYTES)
        for message in _messages(server, key_count, window):
            before_bytes, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            batch = decode_batch(message)
            monitor.take(batch)
            _, most_bytes = tracemalloc.get_traced_memory()
            peak_bytes = max(peak_bytes, most_bytes - before_bytes)
            samples += len(batch.records)
    return monitor, samples, peak_bytes


def _messages(server: SampledServer, key_count: int, window: int) -> Iterator[bytes]:
    first, end = (key_count * i // _WINDOWS for i in (window, window + 1))
    random = np.random.default_rng(window)
    for start in range(first, end, _PART):
        numbers = np.arange(start, min(end, start + _PART))
        hashes = number_hashes(numbers, server.salt)
        hashes = hashes[(hashes & np.uint64(DEFAULT_MODULUS - 1)) < np.uint64(server.threshold)]
        count = len(hashes)
        happened = [
            (Operation.READ_MISS, 1.0, 0),
            (Operation.WRITE, 0.5, 50),
            (Operation.READ_HIT, 0.25, 2000),
            (Operation.DELETE, 0.05, 3000),
            (Operation.EXPIRY, 0.3, 4000),
        ]
        places = [np.flatnonzero(random.random(count) < share) for _, share, _ in happened]
        operations = np.repeat([operation for operation, _, _ in happened], list(map(len, places)))
        # The place of each in the stream: so many keys later it happens.
        later = np.concatenate([place + h[2] for place, h in zip(places, happened, strict=True)])
        order = np.argsort(later, kind="stable")
        keys = np.concatenate(places)[order]
        done = start - first + keys / max(1, count) * len(numbers)
        seconds = window + done / (end - first)
        yield from server.batches(
            hashes[keys],
            operations[order],
            np.where(operations[order] == Operation.WRITE, 200, 0),
            ttl=keys % 4 > 0,
            times_us=np.sort(seconds * _SECONDS * 1e6),
        )


def _stats(window: int) -> ServerReading:
    info = {
        "run_id": "1" * 40,
        "uptime_in_seconds": 1 + window * _SECONDS,
        "maxmemory": _BUDGET_BYTES // 2,
        "maxmemory_policy": "allkeys-lru",
        "used_memory": _BUDGET_BYTES // 4,
        "used_memory_startup": 10**6,
        "keyspace_hits": 1000 * window,
        "keyspace_misses": 1000 * window,
    }
    return ServerReading.parse(info, {}, float(1 + window * _SECONDS))


def main() -> None:
    """Print the numbers as JSON, in a process whose Python asks the C library for all memory: what
    the compiled part takes is then counted as well."""
    if os.environ.get("PYTHONMALLOC") != "malloc":
        command = [sys.executable, "-m", "workloads.bench.curves.engine_memory", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, "PYTHONMALLOC": "malloc"})  # noqa: S606
    print(json.dumps(measure(int(sys.argv[1]))))


if __name__ == "__main__":
    main()

"""What keys take in a real server, where the simulation has a fixed overhead."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import redis

from workloads.experiment.gain.simulated_server import BASELINE_BYTES

PIPELINE_COMMANDS = 1000


def key_weights(
    client: redis.Redis, sizes_bytes: npt.NDArray[np.uint32]
) -> npt.NDArray[np.float64]:
    """Bytes of each key; shape as ``sizes_bytes``, of key and value, by the key's number.

    What the server holds beside keys and beyond ``BASELINE_BYTES``, such as its hash table, is
    shared out evenly. Keys that it does not hold weigh what others of their size do.
    """
    counted = counted_bytes(client)  # before the questions, which take buffers
    usages = memory_usages(client, len(sizes_bytes))
    known = usages[~np.isnan(usages)]
    if not len(known):
        return sizes_bytes.astype(np.float64)
    beside = (counted - BASELINE_BYTES - float(known.sum())) / len(known)
    return usages_by_size(usages, sizes_bytes) + np.float64(beside)


def counted_bytes(client: redis.Redis) -> int:
    """What the server compares with its ``maxmemory``."""
    memory = client.info("memory")
    return int(memory["used_memory"]) - int(memory["mem_not_counted_for_evict"])


def usages_by_size(
    usages: npt.NDArray[np.float64], sizes_bytes: npt.NDArray[np.uint32]
) -> npt.NDArray[np.float64]:
    """``memory_usages``, and for keys that are not there what others of their size take."""
    held = ~np.isnan(usages)
    order = np.argsort(sizes_bytes[held], kind="stable")
    found = np.interp(sizes_bytes, sizes_bytes[held][order], usages[held][order])
    return np.asarray(found, dtype=np.float64)


def memory_usages(client: redis.Redis, key_count: int) -> npt.NDArray[np.float64]:
    """``MEMORY USAGE`` of each key, by its number, shape (key_count,); ``nan``: it is not there."""
    usages: list[int | None] = []
    for start in range(0, key_count, PIPELINE_COMMANDS):
        pipeline = client.pipeline(transaction=False)
        for key in range(start, min(key_count, start + PIPELINE_COMMANDS)):
            pipeline.memory_usage(str(key))
        usages += pipeline.execute()
    return np.array([np.nan if usage is None else usage for usage in usages], dtype=np.float64)

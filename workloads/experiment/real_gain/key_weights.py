"""What keys take in a real server, where the simulation has a fixed overhead."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import redis

from workloads.experiment.gain.exact_lru import BASELINE_BYTES

PIPELINE_COMMANDS = 1000


def key_weights(
    client: redis.Redis, sizes_bytes: npt.NDArray[np.uint32]
) -> npt.NDArray[np.float64]:
    """Bytes of each key; shape as ``sizes_bytes``, of key and value, by the key's number.

    What the server holds beside keys and beyond ``BASELINE_BYTES``, such as its hash table, is
    shared out evenly. Keys that it does not hold weigh what others of their size do.
    """
    memory = client.info("memory")
    counted = int(memory["used_memory"]) - int(memory["mem_not_counted_for_evict"])
    usages: list[int | None] = []
    for start in range(0, len(sizes_bytes), PIPELINE_COMMANDS):
        pipeline = client.pipeline(transaction=False)
        for key in range(start, min(len(sizes_bytes), start + PIPELINE_COMMANDS)):
            pipeline.memory_usage(str(key))
        usages += pipeline.execute()
    held = np.array([usage is not None for usage in usages])
    if not held.any():
        return sizes_bytes.astype(np.float64)
    known = np.array([usage for usage in usages if usage is not None], dtype=np.float64)
    beside = (counted - BASELINE_BYTES - known.sum()) / len(known)
    order = np.argsort(sizes_bytes[held], kind="stable")
    weights = np.interp(sizes_bytes, sizes_bytes[held][order], known[order]) + beside
    return np.asarray(weights, dtype=np.float64)

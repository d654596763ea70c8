"""Sends samples at a given rate, as a server does: ``python -m ... ENDPOINT RATE SECONDS
SEED SECRET``.

In batches of 50 ms or 16 KiB, never waiting. Says when it is ready, begins when it is told to by a
line, and says as JSON how many were offered and what had to be dropped.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import zmq

from sidecar.samples.wire_format import DEFAULT_MODULUS, MAX_BATCH_RECORDS, Operation
from workloads.load import zipf_keys
from workloads.sample_batches import SampledServer

# As the sampler has it (redis_patch/transport.h).
QUEUE_BATCHES = 32
BATCH_SECONDS = 0.05
SKEW = 0.99
SAMPLED_KEYS = 8_000
OBJECT_BYTES = 300


def main(endpoint: str, rate: float, seconds: float, seed: int, secret: bytes) -> dict[str, float]:
    """Send."""
    random = np.random.default_rng(seed)
    records = min(MAX_BATCH_RECORDS, max(1, round(rate * BATCH_SECONDS)))
    count = max(1, round(rate * seconds / records)) * records
    keys = zipf_keys(SAMPLED_KEYS, SKEW, count, random)
    hashes = random.integers(1 << 64, size=SAMPLED_KEYS, dtype=np.uint64)
    interval = records / rate
    messages = list(
        SampledServer(threshold=DEFAULT_MODULUS, secret=secret).batches(
            hashes[keys],
            np.full(count, Operation.READ_HIT),
            OBJECT_BYTES,
            times_us=np.arange(count) / rate * 1e6,
            batch_records=records,
        )
    )
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = context.socket(zmq.PUSH)
    socket.set(zmq.IMMEDIATE, 1)
    socket.set(zmq.SNDHWM, QUEUE_BATCHES)
    socket.connect(endpoint)
    socket.poll(10_000, zmq.POLLOUT)
    print("ready", flush=True)
    sys.stdin.readline()
    dropped = 0
    begun = time.monotonic()
    for number, message in enumerate(messages):
        ahead = begun + number * interval - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)
        try:
            socket.send(message, zmq.DONTWAIT)
        except zmq.Again:
            dropped += 1
    took = time.monotonic() - begun
    socket.close(linger=1000)
    context.term()
    return {
        "offered": count,
        "seconds": max(took, len(messages) * interval),
        "dropped_batches": dropped,
        "batches": len(messages),
    }


if __name__ == "__main__":
    where, rate, seconds, seed, secret = sys.argv[1:]
    told = main(where, float(rate), float(seconds), int(seed), bytes.fromhex(secret))
    print(json.dumps(told))

"""So many requests a second, spread evenly over servers, from a process of its own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack

import numpy as np

from workloads.deaf_process import deaf_processes
from workloads.lookaside import LookAsideClient
from workloads.zipf import zipf_keys

REQUESTS_PER_SECOND = 10_000
KEYS = 5_000
SKEW = 0.8
VALUE_BYTES = 600
DRAWN_REQUESTS = 200_000
TURN_SECONDS = 0.05


def paced_load(urls: Sequence[str], seed: int) -> AbstractContextManager[None]:
    """Until the end of the block: the same for all servers together, however many they are."""
    return deaf_processes(_send, [(list(urls), seed)])


def _send(urls: Sequence[str], seed: int) -> None:
    random = np.random.default_rng(seed)
    keys = [b"key:%d" % key for key in zipf_keys(KEYS, SKEW, DRAWN_REQUESTS, random).tolist()]
    each = REQUESTS_PER_SECOND * TURN_SECONDS / len(urls)
    place = 0
    with ExitStack() as stack:
        clients = [stack.enter_context(LookAsideClient(url)) for url in urls]
        begun = time.monotonic()
        for turn in range(1 << 62):
            for client in clients:
                count = int(each + random.random())  # parts of a request are drawn
                if count:
                    part = keys[place : place + count]
                    client.request(part, [VALUE_BYTES] * count, [0.0] * count)
                    place = (place + count) % (DRAWN_REQUESTS - REQUESTS_PER_SECOND)
            time.sleep(max(0.0, begun + (turn + 1) * TURN_SECONDS - time.monotonic()))

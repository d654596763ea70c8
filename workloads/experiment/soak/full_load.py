"""As many requests as servers and clients can do, in processes of their own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack

import numpy as np

from workloads.deaf_process import deaf_processes
from workloads.local_server import LocalServer
from workloads.lookaside import LookAsideClient
from workloads.zipf import zipf_keys

BATCH_REQUESTS = 200
DRAWN_REQUESTS = 2_000_000
SKEW = 0.9
VALUE_BYTES = 500
# Keys of the servers differ, so that plans have something to divide.
KEYS = (40_000, 80_000, 160_000, 320_000)


def full_load(servers: Sequence[LocalServer], processes: int) -> AbstractContextManager[None]:
    """Until the end of the block. Each process sends to its share of the servers in turn."""
    urls = [server.url for server in servers]
    shares = [(urls[place::processes], KEYS[place::processes]) for place in range(processes)]
    return deaf_processes(_send, shares)


def _send(urls: Sequence[str], keys: Sequence[int]) -> None:
    os.nice(5)  # the servers and the sidecar come first
    random = np.random.default_rng(1)
    names = [
        [b"key:%d" % key for key in zipf_keys(count, SKEW, DRAWN_REQUESTS, random).tolist()]
        for count in keys
    ]
    sizes, backend = [VALUE_BYTES] * BATCH_REQUESTS, [0.0] * BATCH_REQUESTS
    place = 0
    with ExitStack() as stack:
        clients = [stack.enter_context(LookAsideClient(url)) for url in urls]
        while True:
            for client, wanted in zip(clients, names, strict=True):
                client.request(wanted[place : place + BATCH_REQUESTS], sizes, backend)
            place = (place + BATCH_REQUESTS) % (DRAWN_REQUESTS - BATCH_REQUESTS)

"""Requests drawn as YCSB 0.17.0 draws them, for what has to know the keys; YCSB does not tell its.

``requestdistribution=zipfian`` is its scrambled Zipfian: ranks of a Zipf law over 10^10 items (Gray
and others, *Quickly generating billion-record synthetic databases*, SIGMOD'94) are hashed onto the
keys. Only some 40 % of the requests fall on the few thousand lowest ranks, and the others nearly
evenly on all keys, so that it is much flatter than its exponent of 0.99 says.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from workloads.load import Load
from workloads.ycsb.client import YcsbLoad

ITEMS = 10_000_000_001
ZETA = 26.46902820178302  # of ITEMS, as YCSB has it
EXPONENT = 0.99
_FNV_OFFSET, _FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(1099511628211)


def ycsb_draws(load: YcsbLoad) -> Load:
    """As many reads as YCSB would make; the keys have its names, and the hot ones are the same."""
    random = np.random.default_rng(load.seed)
    numbers = np.empty(0, np.int64)
    while len(numbers) < load.request_count:
        ranks = zipf_ranks(random.random(load.request_count))
        # Of one number too many, which is then drawn again.
        drawn = _fnv(ranks) % (load.key_count + 1)
        numbers = np.concatenate([numbers, drawn[drawn < load.key_count]])
    names = [b"user%d" % name for name in _fnv(np.arange(load.key_count)).tolist()]
    keys = [names[number] for number in numbers[: load.request_count].tolist()]
    return Load(
        keys,
        [len(key) + load.value_bytes for key in keys],
        random.exponential(load.backend_latency_seconds, load.request_count),
        f"YCSB: scrambled Zipfian over {load.key_count:,} keys of {load.value_bytes:,} bytes",
    )


def zipf_ranks(uniform: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Ranks from 0, of numbers in [0, 1), as YCSB's ``ZipfianGenerator`` makes them."""
    two = 1 + 0.5**EXPONENT
    eta = (1 - (2 / ITEMS) ** (1 - EXPONENT)) / (1 - two / ZETA)
    ranks: npt.NDArray[np.int64] = (
        ITEMS * (eta * uniform - eta + 1) ** (1 / (1 - EXPONENT))
    ).astype(np.int64)
    ranks[uniform * ZETA < two] = 1
    ranks[uniform * ZETA < 1] = 0
    return ranks


def _fnv(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Fowler, Noll and Vo's hash of 8 bytes, 1a, without its sign."""
    left = numbers.astype(np.uint64)
    found = np.full(len(left), _FNV_OFFSET)
    with np.errstate(over="ignore"):
        for _ in range(8):
            found = (found ^ (left & np.uint64(0xFF))) * _FNV_PRIME
            left >>= np.uint64(8)
    positive: npt.NDArray[np.int64] = np.abs(found.view(np.int64))
    return positive

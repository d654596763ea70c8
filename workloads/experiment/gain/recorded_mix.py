"""The requests of a mix, drawn once: every rival is asked the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from workloads.experiment.gain.loads import IntArray, Load
from workloads.experiment.gain.mix import Mix, MixServer


@dataclass(frozen=True, eq=False)
class Requests:
    """Of one server.

    Attributes:
        cycles: keys of each cycle, in order.
        sizes_bytes: key and value of each key.
        ttl_seconds: that each fill sets; 0 is none.
    """

    cycles: list[IntArray]
    sizes_bytes: npt.NDArray[np.uint32]
    ttl_seconds: float = 0.0

    def steps(self, cycle: int, steps: int) -> list[IntArray]:
        """A cycle's requests, of as many equal times."""
        return np.array_split(self.cycles[cycle], steps)


def record(mix: Mix, seed: int) -> list[Requests]:
    """Of each server, in the mix's order."""
    return [_record(server, mix.cycles, seed + place) for place, server in enumerate(mix.servers)]


def _record(server: MixServer, cycles: int, seed: int) -> Requests:
    random = np.random.default_rng(seed)
    had: dict[int, int] = {}
    # Keys of different loads are different keys, unless it is the same load again.
    first_key: dict[Load, int] = {}
    sizes: list[npt.NDArray[np.uint32]] = []
    drawn = []
    for cycle in range(1, cycles + 1):
        load, count = server.phase(cycle).load, server.requests(cycle)
        if load not in first_key:
            first_key[load] = sum(map(len, sizes))
            sizes.append(load.sizes_bytes(random))
        start = had.get(first_key[load], 0)
        drawn.append(load.keys(start, count, random) + first_key[load])
        had[first_key[load]] = start + count
    return Requests(drawn, np.concatenate(sizes), server.ttl_seconds)

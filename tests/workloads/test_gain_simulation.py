"""The measuring device's parts: simulated servers, the oracle, rivals, and SPREDS among them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.experiment.gain.exact_lru import BASELINE_BYTES, OVERHEAD_BYTES, ExactLru
from workloads.experiment.gain.mix import Mix, read_mix
from workloads.experiment.gain.oracle import Oracle
from workloads.experiment.gain.recorded_mix import Requests, record
from workloads.experiment.gain.rivals import Climber, one_shared_server
from workloads.experiment.gain.simulation import Division, Outcome, simulate
from workloads.experiment.gain.spreds_division import SpredsDivision

SIZES = [100, 300, 50, 1000, 20, 700]


class NaiveLru:
    """A list by recency, summed up anew each time."""

    def __init__(self, room_bytes: int) -> None:
        self.room_bytes = room_bytes
        self.held: list[int] = []
        self.evicted: list[int] = []

    @property
    def used_bytes(self) -> int:
        return sum(SIZES[key] + OVERHEAD_BYTES for key in self.held)

    def read(self, key: int) -> bool:
        hit = key in self.held
        if hit:
            self.held.remove(key)
        self.held.append(key)
        self.resize(self.room_bytes)
        return hit

    def resize(self, room_bytes: int) -> None:
        self.room_bytes = room_bytes
        while self.used_bytes > room_bytes:
            self.evicted.append(self.held.pop(0))


ROOMS = st.integers(0, 3000)
READS = st.lists(st.integers(0, len(SIZES) - 1), max_size=30)


@given(ROOMS, st.lists(st.one_of(READS, ROOMS), max_size=8))
def test_a_simulated_server_does_as_its_naive_twin(
    room_bytes: int, steps: list[list[int] | int]
) -> None:
    server = ExactLru(1, np.array(SIZES, np.uint32), BASELINE_BYTES + room_bytes)
    twin = NaiveLru(room_bytes)
    hits = reads = 0
    for step in steps:
        if isinstance(step, int):
            server.resize(BASELINE_BYTES + step)
            twin.resize(step)
        else:
            server.evicted, twin.evicted = [], []
            found = server.read(np.array(step, np.int64)).tolist()
            assert found == [twin.read(key) for key in step]
            assert [key for _, key in server.evicted] == twin.evicted
            hits, reads = hits + sum(found), reads + len(step)
        assert (server.used_bytes, len(server)) == (twin.used_bytes, len(twin.held))
    assert (server.hits, server.misses) == (hits, reads - hits)


def mix_of(folder: Path, text: str) -> tuple[Mix, list[Requests]]:
    path = folder / "mix.toml"
    path.write_text(text)
    mix = read_mix(path)
    return mix, record(mix, seed=1)


def loop(name: str, keys: int, requests: int) -> str:
    return f"""
[[server]]
name = "{name}"
backend_latency = "10ms"
phase = [{{ requests = {requests}, load = {{ kind = "loop", keys = {keys}, object = "500000b" }} }}]
"""


def test_one_shared_server_by_hand(tmp_path: Path) -> None:
    """Eight of the nine objects fit. They are asked for in turn, one of either loop: between two
    reads of one of the four there are seven others, of one of the five eight others."""
    text = 'budget = "5mb"\ncycles = 2\n' + loop("four", 4, 8) + loop("five", 5, 8)
    mix, requests = mix_of(tmp_path, text)
    outcome = one_shared_server(mix, requests)
    assert outcome.reads.tolist() == [[8, 8], [8, 8]]
    assert outcome.misses.tolist() == [[4, 8], [0, 8]]
    # 32 reads, 20 of them misses.
    assert outcome.access_seconds() == pytest.approx((20 * 0.010 + 12 * 0.0002) / 32)


UNEVEN = """
budget = "12mb"
cycles = 4
[[server]]
name = "wide"
backend_latency = "40ms"
[[server.phase]]
requests = 5000
load = { kind = "trace", file = "wide.csv", object = "10kb" }
[[server]]
name = "narrow"
backend_latency = "20ms"
[[server.phase]]
requests = 4000
load = { kind = "trace", file = "narrow.csv", object = "20kb" }
[[server.phase]]
from = 3
requests = [0, 4000]
load = { kind = "trace", file = "narrow.csv", object = "20kb" }
"""


@pytest.fixture
def uneven(tmp_path: Path) -> tuple[Mix, list[Requests]]:
    """Two servers, of which one wants much more, and objects of one size each."""
    random = np.random.default_rng(3)
    for name, keys in (("wide", 1200), ("narrow", 60)):
        drawn = (keys * random.random(9000) ** 2).astype(int).tolist()
        (tmp_path / f"{name}.csv").write_text("".join(f"0,{key},1\n" for key in drawn))
    return mix_of(tmp_path, UNEVEN)


def test_fixed_sizes_miss_in_the_simulation_as_the_oracle_says(
    uneven: tuple[Mix, list[Requests]],
) -> None:
    """The oracle's distances are rounded up by .1 % at most; so at sizes that are not just above
    that of a whole number of objects, nothing is rounded away."""
    mix, requests = uneven
    oracle = Oracle(mix, requests)
    weights = [int(one.sizes_bytes[0]) + OVERHEAD_BYTES for one in requests]
    rooms = oracle.sizes_bytes - BASELINE_BYTES
    clear = [np.flatnonzero(rooms % weight > 0.001 * rooms) for weight in weights]
    for share in (0.05, 0.4, 0.8):
        units = np.array([places[int(share * len(places))] for places in clear])
        sizes = oracle.sizes_bytes[units].tolist()
        simulated = simulate(mix, requests, Division(), sizes)
        foretold = oracle.outcome(np.array([sizes] * mix.cycles))
        assert simulated.misses.tolist() == foretold.misses.tolist()
        assert simulated.reads.tolist() == foretold.reads.tolist()


def test_the_oracles_sizes_are_better_than_equal_ones_and_within_the_budget(
    uneven: tuple[Mix, list[Requests]],
) -> None:
    mix, requests = uneven
    oracle = Oracle(mix, requests)
    best = oracle.best_bytes()
    assert sum(best) <= mix.budget_bytes
    assert best[0] > best[1]
    equal = simulate(mix, requests, Division()).access_seconds()
    static = simulate(mix, requests, Division(), best).access_seconds()
    assert oracle.best_of_each_window().access_seconds() <= static < equal


class Watched(Division):
    """Looks at the sizes in force each time that a server is asked."""

    def __init__(self, inner: Division) -> None:
        self.inner = inner
        self.totals: set[int] = set()

    def begin(self, mix: Mix, servers: list[ExactLru]) -> None:
        self.servers = servers
        self.inner.begin(mix, servers)

    def follow(self, place, keys, hit, seconds) -> None:
        self.totals.add(sum(server.maxmemory_bytes for server in self.servers))
        self.inner.follow(place, keys, hit, seconds)

    def sizes_bytes(self, now_seconds: float) -> Sequence[int] | None:
        sizes = self.inner.sizes_bytes(now_seconds)
        self.applied = self.inner.applied
        return sizes


@pytest.mark.parametrize("division", [Climber(), SpredsDivision(1.0, 7)], ids=["climber", "SPREDS"])
def test_who_divides_moves_memory_and_never_exceeds_the_budget(
    uneven: tuple[Mix, list[Requests]], division: Division
) -> None:
    mix, requests = uneven
    watched = Watched(division)
    outcome = simulate(mix, requests, watched)
    assert max(watched.totals) <= mix.budget_bytes
    assert 0 < outcome.moves <= outcome.changes
    assert outcome.moved_bytes > 0
    assert outcome.sizes_bytes[-1, 0] > outcome.sizes_bytes[-1, 1]


def test_the_same_trace_again_is_the_same_load(uneven: tuple[Mix, list[Requests]]) -> None:
    _, (_, narrow) = uneven
    assert [len(keys) for keys in narrow.cycles] == [4000, 4000, 0, 4000]
    assert len(narrow.sizes_bytes) == 60
    # It goes on where it was: 8,000 of 9,000 had been asked for.
    assert narrow.cycles[3][1000:].tolist() == narrow.cycles[0][:3000].tolist()


def test_an_outcome_weighs_servers_by_weight_and_reads(
    uneven: tuple[Mix, list[Requests]],
) -> None:
    mix, _ = uneven
    reads, misses = np.array([[10.0, 30.0]] * 2), np.array([[10.0, 0.0], [5.0, 15.0]])
    outcome = Outcome(mix, reads, misses, np.zeros((2, 2)))
    assert outcome.access_seconds(0, 1) == pytest.approx((10 * 0.040 + 30 * 0.0002) / 40)
    assert outcome.access_seconds(1) == pytest.approx((5 * 0.040 + 15 * 0.020 + 20 * 0.0002) / 40)

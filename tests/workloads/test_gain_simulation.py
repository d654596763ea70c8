"""The measuring device's parts: simulated servers, the oracle, rivals, and SPREDS among them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.samples.wire_format import Operation
from workloads.experiment.gain.mix import Mix, Requests, read_mix, record
from workloads.experiment.gain.oracle import Oracle
from workloads.experiment.gain.rivals import Annealed, ByUse, Climber, one_shared_server
from workloads.experiment.gain.score import _worth_ratio
from workloads.experiment.gain.simulated_server import (
    BASELINE_BYTES,
    EXACT_SAMPLES,
    OVERHEAD_BYTES,
    SimulatedServer,
    server_events,
)
from workloads.experiment.gain.simulation import (
    Division,
    FloatArray,
    Outcome,
    exact_lru,
    simulate,
)
from workloads.experiment.gain.spreds_division import SpredsDivision

SIZES = [100, 300, 50, 1000, 20, 700]


TTL_SECONDS = 5.0


class NaiveLru:
    """A list by recency, summed up anew each time; ``held`` has keys and when they expire."""

    def __init__(self, room_bytes: int, ttl_seconds: float) -> None:
        self.room_bytes = room_bytes
        self.ttl_seconds = ttl_seconds or float("inf")
        self.held: list[tuple[int, float]] = []
        self.gone: list[tuple[int, Operation]] = []

    @property
    def used_bytes(self) -> int:
        return sum(SIZES[key] + OVERHEAD_BYTES for key, _ in self.held)

    def read(self, key: int, now: float) -> bool:
        expired = sorted((end, key) for key, end in self.held if end <= now)
        self.gone += [(key, Operation.EXPIRY) for _, key in expired]
        self.held = [one for one in self.held if one[1] > now]
        ends = dict(self.held).get(key)
        if ends is not None:
            self.held.remove((key, ends))
        self.held.append((key, ends or now + self.ttl_seconds))
        self.resize(self.room_bytes)
        return ends is not None

    def resize(self, room_bytes: int) -> None:
        self.room_bytes = room_bytes
        while self.used_bytes > room_bytes:
            self.gone.append((self.held.pop(0)[0], Operation.EVICTION))


ROOMS = st.integers(0, 3000)
READS = st.lists(st.integers(0, len(SIZES) - 1), max_size=30)


@given(ROOMS, st.sampled_from((0.0, TTL_SECONDS)), st.lists(st.one_of(READS, ROOMS), max_size=8))
def test_a_simulated_server_does_as_its_naive_twin(
    room_bytes: int, ttl_seconds: float, steps: list[list[int] | int]
) -> None:
    maxmemory = BASELINE_BYTES + room_bytes
    server = SimulatedServer(1, np.array(SIZES, np.uint32), maxmemory, ttls_seconds=ttl_seconds)
    twin = NaiveLru(room_bytes, ttl_seconds)
    hits = reads = 0
    for step in steps:
        if isinstance(step, int):
            server.resize(BASELINE_BYTES + step)
            twin.resize(step)
            continue
        begin = float(reads)
        served = server.read(np.array(step, np.int64), begin, begin + len(step))
        found = [twin.read(key, begin + at + 0.5) for at, key in enumerate(step)]
        assert served.hit.tolist() == found
        assert [(key, operation) for _, key, operation in served.removed] == twin.gone
        twin.gone.clear()
        hits, reads = hits + sum(found), reads + len(step)
        assert (server.used_bytes, len(server)) == (twin.used_bytes, len(twin.held))
    assert (server.hits, server.misses) == (hits, reads - hits)


def test_events_are_what_a_sampler_tells_in_the_order_in_which_it_happens() -> None:
    """Objects of 172 bytes, of which two fit, for five seconds; a read a second."""
    sizes = np.full(4, 100, np.uint32)
    server = SimulatedServer(1, sizes, BASELINE_BYTES + 2 * 172, ttls_seconds=TTL_SECONDS)
    keys = np.array([0, 1, 0, 2, 3, 3, 3, 3, 3, 3, 3])
    events = server_events(server.read(keys, 0.0, 11.0), sizes, TTL_SECONDS)
    told = [
        (Operation(what).name, key)
        for what, key in zip(events.operations, events.keys, strict=True)
    ]
    assert told == [
        *(("READ_MISS", 0), ("WRITE", 0), ("READ_MISS", 1), ("WRITE", 1), ("READ_HIT", 0)),
        *(("READ_MISS", 2), ("WRITE", 2), ("EVICTION", 1)),
        *(("READ_MISS", 3), ("WRITE", 3), ("EVICTION", 0)),
        *[("READ_HIT", 3)] * 3,
        *(("EXPIRY", 2), ("READ_HIT", 3)),
        *(("EXPIRY", 3), ("READ_MISS", 3), ("WRITE", 3), ("READ_HIT", 3)),
    ]
    assert events.ttls_ms[[1, 4]].tolist() == [5000, 3000]
    assert events.sizes_bytes[[0, 1, 4, 7]].tolist() == [0, 100, 100, 0]
    assert events.times_seconds[[0, 1, -1]].tolist() == [0.5, 0.5, 10.5]


def test_a_smaller_size_is_told_before_the_next_read() -> None:
    server = SimulatedServer(1, np.full(4, 100, np.uint32), BASELINE_BYTES + 3 * 172)
    server.read(np.array([0, 1, 2]), 0.0, 3.0)
    server.resize(BASELINE_BYTES + 172)
    events = server_events(server.read(np.array([2]), 3.0, 4.0), server.sizes_bytes, 0.0)
    assert events.operations.tolist() == [Operation.EVICTION] * 2 + [Operation.READ_HIT]
    assert events.keys.tolist() == [0, 1, 2]


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
    outcome = one_shared_server(mix, requests, EXACT_SAMPLES)
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
        simulated = simulate(mix, requests, Division(), sizes, exact_lru)
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
    equal = simulate(mix, requests, Division(), None, exact_lru).access_seconds()
    static = simulate(mix, requests, Division(), best, exact_lru).access_seconds()
    assert oracle.best_of_each_window().access_seconds() <= static < equal


class SidecarView(Division):
    """Looks at the sizes in force each time that a server is asked."""

    def __init__(self, inner: Division) -> None:
        self.inner = inner
        self.totals: set[int] = set()

    def begin(self, mix: Mix, servers: list[SimulatedServer]) -> None:
        self.servers = servers
        self.inner.begin(mix, servers)

    def follow(self, place, served) -> None:
        self.totals.add(sum(server.maxmemory_bytes for server in self.servers))
        self.inner.follow(place, served)

    def sizes_bytes(self, now_seconds: float) -> Sequence[int] | None:
        sizes = self.inner.sizes_bytes(now_seconds)
        self.applied = self.inner.applied
        return sizes


DIVISIONS = {
    "climber": Climber(),
    "SPREDS": SpredsDivision(1.0, 7),
    "by use": ByUse(),
    "annealed": Annealed(7),
}


@pytest.mark.parametrize("division", DIVISIONS.values(), ids=DIVISIONS)
def test_who_divides_moves_memory_and_never_exceeds_the_budget(
    uneven: tuple[Mix, list[Requests]], division: Division
) -> None:
    mix, requests = uneven
    watched = SidecarView(division)
    outcome = simulate(mix, requests, watched)
    assert max(watched.totals) <= mix.budget_bytes
    assert 0 < outcome.moves <= outcome.changes
    assert outcome.moved_bytes > 0
    assert outcome.sizes_bytes[-1, 0] > outcome.sizes_bytes[-1, 1]


def test_who_anneals_moves_no_server_by_more_than_a_step(
    uneven: tuple[Mix, list[Requests]], monkeypatch: pytest.MonkeyPatch
) -> None:
    mix, requests = uneven
    steps: list[float] = []
    real = Annealed._annealed

    def noted(annealed: Annealed, sizes: FloatArray) -> FloatArray:
        found = real(annealed, sizes)
        steps.append(float(np.abs(found / sizes - 1).max()))
        assert found.sum() <= sizes.sum() + 1e-6
        return found

    monkeypatch.setattr(Annealed, "_annealed", noted)
    simulate(mix, requests, Annealed(7))
    assert 0.01 < max(steps) <= 0.05 + 1e-9


def test_what_a_division_is_worth_is_the_memory_that_equal_shares_would_need() -> None:
    equal = {0.5: 0.020, 1.0: 0.010, 2.0: 0.006}
    assert _worth_ratio(0.010, equal) == 1.0
    assert _worth_ratio(0.008, equal) == pytest.approx(1.5)
    assert _worth_ratio(0.015, equal) == pytest.approx(0.75)
    assert _worth_ratio(0.030, equal) == 0.5
    assert _worth_ratio(0.005, equal) is None
    assert _worth_ratio(0.005, None) is None


def test_the_same_trace_again_is_the_same_load(uneven: tuple[Mix, list[Requests]]) -> None:
    _, (_, narrow) = uneven
    assert [len(keys) for keys in narrow.cycles] == [4000, 4000, 0, 4000]
    assert len(narrow.sizes_bytes) == 60
    # It goes on where it was: 8,000 of 9,000 had been asked for.
    assert narrow.cycles[3][1000:].tolist() == narrow.cycles[0][:3000].tolist()


def test_an_outcome_weighs_servers_by_weight_and_reads(uneven: tuple[Mix, list[Requests]]) -> None:
    mix, _ = uneven
    reads, misses = np.array([[10.0, 30.0]] * 2), np.array([[10.0, 0.0], [5.0, 15.0]])
    outcome = Outcome(mix, reads, misses, np.zeros((2, 2)))
    assert outcome.access_seconds(0, 1) == pytest.approx((10 * 0.040 + 30 * 0.0002) / 40)
    assert outcome.access_seconds(1) == pytest.approx((5 * 0.040 + 15 * 0.020 + 20 * 0.0002) / 40)

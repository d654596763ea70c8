"""A server's sampling rate finds itself: enough keys for its curve, no more samples than it may
cost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.config.sampling import DEFAULT_RATE, SamplingConfig
from sidecar.curves import sampling_rate
from sidecar.curves.miniature_caches import EvictionSettings
from sidecar.curves.miniature_simulation import MiniatureSimulation
from sidecar.curves.monitor import ServerMonitor
from sidecar.curves.sampling_rate import LOOK_SECONDS, MOST_SAMPLES_PER_SECOND, SamplingRate
from sidecar.samples.batch import decode_batch
from sidecar.samples.sampler_key import SamplerKey
from sidecar.samples.wire_format import DEFAULT_MODULUS, Operation
from tests.sidecar.fixtures import StartServer, WriteNode
from tests.sidecar.monitored_load import STATS
from workloads.local_node import sidecar_in_thread, wait_until
from workloads.sample_batches import SampledServer, number_hashes

LIVE_OBJECTS = 1024
FIRST = round(DEFAULT_RATE * DEFAULT_MODULUS)


class Sampled:
    """A server whose sampler does what it is told, a monitor, and who chooses the rate."""

    def __init__(self, *, is_automatic: bool = True, threshold: int = FIRST) -> None:
        self.key = SamplerKey()
        sampling = SamplingConfig("", is_automatic, threshold, live_objects=LIVE_OBJECTS)
        self.rate = SamplingRate(sampling, self.key)
        self.monitor = ServerMonitor("a", live_objects=LIVE_OBJECTS)
        self.monitor.previous = replace(STATS, keys=0)  # it has just begun
        self.sampler = SampledServer(instance=7)
        self.now_seconds = 0.0
        self._generator = np.random.default_rng(1)

    def serve(self, keys: int, reads_per_second: int, looks: int = 1) -> None:
        """Reads of keys that are all asked for alike, until the rate was looked at so often."""
        for _ in range(looks):
            self.sampler.threshold = self.key.threshold
            reads = self._generator.integers(0, keys, round(reads_per_second * LOOK_SECONDS))
            self.now_seconds += LOOK_SECONDS
            for batch in self.sampler.batches(
                number_hashes(reads, 0), Operation.READ_HIT, 100, times_us=self.now_seconds * 1e6
            ):
                self.monitor.take(decode_batch(batch))
            self.rate.look(self.monitor, self.now_seconds)


@pytest.mark.parametrize(("keys", "least", "most"), [(300, 300, 300), (20_000, 256, LIVE_OBJECTS)])
def test_of_a_small_cache_all_keys_are_sampled_and_of_a_large_one_enough(
    keys: int, least: int, most: int
) -> None:
    """At the default rate these would be 3 and 200."""
    one = Sampled()
    one.serve(keys, 200, looks=60)
    assert least <= len(one.monitor.shards) <= most
    # What the monitor drops costs little: the sampler follows it.
    assert one.key.threshold <= 4 * (one.monitor.shards.threshold or 0)


def test_what_was_learnt_goes_on_when_the_rate_rises() -> None:
    one = Sampled()
    one.serve(300, 500)
    seen = []
    for _ in range(30):
        one.serve(300, 500)
        seen.append(one.monitor.shards.stack.total_weight / one.monitor.shards.rate)
    assert one.key.threshold == DEFAULT_MODULUS
    known = [weight for weight in seen if weight]
    # Three keys of a hundred are a rough sample; never is the stack begun anew.
    assert min(known[known.index(max(known)) :]) >= 0.9 * 300 * 100


@pytest.mark.parametrize("keys", [20, 40, 100, 500])
def test_of_a_very_small_cache_all_keys_are_known_within_minutes(keys: int) -> None:
    """Three keys of it that happened to be sampled stood for three hundred, for a whole cycle."""
    one = Sampled()
    one.serve(keys, 50, looks=20)
    assert len(one.monitor.shards) == keys


def test_it_rises_at_most_once_a_minute() -> None:
    one = Sampled()
    changed = []
    for _ in range(60):
        before = one.key.threshold
        one.serve(100_000, 100)
        if one.key.threshold > before:
            changed.append(one.now_seconds)
    assert changed
    assert np.diff(changed).min(initial=60.0) >= 60.0


def test_a_busy_server_sends_no_more_samples_than_they_may_cost() -> None:
    one = Sampled()
    one.serve(300, 100, looks=30)
    assert one.key.threshold == DEFAULT_MODULUS
    one.serve(300, 40_000, looks=3)
    rate = one.key.threshold / DEFAULT_MODULUS
    assert rate * 40_000 <= 1.1 * MOST_SAMPLES_PER_SECOND
    one.serve(300, 4_000_000 // 10, looks=2)
    assert one.key.threshold >= FIRST  # nor fewer than the default: a curve comes first


def test_a_large_server_is_not_taken_for_a_small_one_before_it_answers() -> None:
    one = Sampled()
    one.monitor.previous = None
    one.serve(100_000, 100, looks=5)
    assert one.key.threshold == FIRST
    one.monitor.previous = replace(STATS, keys=100_000)
    one.serve(100_000, 100, looks=5)
    assert one.key.threshold <= FIRST


def test_a_rate_that_is_given_stays() -> None:
    one = Sampled(is_automatic=False, threshold=77)
    one.serve(300, 100, looks=20)
    assert one.key.threshold == 77


def test_policies_that_are_simulated_are_sampled_at_the_default_rate() -> None:
    """Each sample goes through 48 small caches."""
    one = Sampled()
    one.serve(300, 100, looks=20)
    settings_ = EvictionSettings()
    one.monitor.shards.simulation = MiniatureSimulation(np.array([1e6]), settings_)
    one.serve(300, 100)
    assert one.key.threshold == FIRST


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(0, 3000)), min_size=1, max_size=20))
def test_it_is_always_one_that_can_be(loads: list[tuple[int, int]]) -> None:
    one = Sampled()
    for keys, reads_per_second in loads:
        one.serve(keys, reads_per_second, looks=2)
        assert 1 <= one.key.threshold <= DEFAULT_MODULUS
        assert len(one.monitor.shards) <= LIVE_OBJECTS


def test_a_real_server_gets_it(
    start_server: StartServer,
    write_node: WriteNode,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """By default; and after a restart it is sampled at once as it was."""
    monkeypatch.setattr(sampling_rate, "LOOK_SECONDS", 0.3)
    # Reads that wait for a busy machine come all at once, and would be too many for such a look.
    monkeypatch.setattr(sampling_rate, "MOST_SAMPLES_PER_SECOND", 1e9)
    caplog.set_level("INFO")
    server = start_server("16mb")
    node = write_node({"a": server.url})
    node.write_text(node.read_text().replace("rate = 0.5\n", ""))

    def read_and_look() -> bool:
        server.client.mget([f"key:{number}" for number in range(40)])
        knobs = server.client.config_get("*threshold")
        return str(DEFAULT_MODULUS) in knobs.values()

    server.client.mset({f"key:{number}": "x" * 100 for number in range(40)})
    with sidecar_in_thread(node) as sidecar:
        wait_until(read_and_look, sidecar.metrics.snapshot)
        wait_until(
            lambda: read_and_look() and len(sidecar._monitors["a"].shards) == 40,
            lambda: len(sidecar._monitors["a"].shards),
        )
    assert ", 1 of its keys from now on" in caplog.text
    assert "somebody had changed" not in caplog.text
    monkeypatch.setattr(sampling_rate, "LOOK_SECONDS", 1e9)
    with sidecar_in_thread(node) as sidecar:
        wait_until(read_and_look, sidecar.metrics.snapshot)

"""The look-aside client does what an obvious one does, and the server counts the same."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workloads.load import Load, zipf_load
from workloads.local_server import LocalServer
from workloads.lookaside import LookAsideClient, ServerRefusedError, replay


@pytest.fixture(scope="module")
def server():
    with LocalServer({"maxmemory-policy": "allkeys-lru"}) as server:
        yield server


def naive_hits(keys: list[bytes]) -> int:
    """Of a cache without a limit: one request after the other."""
    cache: set[bytes] = set()
    hits = 0
    for key in keys:
        hits += key in cache
        cache.add(key)
    return hits


def make_load(keys: list[bytes], sizes_bytes: list[int], seconds: list[float]) -> Load:
    return Load(keys, sizes_bytes, np.array(seconds), "for a test")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    requests=st.lists(
        st.tuples(st.sampled_from("abcdefghijkl"), st.integers(0, 3000), st.floats(0, 9)),
        min_size=1,
        max_size=300,
    )
)
def test_tally_is_that_of_one_request_after_the_other(server, requests):
    keys, sizes, seconds = (list(part) for part in zip(*requests, strict=True))
    texts = [key.encode() for key in keys]
    server.client.flushall()
    server.client.config_resetstat()
    with LookAsideClient(server.url, cache_latency_seconds=0.5) as client:
        replay(make_load(texts, sizes, seconds), client)
        tally = client.tally
    assert tally.requests == len(requests)
    assert tally.hits == naive_hits(texts)
    info = server.client.info("stats")
    assert (info["keyspace_hits"], info["keyspace_misses"]) == (
        tally.hits,
        tally.requests - tally.hits,
    )
    first = {}
    for text, size, cost in zip(texts, sizes, seconds, strict=True):
        first.setdefault(text, (size, cost))
    assert tally.access_seconds == pytest.approx(
        tally.hits * 0.5 + sum(cost for _, cost in first.values())
    )
    for text, (size, _) in first.items():
        assert server.client.strlen(text) == max(1, size - len(text))


def test_large_values_and_ttl(server):
    server.client.flushall()
    with LookAsideClient(server.url, ttl_seconds=100) as client:
        replay(make_load([b"large", b"k", b"large"], [1 << 20, 2, 1 << 20], [1.0] * 3), client)
        assert client.tally.hits == 1
    assert server.client.strlen("large") == (1 << 20) - 5
    assert 99_000 < server.client.pttl("k") <= 100_000


def test_a_slept_miss_is_filled_only_when_its_backend_answers(server):
    server.client.flushall()
    with LookAsideClient(server.url, sleeps=True) as client:
        client.request([b"slow", b"slow", b"quick"], [10, 10, 10], [1000.0, 2000.0, 0.0])
        assert client.tally.hits == 0
        client.fill_due()
        client.request([b"slow", b"quick"], [10, 10], [1000.0, 0.0])
        assert client.tally.hits == 1
        assert server.client.exists("slow") == 0
        client.fill_due(now=float("inf"))
        client.request([b"slow"], [10], [0.0])
        assert client.tally.hits == 2
        client.finish()


def test_refusals_of_the_server_are_errors():
    with LocalServer({"maxmemory": "1mb", "maxmemory-policy": "noeviction"}) as server:
        with (
            LookAsideClient(server.url) as client,
            pytest.raises(ServerRefusedError, match="OOM"),
        ):
            replay(make_load([b"a", b"b"], [1 << 20] * 2, [0.0] * 2), client)
        server.client.config_set("requirepass", "secret")
        with pytest.raises(ServerRefusedError, match="WRONGPASS"):
            LookAsideClient(f"{server.url}?password=wrong")
        with LookAsideClient(f"{server.url}?password=secret") as client:
            client.request([], [], [])


def test_a_zipf_load_has_its_popularities_and_is_reproducible():
    def make(seed: int) -> Load:
        return zipf_load(
            request_count=200_000,
            key_count=50,
            skew=0.9,
            mean_bytes=1000,
            backend_latency_seconds=0.02,
            seed=seed,
        )

    load, same, other = make(1), make(1), make(2)
    assert load.keys == same.keys
    assert load.sizes_bytes == same.sizes_bytes
    assert (load.backend_seconds == same.backend_seconds).all()
    assert load.keys != other.keys
    weights = np.arange(1, 51) ** -0.9
    counts = Counter(load.keys)
    for rank, probability in enumerate(weights / weights.sum()):
        spread = (probability / len(load)) ** 0.5
        assert counts[b"key:%d" % rank] / len(load) == pytest.approx(probability, abs=6 * spread)
    assert load.backend_seconds.mean() == pytest.approx(0.02, rel=0.02)
    sizes = dict(zip(load.keys, load.sizes_bytes, strict=True))
    assert all(sizes[k] == s for k, s in zip(load.keys, load.sizes_bytes, strict=True))

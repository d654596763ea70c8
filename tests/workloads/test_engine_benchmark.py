"""The engine's benchmark: what it feeds the engine, and that memory does not grow with the keys."""

from __future__ import annotations

import json
import sys
from collections import OrderedDict
from pathlib import Path

import numpy as np

from sidecar.config.sampling import LIVE_OBJECTS
from sidecar.samples.batch import decode_batch
from sidecar.samples.wire_format import Operation
from workloads.bench.curves.engine_streams import sampled_stream, zipf_requests
from workloads.bench.curves.engine_verb import errors_of_salts, list_distances
from workloads.processes import finished

ROOT = Path(__file__).resolve().parents[2]


def memory(keys: int) -> dict[str, int]:
    done = finished(
        [sys.executable, "-m", "workloads.bench.curves.engine_memory", str(keys)], check=True
    )
    told: dict[str, int] = json.loads(done.stdout)
    return told


def test_a_monitors_memory_does_not_depend_on_the_number_of_keys() -> None:
    few, many = memory(4 * 10**5), memory(16 * 10**5)
    assert many["samples"] > 3.9 * few["samples"]
    for told in (few, many):
        assert 0.85 * LIVE_OBJECTS < told["live_objects"] <= LIVE_OBJECTS
    # Of these 1.6 MB simulate LFU beside.
    assert many["live_bytes"] < 1.1 * few["live_bytes"] < 16_600_000
    assert many["peak_bytes"] < 1.1 * few["peak_bytes"] < 19_600_000


def test_stream_is_that_of_a_look_aside_cache() -> None:
    requests = zipf_requests(3000, 20_000)
    batches = [decode_batch(message) for message in sampled_stream(requests, 500, 30_000)]
    records = np.concatenate([batch.records for batch in batches])
    assert len(np.unique(records["hash"])) == 500
    held: OrderedDict[int, None] = OrderedDict()
    for key, operation in zip(records["hash"].tolist(), records["operation"].tolist(), strict=True):
        if operation in (Operation.READ_HIT, Operation.DELETE):
            assert key in held
        if operation == Operation.READ_MISS:
            assert key not in held
        elif operation == Operation.EVICTION:
            assert key == next(iter(held))
        if operation in (Operation.DELETE, Operation.EVICTION):
            del held[key]
        elif operation != Operation.READ_MISS:
            held[key] = None
            held.move_to_end(key)
    counts = np.bincount(records["operation"], minlength=9)
    assert all(counts[operation] for operation in (1, 2, 3, 4, 6))


def test_all_the_objects_make_no_error_but_the_buckets_width() -> None:
    requests = zipf_requests(2000, 20_000)
    *_, exact = errors_of_salts(requests, 4096, 2)
    assert max(exact.linear) < 1e-3
    assert max(exact.log) < 4e-3


def test_list_to_compare_with_gives_stack_distances() -> None:
    keys = np.random.default_rng(3).integers(0, 20, 300).tolist()
    told = list_distances([keys[:100], keys[100:]])
    expected = []
    for place, key in enumerate(keys):
        if key in keys[:place]:
            before = place - 1 - keys[:place][::-1].index(key)
            expected.append(len(set(keys[before + 1 : place])))
    assert told == expected

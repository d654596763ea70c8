"""`spreds mrc --ttl` against caches that forget, one for each size."""

from __future__ import annotations

import json
from collections import OrderedDict
from contextlib import nullcontext

import numpy as np
import pytest

from sidecar.cli import main
from tests.oracles.mrc_in_python import mrc_in_python


def forgetful_cache_misses(
    requests: list[tuple[float, int, int]], size: int, ttl_seconds: float
) -> float:
    """The miss ratio of one LRU cache whose objects leave when their time has come."""
    held: OrderedDict[int, tuple[int, float]] = OrderedDict()
    misses = 0
    for now, key, weight in requests:
        for gone in [key for key, (_, end) in held.items() if end < now]:
            del held[gone]
        if key in held:
            held.move_to_end(key)
            continue
        misses += 1
        held[key] = weight, now + ttl_seconds
        while sum(weight for weight, _ in held.values()) > size:
            held.popitem(last=False)
    return misses / len(requests)


def timed_requests(count: int, keys: int, exponent: float) -> list[tuple[float, int, int]]:
    random = np.random.default_rng(3)
    popularity = np.arange(1, keys + 1) ** -exponent
    drawn = random.choice(keys, count, p=popularity / popularity.sum()).tolist()
    times = np.sort(random.random(count) * 1000).round(2).tolist()
    return [(now, key, 100 + key % 50 * 10) for now, key in zip(times, drawn, strict=True)]


@pytest.mark.parametrize("how", [[], ["--bytes"]])
@pytest.mark.parametrize("is_compiled", [True, False])
@pytest.mark.parametrize(
    ("exponent", "ttl_seconds", "allowed"),
    [(0.9, 20, 0.012), (0.9, 200, 0.012), (0.9, 5000, 1e-9), (0.0, 60, 0.03)],
)
def test_a_ttl_is_that_of_caches_that_forget(
    tmp_path, capsys, how, is_compiled, exponent, ttl_seconds, allowed
):
    requests = timed_requests(3_000, 200, exponent)
    path = tmp_path / "timed.csv"
    path.write_text("".join(f"{now},{key},{size}\n" for now, key, size in requests))
    arguments = ["mrc", str(path), "--ttl", f"{ttl_seconds}s", "--points", "6", "--json", *how]
    with nullcontext() if is_compiled else mrc_in_python():
        assert main(arguments) == 0
    (found,) = json.loads(capsys.readouterr().out)
    if not how:
        requests = [(now, key, 1) for now, key, _ in requests]
    twin = [forgetful_cache_misses(requests, size, ttl_seconds) for size in found["sizes"]]
    assert found["miss_ratios"] == pytest.approx(twin, abs=allowed)
    endless = forgetful_cache_misses(requests, 10**9, ttl_seconds)
    assert found["compulsory_miss_ratio"] == pytest.approx(endless, abs=1e-9)


@pytest.mark.parametrize("how", [["--ttl", "200s"], ["--policy", "allkeys-lfu"]])
def test_a_size_for_a_hit_ratio_does_not_depend_on_what_is_printed(tmp_path, capsys, how):
    path = tmp_path / "timed.csv"
    requests = timed_requests(3_000, 200, 0.9)
    path.write_text("".join(f"{now},{key},{size}\n" for now, key, size in requests))
    answers = []
    for points in ("1", "20"):
        arguments = ["mrc", str(path), "--hit-ratio", "0.5", "--points", points, "--json", *how]
        assert main(arguments) == 0
        (found,) = json.loads(capsys.readouterr().out)
        assert len(found["sizes"]) == int(points)
        answers.append(found["for_hit_ratios"])
    assert answers[0] == answers[1]
    assert answers[0][0]["size"] < found["sizes"][-1] / 2


def test_a_format_without_times_is_refused(tmp_path, capsys):
    path = tmp_path / "a.trace"
    path.write_bytes(bytes(8))
    assert main(["mrc", str(path), "--ttl", "9s"]) == 2
    captured = capsys.readouterr()
    assert "cache2k traces have no times, so nothing can expire" in captured.err
    assert captured.out == ""

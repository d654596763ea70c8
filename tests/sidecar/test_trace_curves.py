"""Curves of whole traces: compiled and pure against an obvious LRU stack, and known numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.cli import main
from sidecar.commands import mrc as command_mrc
from sidecar.mrc.compiled import CompiledStack
from sidecar.mrc.library import library
from sidecar.mrc.pure import PureStack
from sidecar.mrc.trace_curve import TraceCurve, estimate_curve
from sidecar.traces.chunk import TraceChunk
from sidecar.traces.reader import load_trace, read_trace

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "traces"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/traces is not here")
needs_library = pytest.mark.skipif(library() is None, reason="the C library is not compiled")
both = pytest.mark.parametrize(
    "compiled", [pytest.param(True, marks=needs_library, id="compiled"), False]
)


def chunk(keys: list[int], sizes: list[int] | None = None) -> TraceChunk:
    return TraceChunk(
        np.zeros(len(keys)),
        np.array(keys, dtype=np.uint64),
        np.array(sizes or [1] * len(keys), dtype=np.uint32),
    )


def naive_distances(keys: list[int], weights: list[int]) -> tuple[list[int], int]:
    """For each request but the first ones for a key: the smallest cache that hits it."""
    stack: list[tuple[int, int]] = []  # most recent first
    distances, cold = [], 0
    for key, weight in zip(keys, weights, strict=True):
        place = next((i for i, (other, _) in enumerate(stack) if other == key), None)
        if place is None:
            cold += 1
        else:
            distances.append(sum(weight for _, weight in stack[: place + 1]))
            del stack[place]
        stack.insert(0, (key, weight))
    return sorted(distances), cold


requests = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5000)), min_size=1, max_size=300)


@both
@given(requests=requests, pieces=st.integers(1, 4))
def test_exact_by_objects_is_the_naive_stack(compiled, requests, pieces):
    keys = [key for key, _ in requests]
    distances, cold = naive_distances(keys, [1] * len(keys))
    curve = estimate_curve(
        [chunk(list(part)) for part in np.array_split(keys, pieces)], compiled=compiled
    )
    assert curve.requests == curve.sampled == len(keys)
    assert curve.live_objects == cold == len(set(keys))
    assert curve.compulsory_miss_ratio == pytest.approx(cold / len(keys))
    for size in range(45):
        hits = sum(distance <= size for distance in distances)
        assert curve.miss_ratio(size) == pytest.approx(1 - hits / len(keys))


@both
@given(requests=requests)
def test_exact_by_bytes_is_the_naive_stack_within_a_bin(compiled, requests):
    keys, sizes = [key for key, _ in requests], [size for _, size in requests]
    distances, cold = naive_distances(keys, [max(1, size) for size in sizes])
    curve = estimate_curve([chunk(keys, sizes)], in_bytes=True, compiled=compiled)
    assert curve.compulsory_miss_ratio == pytest.approx(cold / len(keys))
    found = np.repeat(
        curve.sizes,
        np.rint(-np.diff(curve.miss_ratios, prepend=1.0) * len(keys)).astype(int),
    )
    assert len(found) == len(distances)
    assert found.tolist() == pytest.approx(distances, rel=2**-10)


@both
@given(
    seed=st.integers(0, 100),
    rate=st.sampled_from([1.0, 0.3, 0.02]),
    limit=st.sampled_from([None, 1, 20]),
    in_bytes=st.booleans(),
)
def test_a_curve_is_within_bounds_and_never_increases(compiled, seed, rate, limit, in_bytes):
    random = np.random.default_rng(seed)
    keys = random.zipf(1.3, 3000) % 500
    sizes = random.integers(0, 3000, 3000)
    curve = estimate_curve(
        [chunk(keys.tolist(), sizes.tolist())],
        rate=rate,
        limit_objects=limit,
        in_bytes=in_bytes,
        salt=seed,
        compiled=compiled,
    )
    assert np.all((curve.miss_ratios >= 0) & (curve.miss_ratios <= 1))
    assert np.all(np.diff(curve.miss_ratios) <= 0)
    assert np.all(np.diff(curve.sizes) > 0)
    if limit is not None:
        assert curve.live_objects <= limit


@needs_library
@given(seed=st.integers(0, 1000), rate=st.sampled_from([1.0, 0.4, 0.05]), in_bytes=st.booleans())
def test_compiled_and_pure_take_the_same_sample(seed, rate, in_bytes):
    random = np.random.default_rng(seed)
    taken = chunk(
        (random.zipf(1.2, 4000) % 1000).tolist(), random.integers(0, 1 << 20, 4000).tolist()
    )
    stacks = [kind(in_bytes=in_bytes, rate=rate, salt=seed) for kind in (CompiledStack, PureStack)]
    for stack in stacks:
        stack.take(taken)
    fast, slow = stacks
    assert (fast.sampled, fast.live_objects) == (slow.sampled, slow.live_objects)
    assert fast.cold == pytest.approx(slow.cold)
    (fast_at, fast_counts), (slow_at, slow_counts) = (stack.histogram() for stack in stacks)
    # The compiled bins are at most 0.1 % wide, and named by their largest distance.
    bins = np.searchsorted(fast_at, slow_at)
    assert np.all(fast_at[bins] <= slow_at * (1 + 2**-10))
    assert np.bincount(bins, slow_counts) == pytest.approx(fast_counts)


@both
def test_sampled_curves_are_close_to_the_exact_one(compiled):
    random = np.random.default_rng(5)
    weights = np.arange(1, 20_001) ** -0.9
    keys = random.choice(20_000, 150_000, p=weights / weights.sum())
    taken = [chunk(part.tolist()) for part in np.array_split(keys, 3)]
    exact = estimate_curve(taken, compiled=compiled)
    grid = np.linspace(200, 20_000, 100)

    def error(**how: float) -> float:
        """Median of salts of the mean absolute error."""
        return float(
            np.median(
                [
                    np.abs(
                        estimate_curve(taken, salt=salt, compiled=compiled, **how).miss_ratio(grid)
                        - exact.miss_ratio(grid)
                    ).mean()
                    for salt in range(5)
                ]
            )
        )

    assert error(rate=0.1) < 0.02
    assert error(limit_objects=2000) < 0.01
    assert estimate_curve(taken, limit_objects=30_000, compiled=compiled).miss_ratio(
        grid
    ) == pytest.approx(exact.miss_ratio(grid), abs=1e-4)


@both
def test_unusual_traces(compiled):
    assert estimate_curve([], compiled=compiled).miss_ratio([0, 5]).tolist() == [1, 1]
    one = estimate_curve([chunk([7] * 1000)], compiled=compiled)
    assert one.miss_ratio([0, 1]).tolist() == pytest.approx([1, 0.001])
    huge = estimate_curve([chunk([2**64 - 1, 0, 2**64 - 1])], compiled=compiled)
    assert huge.miss_ratio([1, 2]).tolist() == pytest.approx([1, 2 / 3])
    nothing = estimate_curve([chunk([1, 1, 1])], rate=1e-9, compiled=compiled)
    assert (nothing.requests, nothing.sampled) == (3, 0)


def test_size_for_a_hit_ratio():
    curve = TraceCurve(np.array([10.0, 20.0]), np.array([0.5, 0.1]), 10, 10, 2, 0.1)
    assert curve.size_for_hit_ratio(0.5) == 10
    assert curve.size_for_hit_ratio(0.6) == 20
    assert curve.size_for_hit_ratio(0.9) == 20
    assert curve.size_for_hit_ratio(0.91) is None
    assert curve.miss_ratio([0, 9, 10, 19, 20, 99]).tolist() == [1, 1, 0.5, 0.5, 0.1, 0.1]


@needs_shared
@needs_library
@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("orm-busy", [0.2296, 0.1587, 0.1199, 0.0663, 0.0328]),
        ("orm-night", [0.3375, 0.1460, 0.0652, 0.0395, 0.0229]),
    ],
)
def test_numbers_known_for_the_real_traces(name, known):
    """The numbers stand in the README beside the traces (cache2k, Jens Wilke, CC BY 4.0)."""
    whole = load_trace(SHARED / "cache2k" / f"{name}.trace.xz")
    exact = estimate_curve([whole])
    sizes = [exact.live_objects * percent // 100 for percent in (1, 5, 10, 25, 50)]
    assert exact.miss_ratio(sizes).tolist() == pytest.approx(known, abs=1e-4)
    grid = exact.live_objects * np.linspace(0.01, 1, 100)
    for how in ({"rate": 0.1}, {"limit_objects": 8192}):
        sampled = estimate_curve([whole], **how)
        assert np.abs(sampled.miss_ratio(grid) - exact.miss_ratio(grid)).mean() < 0.004


# ------------------------------------------------------------------ the command


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "small.csv"
    path.write_text("time,key,size\n" + "".join(f"{i},{i % 5},100\n" for i in range(50)))
    return path


def test_command_answers_in_json(trace, capsys):
    arguments = ["mrc", str(trace), "--points", "5", "--hit-ratio", "0.9", "--json"]
    assert main([*arguments, "--hit-ratio", "0.95"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["requests"] == 50
    assert found["unit"] == "objects"
    assert found["sizes"] == [1, 2, 3, 4, 5]
    assert found["miss_ratios"] == pytest.approx([1, 1, 1, 1, 0.1])
    assert found["for_hit_ratios"] == [
        {"hit_ratio": 0.9, "size": 5},
        {"hit_ratio": 0.95, "size": None},
    ]


def test_command_prints_and_draws(trace, tmp_path, capsys):
    plot = tmp_path / "curve.svg"
    assert main(["mrc", str(trace), "--bytes", "--hit-ratio", "0.9", "--plot", str(plot)]) == 0
    captured = capsys.readouterr()
    assert "hit ratio 0.9: 500b" in captured.out
    assert "\r" not in captured.err  # no bar off a terminal
    assert plot.read_text().lstrip().startswith("<?xml")


def test_command_says_that_it_is_slow_without_the_library(trace, capsys, monkeypatch):
    monkeypatch.setattr(command_mrc, "library", lambda: None)
    assert main(["mrc", str(trace)]) == 0
    assert "this is slow" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone.csv"], "gone.csv: cannot be read"),
        (["{trace}", "--plot", "{trace}.nothing"], "nothing"),
        (["{trace}", "--format", "cache2k"], "record"),
    ],
)
def test_command_refuses_with_one_sentence(trace, capsys, arguments, message):
    assert main(["mrc", *(a.replace("{trace}", str(trace)) for a in arguments)]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    "arguments", [["--rate", "0"], ["--rate", "2"], ["--objects", "0"], ["--hit-ratio", "90"]]
)
def test_command_refuses_bad_options(trace, capsys, arguments):
    with pytest.raises(SystemExit) as stopped:
        main(["mrc", str(trace), *arguments])
    assert stopped.value.code == 2
    assert arguments[1] in capsys.readouterr().err


def test_progress_goes_to_the_end(trace):
    shares: list[float] = []
    list(read_trace(trace, progress=shares.append))
    assert shares[-1] == 1.0
    assert shares == sorted(shares)

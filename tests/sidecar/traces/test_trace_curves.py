"""Curves of whole traces: compiled and pure against an obvious LRU stack, and known numbers."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import lzma
import struct
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.cli import main
from sidecar.commands.mrc.mrc_options import read_plainly
from sidecar.commands.parser import make_parser
from sidecar.mrc.trace_curve import TraceCurve, estimate_curve, estimate_curve_of_file
from sidecar.mrc.trace_stack import TraceStack, take_file
from sidecar.traces import file
from sidecar.traces.chunk import TraceChunk
from sidecar.traces.file import TraceError
from sidecar.traces.read_options import ReadOptions
from sidecar.traces.trace_reader import load_trace, read_trace
from tests.examples import examples
from tests.oracles.mrc_in_python import mrc_in_python
from tests.oracles.trace_stack import PureStack

SHARED = Path(__file__).resolve().parents[3].parent / "shared" / "traces"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/traces is not here")
both = pytest.mark.parametrize("compiled", [pytest.param(True, id="compiled"), False])


def curve_of(chunks: Iterable[TraceChunk], *, compiled: bool, **how: Any) -> TraceCurve:
    with nullcontext() if compiled else mrc_in_python():
        return estimate_curve(chunks, **how)


def curve_of_file(*path: object, compiled: bool, **how: Any) -> TraceCurve:
    with nullcontext() if compiled else mrc_in_python():
        return estimate_curve_of_file(*path, **how)


def chunk(keys: list[int], sizes: list[int] | None = None) -> TraceChunk:
    return TraceChunk(
        np.zeros(len(keys)),
        np.array(keys, dtype=np.uint64),
        np.array(sizes or [1] * len(keys), dtype=np.uint32),
    )


def naive_distances(keys: list[int], weights: list[int]) -> tuple[list[int], int]:
    """Return the smallest cache that hits each request, but for the first ones for a key."""
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


def ratios(curve: TraceCurve, sizes: npt.ArrayLike) -> npt.NDArray[np.float64]:
    return np.array(curve.miss_ratios_at(np.asarray(sizes).tolist()))


requests = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5000)), min_size=1, max_size=300)


@both
@settings(deadline=None)
@given(requests=requests, pieces=st.integers(1, 4))
def test_exact_by_objects_is_the_naive_stack(compiled, requests, pieces):
    keys = [key for key, _ in requests]
    distances, cold = naive_distances(keys, [1] * len(keys))
    curve = curve_of(
        [chunk(list(part)) for part in np.array_split(keys, pieces)], compiled=compiled
    )
    assert curve.requests == curve.sampled == len(keys)
    assert curve.live_objects == cold == len(set(keys))
    assert curve.compulsory_miss_ratio == pytest.approx(cold / len(keys))
    for size in range(45):
        hits = sum(distance <= size for distance in distances)
        assert curve.miss_ratio(size) == pytest.approx(1 - hits / len(keys))


@both
@settings(deadline=None)
@given(requests=requests)
def test_exact_by_bytes_is_the_naive_stack_within_a_bin(compiled, requests):
    keys, sizes = [key for key, _ in requests], [size for _, size in requests]
    distances, cold = naive_distances(keys, [max(1, size) for size in sizes])
    curve = curve_of([chunk(keys, sizes)], in_bytes=True, compiled=compiled)
    assert curve.compulsory_miss_ratio == pytest.approx(cold / len(keys))
    found = np.repeat(
        curve.sizes,
        np.rint(-np.diff(curve.miss_ratios, prepend=1.0) * len(keys)).astype(int),
    )
    assert len(found) == len(distances)
    assert found.tolist() == pytest.approx(distances, rel=2**-10)


@both
@settings(deadline=None)
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
    curve = curve_of(
        [chunk(keys.tolist(), sizes.tolist())],
        rate=rate,
        limit_objects=limit,
        in_bytes=in_bytes,
        salt=seed,
        compiled=compiled,
    )
    assert all(0 <= ratio <= 1 for ratio in curve.miss_ratios)
    assert np.all(np.diff(curve.miss_ratios) <= 0)
    assert np.all(np.diff(curve.sizes) > 0)
    if limit is not None:
        assert curve.live_objects <= limit


@settings(deadline=None)
@given(
    seed=st.integers(0, 1000),
    rate=st.sampled_from([1.0, 0.4, 0.05, 1e-9]),
    limit=st.sampled_from([None, 1, 7, 100]),
    in_bytes=st.booleans(),
    requests=st.integers(0, 3000),
    objects=st.sampled_from([3, 300, 3000]),
)
def test_compiled_and_pure_agree_to_the_last_bit(seed, rate, limit, in_bytes, requests, objects):
    random = np.random.default_rng(seed)
    taken = chunk(
        (random.zipf(1.2, requests) % objects).tolist(),
        random.choice([0, 1, 700, 1 << 20, 2**32 - 1], requests).tolist(),
    )
    stacks = [
        kind(in_bytes=in_bytes, rate=rate, limit_objects=limit, salt=seed)
        for kind in (TraceStack, PureStack)
    ]
    for stack in stacks:
        stack.take(taken)
    fast, slow = stacks
    assert (fast.requests, fast.sampled, fast.live_objects) == (
        slow.requests,
        slow.sampled,
        slow.live_objects,
    )
    assert fast.cold == slow.cold
    for ours, theirs in zip(fast.histogram(), slow.histogram(), strict=True):
        assert list(ours) == list(theirs)


@both
def test_sampled_curves_are_close_to_the_exact_one(compiled):
    random = np.random.default_rng(5)
    weights = np.arange(1, 20_001) ** -0.9
    keys = random.choice(20_000, 150_000, p=weights / weights.sum())
    taken = [chunk(part.tolist()) for part in np.array_split(keys, 3)]
    exact = curve_of(taken, compiled=compiled)
    grid = np.linspace(200, 20_000, 100)

    def error(**how: float) -> float:
        """Return the median of salts of the mean absolute error."""
        return float(
            np.median(
                [
                    np.abs(
                        ratios(curve_of(taken, salt=salt, compiled=compiled, **how), grid)
                        - ratios(exact, grid)
                    ).mean()
                    for salt in range(5)
                ]
            )
        )

    assert error(rate=0.1) < 0.02
    assert error(limit_objects=2000) < 0.01
    everything = curve_of(taken, limit_objects=30_000, compiled=compiled)
    assert ratios(everything, grid) == pytest.approx(ratios(exact, grid), abs=1e-4)


@both
def test_unusual_traces(compiled):
    assert curve_of([], compiled=compiled).miss_ratios_at([0, 5]) == [1, 1]
    one = curve_of([chunk([7] * 1000)], compiled=compiled)
    assert one.miss_ratios_at([0, 1]) == pytest.approx([1, 0.001])
    huge = curve_of([chunk([2**64 - 1, 0, 2**64 - 1])], compiled=compiled)
    assert huge.miss_ratios_at([1, 2]) == pytest.approx([1, 2 / 3])
    nothing = curve_of([chunk([1, 1, 1])], rate=1e-9, compiled=compiled)
    assert (nothing.requests, nothing.sampled) == (3, 0)


def test_size_for_a_hit_ratio():
    curve = TraceCurve([10, 20], [0.5, 0.1], 10, 10, 2, 0.1)
    assert curve.size_for_hit_ratio(0.5) == 10
    assert curve.size_for_hit_ratio(0.6) == 20
    assert curve.size_for_hit_ratio(0.9) == 20
    assert curve.size_for_hit_ratio(0.91) is None
    assert curve.miss_ratios_at([0, 9, 10, 19, 20, 99]) == [1, 1, 0.5, 0.5, 0.1, 0.1]


@needs_shared
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
    assert exact.miss_ratios_at(sizes) == pytest.approx(known, abs=1e-4)
    grid = exact.live_objects * np.linspace(0.01, 1, 100)
    for how in ({"rate": 0.1}, {"limit_objects": 8192}):
        sampled = estimate_curve([whole], **how)
        assert np.abs(ratios(sampled, grid) - ratios(exact, grid)).mean() < 0.004


def write_trace(folder: Path, kind: str, packed: str, requests: list[tuple[int, int]]) -> Path:
    write = {
        "a.csv": lambda key, size: b"7,%d,%d\n" % (key, size),
        "text.csv": lambda key, size: b"7.5,user:%d,%d\n" % (key, size),
        "a.oracleGeneral": lambda key, size: struct.pack("<IQIq", 7, key, size, -1),
        "a.trace": lambda key, size: struct.pack(">i", key - 20),
    }[kind]
    # Some of what is made here would be refused without a header.
    data = b"time,key,size\n" if kind.endswith(".csv") else b""
    data += b"".join(write(key, size) for key, size in requests)
    path = folder / f"{kind}{packed}"
    path.write_bytes({"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[packed](data))
    return path


FORMAT_OF = {"a.trace": "cache2k"}


@settings(deadline=None)
@given(
    requests=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5000)), min_size=1, max_size=99),
    kind=st.sampled_from(["a.csv", "text.csv", "a.oracleGeneral", "a.trace"]),
    packed=st.sampled_from(["", ".gz", ".xz"]),
    how=st.sampled_from([{}, {"rate": 0.3}, {"limit_objects": 5}]),
    in_bytes=st.booleans(),
    times=st.sampled_from([1, 700]),
    block=st.sampled_from([60, 1000, file.BLOCK_BYTES]),
)
def test_files_give_the_same_curve_compiled_and_pure(
    tmp_path_factory, requests, kind, packed, how, in_bytes, times, block
):
    # What is made here may look like other records.
    path = write_trace(tmp_path_factory.mktemp("files"), kind, packed, requests * times)
    in_bytes = in_bytes and kind != "a.trace"
    shares: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file, "BLOCK_BYTES", block)
        fast, slow = (
            curve_of_file(
                path,
                FORMAT_OF.get(kind),
                in_bytes=in_bytes,
                **how,
                compiled=compiled,
                progress=shares.append,
            )
            for compiled in (True, False)
        )
    assert fast == slow
    assert fast.requests == len(requests) * times
    assert shares[-1] == 1.0


@pytest.mark.parametrize(
    "how", [{}, {"in_bytes": True}, {"rate": 0.3}, {"limit_objects": 8, "in_bytes": True}]
)
def test_a_line_that_stands_for_many_requests_counts_as_if_each_had_one(tmp_path, how):
    columns = "op_time,key,key_size,op,op_count,size\n"
    requests = [
        (at, f"k{at * 7 % 30}", 2 + (at * 7919 % 3) * 4000 * (at % 5 == 0)) for at in range(90)
    ]
    together, apart = tmp_path / "together.csv", tmp_path / "apart.csv"
    text = "".join(f"{at},{key},2,GET,{count},{10 + at % 4}\n" for at, key, count in requests)
    together.write_text(columns + text)
    text = "".join(f"{at},{key},2,GET,1,{10 + at % 4}\n" * count for at, key, count in requests)
    apart.write_text(columns + text)
    assert any(count > 4000 for _, _, count in requests)
    counted, spelt = (TraceStack(**{"in_bytes": False, **how}) for _ in range(2))
    take_file([counted], together, None, ReadOptions())
    take_file([spelt], apart, None, ReadOptions())
    assert (counted.requests, counted.sampled) == (spelt.requests, spelt.sampled)
    assert [list(column) for column in counted.histogram()] == [
        pytest.approx(list(column)) for column in spelt.histogram()
    ]
    # A huge count is arithmetic.
    together.write_text(columns + "1,k,2,GET,16777215,10\n" * 5000)
    huge = TraceStack(in_bytes=False)
    take_file([huge], together, None, ReadOptions())
    assert huge.requests == 5000 * 16777215


@both
def test_a_record_that_is_cut_off_is_refused(compiled, tmp_path):
    path = tmp_path / "a.oracleGeneral"
    path.write_bytes(struct.pack("<IQIq", 1, 2, 7, -1) * 3 + b"12345")
    with pytest.raises(TraceError, match="ends with 5 bytes of a record that has 24"):
        curve_of_file(path, compiled=compiled)
    path.write_bytes(b"")
    assert curve_of_file(path, compiled=compiled).requests == 0


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
    assert "hit ratio 0.9: 500 B" in captured.out
    assert "\r" not in captured.err  # no bar off a terminal
    assert plot.read_text().lstrip().startswith("<?xml")


def test_sampled_curves_have_a_standard_error_that_is_about_right(tmp_path):
    """It is what samples by other salts differ by."""
    random = np.random.default_rng(9)
    keys = random.zipf(1.2, 60_000) % 5_000
    path = tmp_path / "a.csv"
    path.write_text("".join(f"1,{key},1\n" for key in keys.tolist()))
    sizes = [50, 200, 1000]
    for how in ({"rate": 0.1}, {"limit_objects": 400}):
        curves = [
            estimate_curve_of_file(path, salt=salt, with_errors=True, **how) for salt in range(12)
        ]
        true = np.std([curve.miss_ratios_at(sizes) for curve in curves], axis=0, ddof=1)
        stated = np.mean([curve.standard_errors_at(sizes) for curve in curves], axis=0)
        assert np.all(stated < 2 * true)
        assert np.all(true < 2 * stated)
    exact = estimate_curve_of_file(path, with_errors=True)
    assert exact.standard_errors_at(sizes) == [0, 0, 0]


def test_a_sampled_curve_is_drawn_with_a_band(trace, tmp_path):
    drawn = []
    for how in (["--rate", "0.9"], []):
        plot = tmp_path / "curve.svg"
        assert main(["mrc", str(trace), *how, "--plot", str(plot)]) == 0
        drawn.append("FillBetween" in plot.read_text())
    assert drawn == [True, False]


@pytest.mark.parametrize("how", [[], ["--bytes"], ["--rate", "0.5"], ["--objects", "3"]])
def test_command_prints_the_same_in_python(trace, capsys, how):
    arguments = ["mrc", str(trace), *how, "--hit-ratio", "0.8", "--json"]
    assert main(arguments) == 0
    compiled = capsys.readouterr().out
    with mrc_in_python():
        assert main(arguments) == 0
    assert capsys.readouterr().out == compiled


@pytest.mark.parametrize(
    ("package", "arguments"),
    [("matplotlib", ["small.csv", "--plot", "a.svg"]), ("backports", ["a.csv.zst"])],
)
def test_command_names_the_package_that_it_lacks(trace, capsys, monkeypatch, package, arguments):
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.chdir(trace.parent)
    Path("a.csv.zst").write_bytes(b"anything")
    assert main(["mrc", *arguments]) == 2
    captured = capsys.readouterr()
    assert f"pip install {package}" in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone.csv"], "gone.csv: cannot be read"),
        (["{trace}", "--plot", "{trace}.nothing"], "nothing"),
        (["{trace}", "--plot", "gone/a.svg"], "--plot gone/a.svg: cannot be written: No such file"),
        (["{trace}", "--format", "cache2k"], "record"),
        (["{trace}", "--format", "cache2k", "--bytes"], "cache2k traces have no sizes"),
        (["-"], "-: standard input needs a --format"),
        (["-", "--policy", "allkeys-lfu"], "reads twice"),
        (["{trace}", "--policy", "allkeys-lfu", "--objects", "3"], "cannot take --objects"),
        (["{trace}", "--policy", "allkeys-lfu", "--points", "1001"], "--points must be at most"),
        (["{trace}", "--policy", "allkeys-lfu", "--errors"], "cannot tell its --errors"),
        (["{trace}", "--policy", "allkeys-lfu", "--ttl", "9s"], "--ttl needs --policy allkeys-lru"),
        (["-", "--ttl", "9s"], "--ttl reads twice"),
    ],
)
def test_command_refuses_with_one_sentence(trace, capsys, arguments, message):
    assert main(["mrc", *(a.replace("{trace}", str(trace)) for a in arguments)]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--rate", "0"],
        ["--rate", "2"],
        ["--objects", "0"],
        ["--hit-ratio", "90"],
        ["--points", "100001"],
        ["--ttl", "0"],
        ["--ttl", "9"],
        ["--points", "1000000000"],
    ],
)
def test_command_refuses_bad_options(trace, capsys, arguments):
    with pytest.raises(SystemExit) as stopped:
        main(["mrc", str(trace), *arguments])
    assert stopped.value.code == 2
    assert arguments[1] in capsys.readouterr().err


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress, zstd.compress])
def test_command_reads_standard_input(trace, capsys, monkeypatch, pack):
    data = io.BufferedReader(io.BytesIO(pack(trace.read_bytes())))  # type: ignore[arg-type]
    assert main(["mrc", str(trace), "--json"]) == 0
    (of_file,) = json.loads(capsys.readouterr().out)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(data))
    assert main(["mrc", "-", "--format", "csv", "--json"]) == 0
    (of_stdin,) = json.loads(capsys.readouterr().out)
    assert of_stdin == of_file | {"trace": "-"}


@pytest.mark.parametrize("how", [[], ["--rate", "0.5"], ["--bytes"]])
def test_lfu_keeps_what_is_read_often_where_lru_does_not(tmp_path, capsys, how):
    """400 keys are read again and again, between keys that are read once."""
    random = np.random.default_rng(4)
    path = tmp_path / "scan.csv"
    lines = []
    for place in range(40_000):
        key = int(random.integers(400)) if place % 2 else 10_000 + place
        lines.append(f"{place // 1000},{key},100\n")
    path.write_text("".join(lines))
    found = {}
    for policy in ("allkeys-lru", "allkeys-lfu"):
        assert main(["mrc", str(path), "--policy", policy, "--json", "--points", "100", *how]) == 0
        (found[policy],) = json.loads(capsys.readouterr().out)
    size = 440 * (100 if "--bytes" in how else 1)
    place = {name: np.searchsorted(one["sizes"], size) for name, one in found.items()}
    lru, lfu = (found[name]["miss_ratios"][place[name]] for name in found)
    assert lru > 0.75
    assert lfu < 0.62
    assert found["allkeys-lfu"]["miss_ratios"][-1] == pytest.approx(0.51, abs=0.03)


def test_lfu_asks_for_the_unit_of_times_that_are_hardly_seconds(tmp_path, capsys):
    path = tmp_path / "us.csv"
    path.write_text("".join(f"{at * 10_000},{at % 7},1\n" for at in range(200)))
    ask = ["mrc", str(path), "--policy", "allkeys-lfu"]
    assert main(ask) == 2
    assert "within the minute by which LFU forgets, the nearest are 10000 s" in (
        capsys.readouterr().err
    )
    assert main([*ask, "--time-unit", "us"]) == 0
    path.write_text("".join(f"{at % 7}\n" for at in range(200)))
    assert main([*ask, "--format", "keys"]) == 0


PLAIN = ["--bytes", "--json", "--rate", "0.5", "--rate=.25", "--objects", "7", "--salt=3", "a.csv"]
PLAIN += ["--points", "4", "--hit-ratio", "0.9", "--hit-ratio=.5", "--plot", "x.svg", "-", "b"]
PLAIN += ["--format=csv", "--rat", "--rate=", "--json=1", "-h", "--", "--salt", "-1", "1e9", "--x"]


@settings(max_examples=examples(300))
@given(words=st.lists(st.sampled_from(PLAIN), max_size=6))
def test_options_mean_the_same_with_and_without_argparse(words):
    plain = read_plainly(words)
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            slow = vars(make_parser(["mrc"]).parse_args(["mrc", *words]))
    except SystemExit:
        assert plain is None
        return
    if plain is not None:  # what is abbreviated is left to argparse
        assert {name: getattr(plain, name) for name in vars(plain)} == {
            name: slow[name] for name in vars(plain)
        }
        assert set(vars(plain)) == set(slow) - {"execute", "logs", "command", "version"}


@pytest.mark.parametrize("words", [["a", "--rate=0.01", "--bytes"], ["--objects", "9", "a", "-"]])
def test_options_written_in_full_need_no_argparse(words):
    assert read_plainly(words) is not None


def test_command_imports_only_what_it_needs(trace):
    """Starting up would take longer than reading millions of requests."""
    program = "import sys; from sidecar.cli import main; sys.exit(main())"  # as installed
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", program, "mrc", trace, "--rate", "0.1"],
        capture_output=True,
        text=True,
        check=True,
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "sidecar.mrc.trace_stack" in imported
    heavy = {"numpy", "boto3", "redis", "zmq", "json", "logging", "dataclasses", "shutil", "lzma"}
    assert not imported & (heavy | {"argparse", "typing", "pathlib", "collections", "re", "enum"})


def test_progress_goes_to_the_end(trace):
    shares: list[float] = []
    list(read_trace(trace, options=ReadOptions(progress=shares.append)))
    assert shares[-1] == 1.0
    assert shares == sorted(shares)


def test_a_sample_without_a_key_has_no_curve(trace, capsys):
    assert main(["mrc", str(trace), "--rate", "1e-9"]) == 1
    captured = capsys.readouterr()
    assert "none of the keys of 50 requests" in captured.err
    assert captured.out == ""


def test_command_says_how_far_off_a_sampled_curve_may_be(trace, capsys):
    for how, known in (["--rate", "0.9"], True), ([], False):
        arguments = ["mrc", str(trace), *how, "--errors"]
        assert main([*arguments, "--json"]) == 0
        (found,) = json.loads(capsys.readouterr().out)
        assert (found["greatest_standard_error"] is not None) == known
        assert main(arguments) == 0
        assert ("a standard error of at most" in capsys.readouterr().out) == known


@both
def test_a_csv_needs_only_the_columns_that_are_used(tmp_path, capsys, compiled):
    path = tmp_path / "a.csv"

    def answer(header: str, *how: str) -> tuple[int, str, str]:
        names = header.split(",")
        values = {"key": lambda i: i % 7, "size": lambda i: 10 + i % 7, "time": lambda i: i}
        lines = [",".join(str(values[name](i)) for name in names) for i in range(90)]
        path.write_text("\n".join([header, *lines]))
        with nullcontext() if compiled else mrc_in_python():
            code = main(["mrc", str(path), "--json", *how])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    whole = answer("time,key,size")
    assert whole[0] == 0
    assert answer("key")[:2] == answer("size,key")[:2] == whole[:2]
    assert answer("key,size", "--bytes")[:2] == answer("time,key,size", "--bytes")[:2]
    code, _, said = answer("key", "--bytes")
    assert code == 2
    assert "the header 'key' names no column for the size (one of size, obj_size" in said
    lfu = ("--policy", "allkeys-lfu")
    assert answer("key,time", *lfu)[:2] == answer("time,key,size", *lfu)[:2]
    code, _, said = answer("size,key", *lfu)
    assert code == 2
    assert "the header 'size,key' names no column for the time" in said


def test_help_names_the_columns_of_a_csv(capsys):
    with pytest.raises(SystemExit):
        main(["mrc", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    for name in ("obj_id", "timestamp", "object_size", "get_lease"):
        assert name in said


def test_command_tells_how_many_lines_are_no_reads(tmp_path, capsys):
    path = tmp_path / "a.csv"
    path.write_text("time,key,size,op\n1,a,3,get\n2,a,3,set\n3,a,3,get\n")
    assert main(["mrc", str(path)]) == 0
    captured = capsys.readouterr()
    assert "2 requests" in captured.out
    assert "not counted, since they are no reads: 1 of 'set' (--reads" in captured.err


# --- `spreds mrc --ttl` against caches that forget, one for each size.


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

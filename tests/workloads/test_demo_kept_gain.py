"""Which share of the possible gain the demonstration says that it kept."""

from __future__ import annotations

import numpy as np
import pytest

from workloads.demo.half import HalfResult, Sample
from workloads.demo.kept import allocated_bytes, kept_gain, kept_in_words
from workloads.demo.scenario import DemoServer
from workloads.load import zipf_load
from workloads.lookaside import Tally

BUDGET_BYTES = 6 << 20


def server(name: str, key_count: int) -> DemoServer:
    load = zipf_load(
        request_count=12_000,
        key_count=key_count,
        skew=0.6,
        mean_bytes=900,
        backend_latency_seconds=0.010,
        seed=1,
    )
    return DemoServer(name, 1.0, 0.010, 100.0, load)


def half(*seconds: float) -> HalfResult:
    """With two equal servers' mean access times in the first and in the second half of the load."""
    tallies = [
        {name: Tally(requests, 0, total) for name in ("wide", "narrow")}
        for requests, total in (
            (2000, 2000 * seconds[0]),
            (4000, 2000 * sum(seconds)),
        )
    ]
    return HalfResult([Sample(at, {}, {}, one) for at, one in zip((5, 10), tallies, strict=True)])


def test_what_was_saved_is_set_against_what_was_possible():
    servers = [server("wide", 3000), server("narrow", 100)]
    static = half(0.008, 0.006)
    nothing = kept_gain(servers, BUDGET_BYTES, static, static)
    whole, late = nothing["possible_ms"], nothing["late_possible_ms"]
    # What is read for the first time is missed in any size.
    assert 0 < whole < late < 10
    assert (nothing["kept_ratio"], nothing["late_kept_ratio"]) == (0, 0)
    # Half of what is possible in the second half, and nothing in the first.
    kept = kept_gain(servers, BUDGET_BYTES, static, half(0.008, 0.006 - late / 2000))
    assert kept["late_kept_ratio"] == pytest.approx(0.5)
    assert kept["kept_ratio"] == pytest.approx(late / 4 / whole)
    assert "50.0 % in the second half" in kept_in_words(kept)


def test_more_than_all_is_explained():
    def told(has_drawn_load: bool, late_kept_ratio: float) -> str:
        return kept_in_words(
            {
                "has_drawn_load": has_drawn_load,
                "kept_ratio": 0.9,
                "late_kept_ratio": late_kept_ratio,
            }
        )

    assert told(False, 0.9).endswith("90.0 % in the second half")
    assert "107.2 % in the second half; more than 100 %, for" in told(False, 1.072)
    assert "drawn as YCSB draws" in told(True, 1.072)


def test_where_nothing_could_be_gained_that_is_said():
    servers = [server("wide", 100), server("narrow", 100)]
    kept = kept_gain(servers, BUDGET_BYTES, half(0.008, 0.006), half(0.008, 0.006))
    assert kept["kept_ratio"] is None
    assert kept_in_words(kept) == "Other sizes than equal ones could have gained nothing"


def test_possible_gain_knows_how_the_allocator_rounds():
    sizes = np.array([1, 8, 9, 128, 129, 160, 161, 1024, 1025])
    assert allocated_bytes(sizes).tolist() == [1, 8, 10, 128, 160, 160, 192, 1024, 1280]

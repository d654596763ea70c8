"""The thesis' bill, from its inputs."""

from __future__ import annotations

import pytest

from infra.costs.thesis import (
    ALWAYS_ON_USD,
    findings,
    storage_factor,
    thesis_break_even,
    thesis_terms,
    thesis_usd,
)


def test_table_8_7_from_its_inputs() -> None:
    by_name = {term.name: term.usd(False) for term in thesis_terms(24)}
    # 8,760 minutes of one GB.
    assert by_name["Lambda GB-s"] == pytest.approx(525_600 * 0.0000166667)
    assert by_name["S3 PUT"] == pytest.approx(0.0876)
    assert by_name["S3 storage"] == pytest.approx(0.28 * 12 * 0.023)
    assert round(thesis_usd(24, free_tier=True), 2) == 0.17
    assert round(thesis_usd(24, free_tier=False), 2) == 8.94


def test_the_published_sum_takes_24_times_the_storage() -> None:
    assert round(storage_factor(1.92, free_tier=True)) == 24
    assert round(storage_factor(10.13, free_tier=False)) != 24


@pytest.mark.parametrize("free_tier", [False, True])
@pytest.mark.parametrize("storage_grows", [False, True])
def test_break_even_is_what_a_scan_finds(free_tier: bool, storage_grows: bool) -> None:
    scanned = next(
        cycles
        for cycles in range(1, 2000)
        if thesis_usd(cycles, free_tier, storage_grows) >= ALWAYS_ON_USD
    )
    assert thesis_break_even(free_tier, storage_grows) == scanned


def test_break_even_is_the_published_606() -> None:
    assert thesis_break_even() == 606


def test_every_finding_names_both_figures() -> None:
    told = {finding.thesis: finding for finding in findings()}
    assert told["$1.92"].recomputed == "$0.17"
    assert "24 times" in told["$1.92"].remark
    assert told["$10.13"].recomputed == "$8.94"
    assert told["606 a day"].recomputed == "606 a day"
    assert told["9 times"].recomputed == "18 times"

"""``report.html`` of the demonstration on each screen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from solver_lambda.documents.curve import MissRatioCurve
from solver_lambda.documents.observation import Observation, ServerObservation
from tests.browser.chromium import (
    SCHEMES,
    WIDTHS,
    chromium,
    contrasts,
    needs_chromium,
    overflow_pixels,
    picture,
    show_as,
)
from tests.sidecar.example_sidecar import HOSTILE, example_history
from workloads.demo.command import HEADER
from workloads.demo.half import HalfResult, Sample
from workloads.demo.report_page import Report, write_report
from workloads.demo.scenario import DemoServer
from workloads.load import zipf_load
from workloads.lookaside import Tally

pytestmark = needs_chromium

MIB = 1 << 20
SIZES = {"catalogue": 38, "sessions": 5, "timeline": 5}
ROW = ["16.0 MiB", "38.9 MiB", "65.5 %", "81.2 %", "27.81 ms", "15.22 ms", "240,000"]


def _half(sizes: dict[str, int]) -> HalfResult:
    half = HalfResult()
    for second in range(80):
        ratios = {
            name: 0.5 + 0.4 * np.tanh(second / 20 + place) for place, name in enumerate(SIZES)
        }
        in_force = {name: (16 if second < 20 else size) * MIB for name, size in sizes.items()}
        reads = 100 * second
        tallies = {name: Tally(reads, reads // 2, reads * 0.01) for name in SIZES}
        half.samples.append(Sample(float(second), in_force, ratios, tallies))
    return half


def _observation() -> Observation:
    sizes = np.linspace(MIB, 64 * MIB, 100)
    servers = tuple(
        ServerObservation(
            name=name,
            maxmemory_bytes=16 * MIB,
            minimum_bytes=MIB,
            maximum_bytes=None,
            weight=1.0,
            request_rate_per_second=100.0,
            cache_latency_seconds=2e-4,
            backend_latency_seconds=0.05,
            curve=MissRatioCurve(sizes, np.exp(-sizes / ((5 + 9 * place) * MIB))),
        )
        for place, name in enumerate(SIZES)
    )
    return Observation("n", 1, 1.0, 5.0, 48 * MIB, servers)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    result = {
        "seed": 1,
        "budget_bytes": 48 * MIB,
        "max_total_maxmemory_bytes": 48 * MIB,
        "cycles": 13,
        "mean_access_time_ms": {"static": 10.1, "spreds": 6.24},
        "late_mean_access_time_ms": {"static": 9.3, "spreds": 3.73},
        "kept_gain": {"has_drawn_load": False, "kept_ratio": 0.97, "late_kept_ratio": 0.98},
        "servers": [
            {
                "name": name,
                "load": "generated: Zipf 0.8 over 50,000 keys of 900 bytes",
                "weight": 1.0,
                "backend_latency_ms": 80.0,
                "rate_per_second": 3000.0,
            }
            for name in SIZES
        ],
    }
    decisions = [*example_history(), {"at_seconds": 1.0, "kind": "plan", "words": HOSTILE}]
    path = tmp_path_factory.mktemp("report") / "report.html"
    rows = [[name, *ROW] for name in SIZES]
    static, spreds = _half(dict.fromkeys(SIZES, 16)), _half(SIZES)
    load = zipf_load(
        request_count=1,
        key_count=1,
        skew=0.8,
        mean_bytes=900,
        backend_latency_seconds=0.08,
        seed=1,
    )
    servers = [DemoServer(name, 1.0, 0.08, 100.0, load) for name in SIZES]
    report = Report(result, servers, HEADER, rows, static, spreds, _observation(), decisions)
    write_report(report, path)
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    with chromium() as made:
        yield made


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_it_fits_and_clips_nothing(browser: Chrome, page: Path, width: int, scheme: str) -> None:
    show_as(browser, width, scheme)
    browser.get(page.as_uri())
    picture(browser, f"report-{width}-{scheme}")
    assert overflow_pixels(browser) <= 0
    clipped = """return [...document.querySelectorAll("body *:not(svg *)")].filter(
        (item) => item.scrollWidth > item.clientWidth + 1 && item.clientWidth > 0
            && getComputedStyle(item).display !== "inline").map((item) => item.outerHTML)"""
    assert browser.execute_script(clipped) == []
    assert [found for found in contrasts(browser) if found[0] < 4.5] == []
    text = browser.find_element(By.TAG_NAME, "body").text
    assert "6 plans kept all sizes." in text
    assert "Sizes changed: sessions, pages and catalogue grow by 256 MiB each." in text
    assert len(browser.find_elements(By.CSS_SELECTOR, "svg")) == 6
    assert browser.find_elements(By.CSS_SELECTOR, "img, script") == []


def test_pictures_have_the_colours_of_the_scheme(browser: Chrome, page: Path) -> None:
    found = []
    for scheme in SCHEMES:
        show_as(browser, 768, scheme)
        browser.get(page.as_uri())
        script = "return getComputedStyle(document.querySelector('svg text')).fill"
        found.append(browser.execute_script(script))
        body = "return getComputedStyle(document.body).color"
        assert found[-1] == browser.execute_script(body)
    assert found[0] != found[1]

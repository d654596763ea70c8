"""Debian's Chromium without a screen, driven by selenium."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="Debian's packages chromium and chromium-driver are not installed",
)
WIDTHS = (375, 768, 1280)
SCHEMES = ("light", "dark")
PICTURES = Path(__file__).parents[2] / "build" / "page-pictures"


@contextmanager
def chromium() -> Iterator[Chrome]:
    """A browser with a profile of its own, which asks nobody but whom it is sent to."""
    options = ChromeOptions()
    options.binary_location = CHROMIUM or ""
    for argument in (
        "--headless=new",
        "--no-sandbox",  # the gate may run as root
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
        "--lang=en",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = Chrome(options, Service(DRIVER))
    try:
        yield browser
    finally:
        browser.quit()


def show_as(browser: Chrome, width: int, scheme: str, height: int = 900) -> None:
    """As on a screen of this width, for somebody who likes light or dark."""
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
    )
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )


def picture(browser: Chrome, name: str) -> Path:
    """The whole page, in ``build/page-pictures/``."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    size = browser.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
    clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
    shot = browser.execute_cdp_cmd(
        "Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip}
    )
    path = PICTURES / f"{name}.png"
    path.write_bytes(base64.b64decode(shot["data"]))
    return path


def overflow_pixels(browser: Chrome) -> int:
    """By how much the page is wider than the window."""
    script = "const e = document.documentElement; return e.scrollWidth - e.clientWidth"
    return int(browser.execute_script(script))

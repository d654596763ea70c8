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

from tests.browser.own_network import own_network

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
    """A browser with a profile of its own, which asks nobody but whom it is sent to: a server that
    this thread starts meanwhile."""
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
    with own_network():
        browser = Chrome(options, Service(DRIVER))
        try:
            yield browser
        finally:
            browser.quit()


def show_as(browser: Chrome, width: int, scheme: str, height: int = 900) -> None:
    """Show pages as on a screen of this width, for somebody who likes light or dark."""
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
    """Return by how many pixels the page is wider than the window."""
    script = "const e = document.documentElement; return e.scrollWidth - e.clientWidth"
    return int(browser.execute_script(script))


_CONTRASTS = """
const parts = (text) => text.match(/[\\d.]+/g).map(Number);
const luminance = ([r, g, b]) => [r, g, b].map((part) => part / 255)
  .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
  .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
const behind = (item) => {
  for (let at = item; at; at = at.parentElement) {
    const colour = parts(getComputedStyle(at).backgroundColor);
    if (colour.length === 3 || colour[3] === 1) return colour;
  }
  throw new Error("nothing is opaque");
};
const isText = (node) => node.nodeType === 3 && node.data.trim();
const hasText = (item) => [...item.childNodes].some(isText);
return [...document.querySelectorAll("body, body *:not(script):not(style)")]
  .filter((item) => hasText(item) && item.getClientRects().length)
  .map((item) => {
    const style = getComputedStyle(item);
    const ink = luminance(parts(item.closest("svg") ? style.fill : style.color));
    const paper = luminance(behind(item));
    return [(Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05), item.textContent.trim()];
  });
"""


def contrasts(browser: Chrome) -> list[tuple[float, str]]:
    """Return the contrast of each text that is shown, as WCAG 2 defines it, with its beginning."""
    return [(float(ratio), text[:60]) for ratio, text in browser.execute_script(_CONTRASTS)]

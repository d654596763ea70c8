"""The page for operators in a real browser: what it shows, to whom, and what it does not do."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from sidecar.config.operators import OperatorsConfig
from sidecar.web.operators_server import OperatorsServer
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
from tests.sidecar.example_sidecar import CYCLE, HOSTILE, ExampleSidecar
from workloads.local_node import wait_until

pytestmark = needs_chromium

TOKEN = "a-token-of-some-length"
# Whatever a keyboard must reach.
OPERABLE = "a[href], button, input, summary"


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    with chromium() as made:
        yield made


@pytest.fixture
def watched() -> ExampleSidecar:
    return ExampleSidecar()


@pytest.fixture
def server(watched: ExampleSidecar) -> Iterator[OperatorsServer]:
    with OperatorsServer(OperatorsConfig(listen=("127.0.0.1", 0), token=TOKEN), watched) as made:
        yield made


@pytest.fixture
def opened(browser: Chrome, server: OperatorsServer) -> Iterator[Callable[..., None]]:
    """Opens the page, and waits for the servers."""

    def open_page(width: int = 1280, scheme: str = "light", servers: int = 5) -> None:
        show_as(browser, width, scheme)
        browser.get(f"http://127.0.0.1:{server.port}/")
        browser.get_log("browser")
        shown = "article"
        wait_until(lambda: len(browser.find_elements(By.CSS_SELECTOR, shown)) == servers, text)

    def text() -> str:
        return browser.find_element(By.TAG_NAME, "body").text

    yield open_page
    faults = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    # A browser logs each answer that is an error.
    assert [f for f in faults if f["source"] != "network"] == []


def _texts(browser: Chrome, selector: str) -> list[str]:
    """All at one time: the page makes its elements anew, also between two questions."""
    script = "return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText)"
    return [str(text) for text in browser.execute_script(script, selector)]


def _wait_for(browser: Chrome, selector: str, words: str) -> None:
    wait_until(
        lambda: any(words in text for text in _texts(browser, selector)),
        lambda: _texts(browser, selector),
    )


@pytest.mark.skipif(os.getuid() != 0, reason="a network of one's own takes root")
def test_no_other_user_of_the_machine_reaches_its_driver() -> None:
    with ThreadPoolExecutor(1) as elsewhere, socket.socket() as stranger:
        elsewhere.submit(int).result()  # by now its thread is there
        with chromium() as browser:
            port = urlsplit(browser.service.service_url).port
            assert elsewhere.submit(stranger.connect_ex, ("127.0.0.1", port)).result()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_it_fits_each_screen_and_says_what_is_the_case(
    browser: Chrome, opened: Callable[..., None], width: int, scheme: str
) -> None:
    opened(width, scheme)
    picture(browser, f"page-{width}-{scheme}")
    assert overflow_pixels(browser) <= 0
    (banner,) = _texts(browser, "#banner")
    for words in (
        "Mode recommend: no plans are carried out",
        "8 GiB of 8 GiB (100 %)",
        "mean access time from 9.12 ms to 6.42 ms, 29.61% less after the cost of moving",
        "It was not carried out: the mode is recommend",
        "27.4 % less since",
        ": better: since plan 1795354200 the mean access time is 9.34 ms",
    ):
        assert words in banner
    card = _texts(browser, "article")[0]
    for words in ("sessions", "2 GiB now", "3 GiB (+1 GiB)", "87.0 %", "at least 256 MiB"):
        assert words in card
    assert "6 plans kept all sizes." in _texts(browser, "#decisions")[0]
    words = (
        "as fast as now with 5.73 GiB of 8 GiB; 1 GiB more shorten the mean access time by 7.4%."
    )
    assert f"As its planner says by the curves, {words}" in _texts(browser, "#what-if")[0]
    (budgets,) = browser.find_elements(By.CSS_SELECTOR, "#what-if svg[role=img]")
    label = budgets.get_attribute("aria-label")
    assert "9.11 ms with 5.73 GiB, 8.64 ms with 6 GiB, 6.35 ms with 8 GiB" in label
    assert len(budgets.find_elements(By.CSS_SELECTOR, "path")) == 2
    assert len(browser.find_elements(By.CSS_SELECTOR, "#time svg[role=img]")) == 3
    assert len(browser.find_elements(By.CSS_SELECTOR, "article details svg[role=img]")) == 5


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_text_stands_out_enough(
    browser: Chrome, opened: Callable[..., None], watched: ExampleSidecar, scheme: str
) -> None:
    """4.5 to 1, as WCAG 2 asks of small text; also in the states that warn."""
    watched.document["problems"] = ["something is the matter"]
    watched.document["servers"][1].update(up=False, error="connection refused")
    watched.document["servers"][2]["held"] = {"bytes": 1, "at_seconds": 1.0}
    watched.document["servers"][3]["sampler"] = None
    opened(1280, scheme)
    for summary in browser.find_elements(By.CSS_SELECTOR, "#orders summary, #glossary summary"):
        summary.click()
    browser.find_element(By.CSS_SELECTOR, "#buttons button").click()
    found = contrasts(browser)
    assert len(found) > 100
    assert [(ratio, text) for ratio, text in found if ratio < 4.5] == []


def test_the_scheme_is_the_readers(browser: Chrome, opened: Callable[..., None]) -> None:
    backs = set()
    for scheme in SCHEMES:
        opened(scheme=scheme)
        script = "return getComputedStyle(document.body).backgroundColor"
        backs.add(browser.execute_script(script))
    assert len(backs) == len(SCHEMES)


def test_a_plans_words_stay_words(browser: Chrome, opened: Callable[..., None]) -> None:
    opened()
    assert HOSTILE.partition(": ")[2] in _texts(browser, "article")[3]
    assert browser.find_elements(By.CSS_SELECTOR, "main img, main script") == []


def test_the_policy_stops_what_would_be_injected(
    browser: Chrome, opened: Callable[..., None]
) -> None:
    opened()
    broken = browser.execute_async_script(
        """const done = arguments[0];
        addEventListener("securitypolicyviolation", (event) => done(event.effectiveDirective));
        const made = document.createElement("script");
        made.textContent = "window.injected = true";
        document.body.append(made);"""
    )
    assert broken == "script-src-elem"
    assert browser.execute_script("return window.injected") is None
    (told,) = browser.get_log("browser")  # and thereby forgets it
    assert told["source"] == "security"


def test_it_asks_nobody_else(
    browser: Chrome, opened: Callable[..., None], server: OperatorsServer
) -> None:
    opened()
    script = "return performance.getEntries().map((entry) => entry.name)"
    asked = [name for name in browser.execute_script(script) if "://" in name]
    assert f"http://127.0.0.1:{server.port}/api/status" in asked
    assert all(name.startswith(f"http://127.0.0.1:{server.port}/") for name in asked)


def test_the_keyboard_reaches_everything_and_shows_where_it_is(
    browser: Chrome, opened: Callable[..., None]
) -> None:
    opened()
    for summary in browser.find_elements(By.CSS_SELECTOR, "#orders summary, #glossary summary"):
        summary.click()
    browser.execute_script("document.activeElement.blur(); getSelection().removeAllRanges()")
    count = len([e for e in browser.find_elements(By.CSS_SELECTOR, OPERABLE) if e.is_displayed()])
    script = """
        const at = document.activeElement, style = getComputedStyle(at);
        const all = [...document.querySelectorAll(arguments[0])];
        return [all.indexOf(at), at.matches(":focus-visible"), style.outlineStyle]"""
    reached = set()
    for _ in range(count + 5):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        place, is_visible, outline = browser.execute_script(script, OPERABLE)
        if place >= 0:
            reached.add(place)
            assert is_visible
            assert outline != "none"
    assert len(reached) >= count


def test_the_keyboard_stays_where_it_is_when_news_come(
    browser: Chrome, opened: Callable[..., None], watched: ExampleSidecar
) -> None:
    opened()
    summary = browser.find_element(By.CSS_SELECTOR, "article summary")
    summary.send_keys(Keys.ENTER)  # closes its curve
    watched.document["problems"] = ["something is the matter"]
    _wait_for(browser, "#banner li", "Something is the matter.")
    script = "return [document.activeElement.tagName, document.activeElement.parentElement.open]"
    assert browser.execute_script(script) == ["SUMMARY", False]


def _order(browser: Chrome, title: str, token: str = "") -> None:
    summary = browser.find_element(By.CSS_SELECTOR, "#orders summary")
    if not browser.find_element(By.ID, "token").is_displayed():
        summary.click()
    browser.find_element(By.ID, "token").clear()
    browser.find_element(By.ID, "token").send_keys(token)
    browser.find_element(By.XPATH, f"//button[text()='{title}']").click()
    browser.find_element(By.ID, "sure-yes").click()


def test_without_the_token_no_order_is_given(
    browser: Chrome, opened: Callable[..., None], watched: ExampleSidecar
) -> None:
    opened(375)
    buttons = _buttons(browser)
    assert len(buttons) == 8
    for title in buttons:
        _order(browser, title)
        _wait_for(browser, "#ordered", "Not done: orders need the token of operators.token_file")
        browser.execute_script("document.getElementById('ordered').textContent = ''")
    _order(browser, "Carry out the last plan", "not the right one at all")
    _wait_for(browser, "#ordered", "Not done: orders need the token of operators.token_file")
    assert watched.orders == []


def _buttons(browser: Chrome) -> list[str]:
    script = "return [...document.querySelectorAll('#buttons button')].map((b) => b.textContent)"
    return list(browser.execute_script(script))


def test_with_the_token_orders_are_given_and_told(
    browser: Chrome, opened: Callable[..., None], watched: ExampleSidecar
) -> None:
    opened()
    for title in _buttons(browser):
        given = len(watched.orders)
        _order(browser, title, TOKEN)
        wait_until(lambda n=given: len(watched.orders) > n, lambda: _texts(browser, "#ordered"))
    found = [(order.what, order.to, order.for_seconds) for order in watched.orders]
    assert [order.plan for order in watched.orders] == [CYCLE, CYCLE, *[None] * 6]
    assert found == [
        ("apply", "last", None),
        ("apply_from_now_on", "last", None),
        ("recommend", "last", None),
        ("pause", "last", 3600),
        ("pause", "last", None),
        ("resume", "last", None),
        ("rollback", "last", None),
        ("rollback", "installation", None),
    ]
    watched.refuses = "there is nothing to go back to"
    _order(browser, "Roll back the last plan", TOKEN)
    _wait_for(browser, "#ordered", "Not done: there is nothing to go back to")
    # Whoever has the port while the sidecar is down could read it.
    kept = "return [sessionStorage.length, localStorage.length, document.cookie]"
    assert browser.execute_script(kept) == [0, 0, ""]
    # Nor does what somebody else left there outlive the page's next load.
    browser.execute_script("localStorage.setItem('left', 'there')")
    browser.refresh()
    assert browser.execute_script(kept) == [0, 0, ""]


def test_through_a_forwarded_socket_orders_need_no_token(
    browser: Chrome, watched: ExampleSidecar, tmp_path: Path
) -> None:
    """As ``ssh -L 9736:/path/to/state.json.sock cache-1`` brings it to another machine."""
    path = tmp_path / "sock"
    with (
        OperatorsServer(OperatorsConfig(socket=path), watched),
        forwarded(path) as port,
    ):
        browser.get(f"http://localhost:{port}/")
        wait_until(
            lambda: len(browser.find_elements(By.CSS_SELECTOR, "article")) == 5,
            lambda: _texts(browser, "body"),
        )
        _order(browser, "Pause until resumed")
        _wait_for(browser, "#ordered", "Done: done: pause")
    (order,) = watched.orders
    assert order.by.endswith(f"(uid {os.getuid()})")


@contextmanager
def forwarded(path: Path) -> Iterator[int]:
    """A port whose connections go to the socket, as ssh does it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def carry(source: socket.socket, sink: socket.socket) -> None:
            with suppress(OSError):
                while part := source.recv(65536):
                    sink.sendall(part)
                sink.shutdown(socket.SHUT_WR)

        def serve() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listening.accept()
                    inner = socket.socket(socket.AF_UNIX)
                    inner.connect(str(path))
                    for ends in ((client, inner), (inner, client)):
                        threading.Thread(target=carry, args=ends, daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]


def test_earlier_decisions_come_page_by_page(
    browser: Chrome, opened: Callable[..., None], watched: ExampleSidecar
) -> None:
    watched.entries = [
        {
            "number": number,
            "at_seconds": 1_795_000_000.0 + number,
            "kind": "order",
            "by": "ann",
            "words": f"order {number}.",
            "times": 1 + number % 2,
            "last_at_seconds": 1_795_000_000.0 + number,
        }
        for number in range(1, 401)
    ]
    opened()

    def shown() -> list[str]:
        script = "return [...document.querySelectorAll('#decisions li')].map((li) => li.innerText)"
        return list(browser.execute_script(script))

    wait_until(lambda: len(shown()) == 60, shown)
    assert "rder 399. 2 times, the last at" in shown()[1]
    for number in range(2, 8):
        browser.execute_script("document.querySelector('#decisions > button').click()")
        wait_until(lambda n=number: len(shown()) == min(60 * n, 400), lambda: len(shown()))
    assert "rder 1." in shown()[-1]
    assert browser.find_elements(By.CSS_SELECTOR, "#decisions > button") == []


def test_a_cancelled_order_is_none(
    browser: Chrome, opened: Callable[..., None], watched: ExampleSidecar
) -> None:
    opened()
    browser.find_element(By.CSS_SELECTOR, "#orders summary").click()
    browser.find_element(By.ID, "token").send_keys(TOKEN)
    browser.find_element(By.CSS_SELECTOR, "#buttons button").click()
    assert "sessions: from 2 GiB to 3 GiB" in _texts(browser, "#sure")[0]
    browser.switch_to.active_element.send_keys(Keys.ENTER)  # which is "Cancel"
    assert not browser.find_element(By.ID, "sure").is_displayed()
    assert watched.orders == []


def test_it_tells_since_when_the_sidecar_is_gone(
    browser: Chrome, opened: Callable[..., None], server: OperatorsServer
) -> None:
    opened(375, "dark")
    server.close()
    _wait_for(browser, "#contact", "No answer since ")
    assert len(_texts(browser, "article")) == 5
    picture(browser, "page-375-dark-gone")


def _nothing_known(document: dict[str, Any]) -> None:
    """Whatever may be null is."""
    for key in (
        "last_observation",
        "last_plan",
        "last_check",
        "recommended_gain",
        "measured_access_time_seconds",
        "installed_gain",
        "mode_by",
    ):
        document[key] = None
    document["gain"] = {"predicted_ratio": None, "realised_ratio": None}
    document["next_observation_at_seconds"] = None
    document["budget"]["rss_budget_bytes"] = None
    kept = {"name", "up"}
    for server in document["servers"]:
        server.update(dict.fromkeys(server.keys() - kept))


def test_what_is_not_known_yet_is_not_shown_as_0(
    browser: Chrome, opened: Callable[..., None], watched: ExampleSidecar
) -> None:
    _nothing_known(watched.document)
    watched.entries = []
    opened(375)
    assert "No plan yet." in _texts(browser, "#banner")[0]
    card = _texts(browser, "article")[0]
    assert "unknown" in card
    assert "NaN" not in card + _texts(browser, "main")[0]
    assert "undefined" not in _texts(browser, "main")[0]
    assert "Nothing has been decided yet." in _texts(browser, "#decisions")[0]
    picture(browser, "page-375-light-empty")


def test_states_that_need_somebody(
    browser: Chrome, opened: Callable[..., None], watched: ExampleSidecar
) -> None:
    now = watched.document["now_seconds"]
    watched.document["pause"] = {
        "by": "ana", "at_seconds": now - 300, "why": "a release", "until_seconds": None,
    }  # fmt: skip
    watched.document["servers"][1].update(
        up=False, error="connection refused", maxmemory_bytes=None
    )
    watched.document["servers"][2]["held"] = {"bytes": 2 << 30, "at_seconds": now - 3000}
    watched.document["budget"].update(rss_bytes=10 << 30, maxmemory_bytes=9 << 30)
    opened(768)
    assert "SPREDS is paused: give the order “Resume”" in _texts(browser, "#banner")[0]
    assert (
        "Paused 5 min ago by ana, until somebody resumes it: a release."
        in _texts(browser, "#banner")[0]
    )
    assert "cannot be read" in _texts(browser, "article")[1]
    assert "An operator set 2 GiB by hand 50 min ago" in _texts(browser, "article")[2]
    picture(browser, "page-768-light-states")
    wait = {"until_seconds": now + 7200, "why": "it cost more", "failures": 1}
    watched.document.update(pause=None, wait=wait)
    _wait_for(browser, "#banner", "Waiting: a plan did not keep its promise")


@pytest.mark.parametrize("width", WIDTHS)
def test_many_servers_with_long_names_fit(
    browser: Chrome, opened: Callable[..., None], watched: ExampleSidecar, width: int
) -> None:
    first = watched.document["servers"][0]
    watched.document["servers"] = [
        {**first, "name": f"{'n' * 58}{place:05}"} for place in range(40)
    ]
    opened(width, servers=40)
    assert overflow_pixels(browser) <= 0


def test_while_curves_are_learnt_gains_are_guesses_and_other_budgets_are_not_known(
    browser: Chrome, opened: Callable[..., None], watched: ExampleSidecar
) -> None:
    watched.document["servers"][0].update(curve=None, curve_error_ratio=None)
    watched.document["utc_offset_seconds"] = 5 * 3600
    opened()
    (banner,) = _texts(browser, "#banner")
    assert "That is a guess, as too little is known of sessions so far." in banner
    assert "That is a guess." in _texts(browser, "article")[0]
    (other,) = _texts(browser, "#what-if")
    assert "Not known yet: too little is known of sessions so far." in other
    assert " ms" not in other
    assert "± 3.2 points" in _texts(browser, "article")[1]
    (contact,) = _texts(browser, "#contact")
    at = datetime.fromtimestamp(watched.document["now_seconds"] + 5 * 3600, UTC)
    assert f"as of {at:%H:%M} by the server's clock" in contact


def test_each_word_that_needs_one_has_a_meaning(
    browser: Chrome, opened: Callable[..., None]
) -> None:
    opened()
    script = """return [...document.querySelectorAll("a.term")].map((link) =>
        [link.title.length > 20, document.querySelector(link.hash) !== null])"""
    found = browser.execute_script(script)
    assert len(found) > 10
    assert all(all(pair) for pair in found)
    browser.find_element(By.CSS_SELECTOR, "a.term").click()
    _wait_for(browser, "#glossary", "how much memory keys may take")


def test_what_the_plan_would_bring_stands_beside_what_is(
    browser: Chrome, opened: Callable[..., None], watched: ExampleSidecar
) -> None:
    opened()
    card = _texts(browser, "article")[0]
    assert "now 87.0 %" in card
    assert "with the plan 93.8 %" in card
    watched.document["last_plan"]["carried_out"] = True
    opened()
    card = _texts(browser, "article")[0]
    assert "87.0 % expected" in card
    assert "with the plan" not in card


def test_a_check_without_a_time_and_a_server_without_a_curve_have_no_figures(
    browser: Chrome, opened: Callable[..., None], watched: ExampleSidecar
) -> None:
    watched.document["last_check"]["at_seconds"] = None
    reason = "no_sampler: neither the patch nor the module is in this server"
    unknown = {"sampler": None, "curve": None, "backend_latency_seconds": None}
    watched.document["servers"][4].update(unknown, keep_reason=reason)
    watched.document["problems"] = ["jobs has neither the patch nor the module"]
    opened()
    (banner,) = _texts(browser, "#banner")
    assert "The last outcome: better: since plan" in banner
    assert "measured in the last window, is 9.34 ms; before SPREDS set sizes it was 11.8" in banner
    assert "jobs has neither" in banner  # a name stays as it is
    card = _texts(browser, "article")[4]
    for words in ("not known yet", "No curve: neither the patch", "It keeps its size. Neither the"):
        assert words in card
    assert "no_sampler" not in card
    assert len(browser.find_elements(By.CSS_SELECTOR, "article details svg[role=img]")) == 4


def test_who_is_held_or_paused_is_not_on_its_way(
    browser: Chrome, opened: Callable[..., None], watched: ExampleSidecar
) -> None:
    server = watched.document["servers"][0]
    server["target_bytes"] = server["last_change"]["to_bytes"] = 3 << 30
    watched.document["sets_sizes"] = True
    opened()
    card = _texts(browser, "article")[0]
    assert "on the way to 3 GiB" in card
    assert "Is being brought from 1.75 GiB to 3 GiB since" in card
    server["held"] = {"bytes": 2 << 30, "at_seconds": 1.7e9}
    opened()
    card = _texts(browser, "article")[0]
    assert "An operator set 2 GiB by hand" in card
    assert "on the way" not in card
    assert "from 1.75 GiB to 3 GiB, and it has 2 GiB now" in card

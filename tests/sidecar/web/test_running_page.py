"""A real ``spreds run`` over real servers under load, seen by probes, Prometheus and a browser."""

from __future__ import annotations

import http.client
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By

from sidecar.web import health
from sidecar.web.operators_server import OperatorsServer
from tests.browser.chromium import chromium, needs_chromium, overflow_pixels, picture, show_as
from tests.browser.own_network import enter, this_network
from tests.docs.test_metrics_page import (
    NAME,
    PAGE,
    ROW,
    expressions,
    metrics_of,
    needs_promtool,
    promtool,
)
from tests.sidecar.control.test_modes import can_be_applied
from tests.sidecar.running_prometheus import (
    RunningPrometheus,
    needs_prometheus,
    running_prometheus,
)
from tests.sidecar.sidecar_process import Process, sidecar_process, without_boto3
from tests.sidecar.web.test_operators_server import UnixConnection, ask
from workloads.local_node import LocalNode, sidecar_in_thread, wait_until

TOKEN = "a-token-of-some-length"
CONTROLLER = """
[controller]
kind = "embedded"
[operators]
listen = "127.0.0.1:0"
token_env = "SPREDS_TEST_TOKEN"
"""


@pytest.fixture
def node() -> Iterator[LocalNode]:
    """Servers of its own: on others, keys from before the sampler would keep sizes for long."""
    with pytest.MonkeyPatch.context() as patch, LocalNode("n1", CONTROLLER) as made:
        patch.setenv("SPREDS_TEST_TOKEN", TOKEN)
        made.write()
        path = made.folder / "node.toml"
        path.write_text(path.read_text().replace('mode = "apply"', 'mode = "recommend"'))
        with made.load():
            yield made


def in_network(network: str, arguments: Sequence[str]) -> int:
    enter(network)
    return without_boto3(arguments)


@contextmanager
def running(node: LocalNode) -> Iterator[tuple[Process, int]]:
    """The process and its port; its log is read on, so that it never waits for us."""
    program = partial(in_network, this_network())
    with sidecar_process(node.folder / "node.toml", program) as process, ExitStack() as stack:
        line = process.read_until("the page is at http://")
        reader = threading.Thread(target=process.lines.extend, args=(process.said,))
        reader.start()
        stack.callback(reader.join)
        stack.callback(process.process.kill)
        yield process, int(line.rpartition(":")[2].strip().strip("/"))


def get(port: int, target: str) -> tuple[int, Any]:
    status, answer, _ = ask(http.client.HTTPConnection("127.0.0.1", port, 30), target)
    return status, answer


def has_plan(port: int) -> bool:
    return get(port, "/api/status")[1]["last_plan"] is not None


@needs_promtool
def test_probes_and_prometheus(node: LocalNode) -> None:
    with running(node) as (_, port):
        wait_until(lambda: get(port, "/readyz")[0] == 200, lambda: get(port, "/readyz"))
        assert get(port, "/livez") == (200, {"lives": True, "why_not": None})
        wait_until(lambda: has_plan(port), lambda: get(port, "/api/status"))
        status, text = get(port, "/metrics")
        assert status == 200
        promtool("check", "metrics", text=text)
        found = metrics_of(text)
        assert found.keys() == {name for name, *_ in ROW.findall(PAGE.read_text())}
        samples = [line for line in text.splitlines() if not line.startswith("#")]
        for name in ("spreds_up", "spreds_maxmemory_bytes", "spreds_hit_ratio"):
            for server in node.servers:
                labels = f'{{instance="{server}",node="n1"}} '
                assert any(line.startswith(name + labels) for line in samples), name
        assert any(line.startswith('spreds_plans_total{decision="') for line in samples)


def empty_panels(prometheus: RunningPrometheus) -> list[str]:
    """Expressions of the dashboard that have no figure, though their metrics have."""
    return [
        expression
        for expression in expressions(node="n1", instance=".*")
        if all(map(prometheus.values, NAME.findall(expression)))
        and not prometheus.values(expression)
    ]


@needs_prometheus
def test_rules_fire_and_clear_and_the_dashboard_has_its_figures(
    node: LocalNode, tmp_path: Path
) -> None:
    with running(node) as (process, port), running_prometheus(port, tmp_path) as prometheus:

        def fires(*names: str) -> None:
            wait_until(lambda: prometheus.firing() == set(names), prometheus.firing)

        wait_until(lambda: has_plan(port), lambda: get(port, "/api/status"))
        wait_until(lambda: prometheus.values("spreds_last_plan_carried_out"), prometheus.firing)
        fires()
        # What never happened has no figure.
        wait_until(lambda: not empty_panels(prometheus), lambda: empty_panels(prometheus))
        node.servers["modest"].process.send_signal(signal.SIGSTOP)
        fires("SpredsServerDown")
        node.servers["modest"].process.send_signal(signal.SIGCONT)
        fires()
        process.process.kill()
        fires("SpredsDown")


def test_orders_over_the_socket_and_a_kill(node: LocalNode) -> None:
    path = node.folder / "state.json.sock"
    with running(node) as (process, port):
        wait_until(lambda: get(port, "/readyz")[0] == 200, lambda: get(port, "/readyz"))
        order = {"what": "pause", "by": "ana", "why": "a release"}
        status, answer, _ = ask(UnixConnection(path), "/api/orders", order)
        assert (status, list(answer)) == (200, ["done"])
        pause = get(port, "/api/status")[1]["pause"]
        assert pause["by"].startswith("ana, as ")
        assert pause["why"] == "a release"
        assert "order" in {entry["kind"] for entry in get(port, "/api/history")[1]}
        assert ask(UnixConnection(path), "/api/orders", {"what": "resume"})[0] == 200
        process.process.send_signal(signal.SIGKILL)
        process.process.wait()
        with pytest.raises(ConnectionRefusedError):  # to Prometheus: up is 0
            get(port, "/metrics")
    assert path.is_socket()  # nobody could remove it
    with running(node) as (_, port):
        assert get(port, "/livez")[0] == 200
        wait_until(lambda: get(port, "/readyz")[0] == 200, lambda: get(port, "/readyz"))
        assert ask(UnixConnection(path), "/livez")[0] == 200


def test_livez_tells_of_a_main_loop_that_hangs(
    node: LocalNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sidecar's lock is held by somebody, as by a plan that never ends."""
    ports: list[int] = []
    serve_tcp = OperatorsServer._serve_tcp

    def noted(server: OperatorsServer) -> None:
        serve_tcp(server)
        assert server.port is not None
        ports.append(server.port)

    monkeypatch.setattr(OperatorsServer, "_serve_tcp", noted)
    monkeypatch.setattr(health, "LONGEST_TURN_SECONDS", 1.5)
    monkeypatch.setattr(health, "LONGEST_SERVER_SECONDS", 0.0)
    with sidecar_in_thread(node.folder / "node.toml") as sidecar:
        wait_until(lambda: ports, lambda: ports)
        (port,) = ports
        wait_until(lambda: get(port, "/readyz")[0] == 200, lambda: get(port, "/readyz"))
        with sidecar._lock:
            wait_until(lambda: get(port, "/livez")[0] == 503, lambda: get(port, "/livez"))
            assert "the main loop has not turned for" in get(port, "/livez")[1]["why_not"]
            for page in ("/metrics", "/api/status", "/api/series", "/api/history", "/"):
                assert get(port, page)[0] == 200
        wait_until(lambda: get(port, "/livez")[0] == 200, lambda: get(port, "/livez"))


@needs_chromium
def test_the_page_of_a_real_sidecar_from_the_recommendation_to_the_order(
    node: LocalNode,
) -> None:
    def status() -> dict[str, Any]:
        found = get(port, "/api/status")[1]
        assert isinstance(found, dict)
        return found

    def text(selector: str) -> str:
        return browser.find_element(By.CSS_SELECTOR, selector).text

    def wait_for(condition: Callable[[], object]) -> None:
        wait_until(condition, lambda: (status(), text("body")))

    # A page shows what was so two seconds ago: with a plan each second it orders none that is left.
    path = node.folder / "node.toml"
    path.write_text(path.read_text().replace("samples = 4000", "samples = 1_000_000"))
    assert "1_000_000" in path.read_text()
    before = node.sizes_bytes()
    with chromium() as browser, running(node) as (_, port):
        wait_until(lambda: can_be_applied(status()), status)
        show_as(browser, 1280, "light")
        browser.get(f"http://127.0.0.1:{port}/")
        wait_for(lambda: len(browser.find_elements(By.TAG_NAME, "article")) == 2)
        assert "Mode recommend: no plans are carried out" in text("#banner")
        assert node.sizes_bytes() == before
        browser.find_element(By.CSS_SELECTOR, "#orders summary").click()
        browser.find_element(By.ID, "token").send_keys(TOKEN)

        def is_ordered() -> bool:
            """Whether it was done: another plan may come between the page and the order."""
            browser.execute_script("document.getElementById('ordered').textContent = ''")
            browser.find_element(By.CSS_SELECTOR, "#buttons button").click()
            browser.find_element(By.ID, "sure-yes").click()
            wait_for(lambda: text("#ordered"))
            return text("#ordered").startswith("Done: ")

        wait_for(is_ordered)
        wait_until(lambda: node.sizes_bytes() != before, node.sizes_bytes)
        picture(browser, "real-1280-light")
        show_as(browser, 375, "dark")
        wait_for(lambda: overflow_pixels(browser) <= 0)
        picture(browser, "real-375-dark")
        assert "NaN" not in text("body")
        faults = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
        assert [one for one in faults if "/api/orders" not in one["message"]] == []

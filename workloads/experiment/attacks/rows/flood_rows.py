"""Orders and readers in floods, and what they must not do to history, log and others."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from sidecar.control.client import SidecarClient
from sidecar.control.order import Order, OrderRefusedError
from workloads.experiment.attacks.stage.attack import Rows, must
from workloads.experiment.attacks.stage.connections import HEALTH, status_of
from workloads.experiment.attacks.stage.target import Target

ROWS = Rows()


def _flood(target: Target, seconds: float, whats: tuple[str, ...]) -> tuple[int, int]:
    """Orders at the port by four clients at once; how many were given, and how many taken."""
    given = {"Authorization": f"Bearer {target.token}"}

    def play(_: int) -> tuple[int, int]:
        count, taken, until = 0, 0, time.monotonic() + seconds
        while time.monotonic() < until:
            for what in whats:
                body = json.dumps({"what": what, "by": f"eve {count}"})
                taken += status_of(target.order(body=body, **given)) == b"200"
                count += 1
        return count, taken

    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(play, range(4)))
    return sum(count for count, _ in counts), sum(taken for _, taken in counts)


@ROWS.add(
    "orders: a flood before a change of mode",
    "four clients with the token order without end, then the mode changes: history and log "
    "tell of it, and what was there before is still there",
    quick=False,
)
def _audit() -> None:
    with Target(sections={"": 'mode = "recommend"\n'}, verbose=False) as target:
        target.fill("pages")
        target.until(
            lambda: "plan" in {one["kind"] for one in target.ask().history(100)}, "no plan is made"
        )
        before = target.ask().history(100)
        target.ask().order(Order("recommend", "ann", "the order that mattered"))
        orders, taken = _flood(target, 4, ("resume", "recommend"))
        # What the flood cannot keep out.
        target.ask().order(Order("apply_from_now_on", "ann", "after the flood"))
        lines = [line for line in target.log_text().splitlines() if "apply_from_now_on" in line]
        must(lines, f"nothing in the log of the change of mode, after {orders} orders")
        entries = _all_pages(target.ask())
        words = [entry["words"] for entry in entries]
        must(len(entries) < 1000, f"{len(entries)} entries after {orders} orders")
        must(all(one["words"] in words for one in before), "what was there before is gone")
        must(any("the order that mattered" in one for one in words), "the first order is gone")
        must(any("after the flood" in one for one in words), "the last order is not told")
        must(taken < 50, f"{taken} of {orders} orders were taken in four seconds")


def _all_pages(client: SidecarClient) -> list[dict[str, Any]]:
    entries = page = client.history(500)
    while page and "number" in page[0] and (page := client.history(500, page[0]["number"])):
        entries = page + entries
    return entries


@ROWS.add(
    "orders: a flood at the port, the operator at the socket",
    "a client with the token floods the port: orders over the socket are carried out",
    held=True,
)
def _flood_at_the_port_and_the_operator() -> None:
    with Target() as target:
        _flood(target, 1, ("resume",))
        try:
            target.ask().order(Order("pause", "ann"))
        except OrderRefusedError as error:
            must(False, f"the operator at the socket is locked out: {error}")
        must(target.status()["pause"] is not None, "the operator's pause")
        done = [target.command("resume", str(target.file)) for _ in range(3)]
        must(all(one.returncode == 0 for one in done), f"the command: {done[-1].stderr}")


@ROWS.add(
    "orders: many readers of a long history",
    "30 clients read 10,000 entries again and again: the main loop turns, and memory stays",
    quick=False,
)
def _history_readers() -> None:
    with Target() as target:
        # Ten thousand entries, each as long as one of a node with many servers.
        target.end()
        reasons = {f"server-{number}": "r" * 60 for number in range(20)}
        entry = {"at_seconds": time.time(), "kind": "plan", "by": "spreds", "words": "w" * 100}
        entry |= {"cycle": 1, "reasons": reasons, "decision": "apply", "carried_out": True}
        line = json.dumps(entry) + "\n"
        (target.folder / "state.json.history").write_text(line * 10_000)
        target.start()
        before = target.resident_bytes()
        late = 0.0
        until = time.monotonic() + 4

        def read(_: int) -> None:
            while time.monotonic() < until:
                target.raw(b"GET /api/history?limit=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n")

        with ThreadPoolExecutor(30) as pool:
            readers = [pool.submit(read, number) for number in range(30)]
            while time.monotonic() < until:
                status = target.status()
                late = max(late, status["now_seconds"] - status["loop_at_seconds"])
                time.sleep(0.1)
            for one in readers:
                one.result()
        grown = (target.resident_bytes() - before) >> 20
        must(late < 2.5, f"the main loop was {late:.1f} s late")
        must(grown < 100, f"{grown} MiB more with 30 readers")


@ROWS.add(
    "health: a crowd that asks for it",
    "150 clients ask /livez over and over: 40 probes beside them are all answered by 200",
)
def _health_in_a_crowd() -> None:
    with Target() as target:
        until = time.monotonic() + 4

        def crowd(_: int) -> None:
            while time.monotonic() < until:
                with suppress(OSError):
                    target.raw(HEALTH)

        with ThreadPoolExecutor(150) as pool:
            pool.map(crowd, range(150))
            probes = [status_of(target.raw(HEALTH)) for _ in range(40)]
        must(set(probes) == {b"200"}, f"{probes.count(b'200')} of 40 probes are answered by 200")


@ROWS.add(
    "page: a crowd of readers of one address",
    "60 clients of one address ask for /metrics over and over: a scraper of another address is "
    "answered each time",
)
def _readers_of_one_address() -> None:
    with Target() as target:
        asked = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        over = threading.Event()

        def crowd(_: int) -> None:
            while not over.is_set():
                with suppress(OSError):
                    target.raw(asked, source="127.0.0.2")

        with ThreadPoolExecutor(60) as pool:
            pool.map(crowd, range(60))
            try:
                answers = [status_of(target.raw(asked)) for _ in range(40)]
            finally:
                over.set()
        must(set(answers) == {b"200"}, f"{answers.count(b'200')} of 40 readings are answered")

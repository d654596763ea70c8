"""The slow backend's front, and the users who come to it.

A network with a delay, and a solver at its other end.
"""

from __future__ import annotations

import asyncio
import gc
import http.client
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis.asyncio
import redis.exceptions

from workloads.experiment.papers import run_artillery
from workloads.experiment.papers.placement import crossing
from workloads.experiment.papers.placement_runs import busy_processor, delayed, one_ways_of_a_cycle
from workloads.experiment.papers.slow_backend_front import (
    Phase,
    Visit,
    arrivals_seconds,
    closed_loop,
    open_loop,
    running_front,
)
from workloads.experiment.papers.slow_backend_runs import told
from workloads.local_server import LocalServer

PATIENCE_SECONDS = 30.0


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with LocalServer() as started:
        yield started


def test_users_of_an_even_phase_come_evenly() -> None:
    assert Phase("plain", 2, 3, 3).arrivals_seconds() == pytest.approx(
        [(number + 0.5) / 3 for number in range(6)]
    )


def test_users_of_a_ramp_come_as_its_rate_says() -> None:
    arrivals = Phase("ramp-up", 10, 0, 10).arrivals_seconds()
    assert len(arrivals) == 50
    # At a tenth of the rate's integral, a tenth of them: 5 t² / 10 = users.
    for number, at in enumerate(arrivals):
        assert at**2 / 2 == pytest.approx(number + 0.5)


def test_phases_follow_each_other() -> None:
    found = arrivals_seconds([Phase("warm-up", 2, 1, 1), Phase("clean-up", 1, 2, 2)])
    assert found == pytest.approx([0.5, 1.5, 2.25, 2.75])


@pytest.mark.parametrize(
    ("way", "least", "most"), [("plain", 40, 40), ("cached", 4, 20), ("coalesced", 3, 3)]
)
def test_what_a_crowd_calls(server: LocalServer, way: str, least: int, most: int) -> None:
    """Twenty users at three keys who come together, and twenty more when they are gone."""

    async def two_crowds() -> int:
        async with running_front(0.03, server.url) as front:
            paths = [f"/{way}/{number % 3}" for number in range(20)]
            for _ in range(2):
                visits = await open_loop(front.port, paths, [0.0] * 20, PATIENCE_SECONDS)
                assert all(visit.is_answered for visit in visits)
            return front.calls.total()

    assert least <= asyncio.run(two_crowds()) <= most


def test_who_gives_up_is_told_so_and_the_others_get_their_answer(server: LocalServer) -> None:
    async def crowd() -> tuple[list[Visit], list[Visit]]:
        async with running_front(0.5, server.url) as front:
            paths = ["/coalesced/key"] * 2
            impatient = open_loop(front.port, paths, [0.0] * 2, 0.05)
            patient = open_loop(front.port, paths, [0.0] * 2, PATIENCE_SECONDS)
            first, second = await asyncio.gather(impatient, patient)
            assert front.calls.total() == 1
            return first, second

    impatient, patient = asyncio.run(crowd())
    assert not any(visit.is_answered for visit in impatient)
    assert all(visit.is_answered for visit in patient)


class FakeRedis:
    """An empty cache that takes nothing if it ``is_broken``."""

    def __init__(self, is_broken: bool) -> None:
        self.is_broken = is_broken

    async def flushdb(self) -> None: ...

    async def aclose(self) -> None: ...

    async def get(self, _key: str) -> None: ...

    async def set(self, _key: str, _value: bytes) -> None:
        if self.is_broken:
            raise redis.exceptions.ConnectionError("gone")


@pytest.mark.parametrize("is_broken", [True, False])
def test_a_fill_that_fails_is_counted_and_one_that_the_end_cuts_off_is_not(
    monkeypatch: pytest.MonkeyPatch, is_broken: bool
) -> None:
    """Nobody waits any longer when the fill ends, and so nobody hears how."""
    monkeypatch.setattr(redis.asyncio.Redis, "from_url", lambda _: FakeRedis(is_broken))
    unhandled: list[object] = []

    async def crowd() -> int:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: unhandled.append(context))
        async with running_front(0.02 if is_broken else 60.0, "redis://nowhere") as front:
            users = asyncio.create_task(
                open_loop(front.port, ["/coalesced/key"] * 2, [0.0] * 2, PATIENCE_SECONDS)
            )
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not front.calls:
                    await asyncio.sleep(0)
                users.cancel()
                while is_broken and not front.failed_fills:
                    await asyncio.sleep(0)
        gc.collect()  # what nobody asked a task for is told when it is gone
        return front.failed_fills

    assert asyncio.run(crowd()) == is_broken
    assert not unhandled


def test_a_closed_loop_leaves_out_what_an_open_one_makes(server: LocalServer) -> None:
    dues = [number / 100 for number in range(20)]

    async def visits() -> tuple[list[Visit], list[Visit]]:
        async with running_front(0.05, server.url) as front:
            paths = ["/plain/key"] * len(dues)
            made = await open_loop(front.port, paths, dues, PATIENCE_SECONDS)
            left = await closed_loop(front.port, paths, dues, PATIENCE_SECONDS, 1)
            return made, left

    opened, closed = asyncio.run(visits())
    assert len(opened) == len(dues) > len(closed) > 0
    # The last of them waited for those before it: it cannot be sooner.
    assert opened[-1].seconds > 19 * 0.05 + 0.05 - dues[-1] - 0.01


def test_who_gives_up_counts_with_what_he_waited() -> None:
    found = told([Visit(0, 0.1, is_answered=True), Visit(0, 2.0, is_answered=False)])
    assert (found["users"], found["failed"]) == (2, 1)
    assert found["p99"] > 1.9
    assert found["answered"]["p99"] == pytest.approx(0.1)


def test_nobody_has_no_latency() -> None:
    assert told([])["p50"] is None


def test_without_npm_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(run_artillery, "PROGRAM", tmp_path / "artillery")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(run_artillery.ArtilleryError, match="there is no npm"):
        asyncio.run(run_artillery.install())


ONE_WAY_SECONDS = 0.02


@contextmanager
def echo() -> Iterator[int]:
    """A server that gives back all of one connection, and ends it when the client does."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                while data := connection.recv(1 << 16):
                    connection.sendall(data)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1]
        thread.join()


def received(port: int, sent: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port)) as client:
        sending = threading.Thread(
            target=lambda: (client.sendall(sent), client.shutdown(socket.SHUT_WR))
        )
        sending.start()
        parts = iter(lambda: client.recv(1 << 16), b"")
        found = b"".join(parts)
        sending.join()
        return found


def test_what_goes_through_arrives_whole_and_in_its_order() -> None:
    sent = b"".join(b"%07d " % number for number in range(100_000))
    with echo() as port, delayed(port, ONE_WAY_SECONDS) as far:
        assert received(far, sent) == sent


def test_a_new_connection_and_an_answer_take_two_round_trips() -> None:
    with echo() as port, delayed(port, ONE_WAY_SECONDS) as far:
        began = time.monotonic()
        with socket.create_connection(("127.0.0.1", far)) as client:
            client.sendall(b"first")
            assert client.recv(10) == b"first"
            first = time.monotonic()
            client.sendall(b"second")
            assert client.recv(10) == b"second"
            second = time.monotonic()
    # No sooner; how much later is the machine's.
    assert first - began >= 4 * ONE_WAY_SECONDS - 0.001
    assert second - first >= 2 * ONE_WAY_SECONDS - 0.001


def test_it_ends_where_somebody_still_waits() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        with delayed(deaf.getsockname()[1], ONE_WAY_SECONDS) as far:
            waiting = http.client.HTTPConnection("127.0.0.1", far)
            waiting.request("GET", "/")
        waiting.close()


def test_a_busy_processor_is_left_as_it_was() -> None:
    before = os.sched_getaffinity(0)
    with busy_processor(os.getpid(), 1):
        assert os.sched_getaffinity(0) == {min(before)}
    assert os.sched_getaffinity(0) == before


def test_round_trips_are_what_the_farther_place_takes_longer() -> None:
    found = {
        "near": {"one_way_seconds": 0.0, "taken": [0.02, 0.02, 0.03]},
        "far": {"one_way_seconds": 0.1, "taken": [0.9, 0.62, 0.62]},
    }
    assert abs(one_ways_of_a_cycle(found) - 6) < 1e-9


def test_a_place_is_faster_only_where_it_is_so_each_time() -> None:
    def servers(beside: list[float], region: list[float]) -> dict[str, object]:
        return {"seconds": {"beside": beside, "region": region}}

    data = {
        "servers": {
            "3": servers([2.0, 2.0], [1.0, 1.0]),
            "8": servers([2.0, 2.0], [1.0, 3.0]),
            "16": servers([2.0, 2.0], [1.0, 1.0]),
            "32": servers([2.0, 2.0], [1.0, 1.9]),
        }
    }
    assert crossing(data, "beside", "region") == "16"
    assert crossing(data, "region", "beside") is None

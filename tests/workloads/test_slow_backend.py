"""The slow backend's front, and the users who come to it."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis.asyncio
import redis.exceptions

from workloads.experiment.papers.slow_backend import artillery
from workloads.experiment.papers.slow_backend.front import running_front
from workloads.experiment.papers.slow_backend.measurement import told
from workloads.experiment.papers.slow_backend.users import (
    Phase,
    Visit,
    arrivals_seconds,
    closed_loop,
    open_loop,
)
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
    monkeypatch.setattr(artillery, "PROGRAM", tmp_path / "artillery")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(artillery.ArtilleryError, match="there is no npm"):
        asyncio.run(artillery.install())

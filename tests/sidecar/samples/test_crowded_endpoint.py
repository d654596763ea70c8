"""Who connects over and over to the samples' endpoint keeps no server out."""

from __future__ import annotations

import multiprocessing
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

import pytest

from sidecar.base.metrics import Metrics
from sidecar.samples.connections import MOST_OF_A_SERVER, Connections, crowd_of
from sidecar.samples.endpoint import bind_endpoint
from tests.sidecar.fixtures import StartServer, WriteNode
from workloads.local_node import sidecar_in_thread, wait_until

PLACES = 4


class Peer:
    """Tells who somebody is, as far as it matters."""

    def __init__(self, user: int | str, process: int) -> None:
        self.user, self.process = user, process


@pytest.mark.parametrize(
    ("peers", "crowd"),
    [
        # One process with many.
        ([(1, 10), (1, 10), (1, 11), (2, 20)], [0, 1]),
        # A user with many processes.
        ([(1, 10), (1, 11), (1, 12), (2, 20), (2, 20)], [0, 1, 2]),
        # All have one: nobody is the crowd more than the others.
        ([(1, 10), (1, 11), (1, 12)], [0, 1, 2]),
        # An address of TCP.
        ([("10.0.0.1", 0), ("10.0.0.1", 0), ("10.0.0.2", 0)], [0, 1]),
    ],
)
def test_the_crowd_is_of_the_user_and_the_process_with_the_most(
    peers: list[tuple[int | str, int]], crowd: list[int]
) -> None:
    all_of_them = [Peer(*one) for one in peers]
    assert crowd_of(all_of_them) == [all_of_them[place] for place in crowd]  # type: ignore[arg-type,comparison-overlap]


def _crowd(path: str, count: int, pipe: Pipe) -> None:
    held = [socket.socket(socket.AF_UNIX) for _ in range(count)]
    for one in held:
        one.connect(path)
    pipe.send(count)
    pipe.recv()


@contextmanager
def _elsewhere(path: Path, count: int) -> Iterator[int]:
    """Another process that has connected so often; its id."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_crowd, args=(str(path), count, theirs), daemon=True)
    process.start()
    try:
        assert ours.recv() == count
        assert process.pid is not None
        yield process.pid
        ours.send(None)
    finally:
        process.join(30)


@pytest.fixture
def connections(tmp_path: Path) -> Iterator[Callable[..., Connections]]:
    with ExitStack() as held:

        def make(known: set[int]) -> Connections:
            listening = held.enter_context(socket.socket(socket.AF_UNIX))
            listening.bind(str(tmp_path / "samples"))
            listening.listen(64)
            made = Connections(listening, PLACES, lambda *_: None, lambda: known)
            held.callback(made.close)
            return made

        yield make


def _taken(connections: Connections, process: int) -> int:
    connections.look()
    list(connections.messages())  # who was hung up on is forgotten
    return sum(one.process == process for one in connections._turn)


def test_a_process_with_all_places_makes_room_at_once(
    connections: Callable[..., Connections], tmp_path: Path
) -> None:
    made = connections(set())
    with _elsewhere(tmp_path / "samples", PLACES) as crowd, socket.socket(socket.AF_UNIX) as one:
        wait_until(lambda: _taken(made, crowd) == PLACES, lambda: made._turn)
        one.connect(str(tmp_path / "samples"))
        wait_until(lambda: _taken(made, os.getpid()) == 1, lambda: made._turn)
        assert _taken(made, crowd) == PLACES - 1


def test_a_servers_own_process_has_a_place_whoever_crowds(
    connections: Callable[..., Connections], tmp_path: Path
) -> None:
    known: set[int] = set()
    made = connections(known)
    with ExitStack() as held:
        for _ in range(PLACES):
            server = held.enter_context(_elsewhere(tmp_path / "samples", 1))
            wait_until(lambda server=server: _taken(made, server) == 1, lambda: made._turn)
        known |= {os.getpid()}
        for _ in range(3 * MOST_OF_A_SERVER):
            held.enter_context(socket.socket(socket.AF_UNIX)).connect(str(tmp_path / "samples"))
        wait_until(
            lambda: _taken(made, os.getpid()) == MOST_OF_A_SERVER and not made._knocking,
            lambda: made._turn,
        )
        assert _taken(made, server) == 1
        assert len(made._turn) == PLACES + MOST_OF_A_SERVER


def test_a_crowd_is_a_problem_where_a_server_is_silent(
    start_server: StartServer, write_node: WriteNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = write_node({"quiet": start_server("12mb").url})
    with sidecar_in_thread(node) as sidecar, ExitStack() as held:

        def crowd() -> bool:
            held.enter_context(socket.socket(socket.AF_UNIX)).connect(str(node.parent / "samples"))
            return sidecar.metrics.value("sample_connections_refused", reason="too_many") > 0

        def is_told() -> bool:
            return any("may be kept out" in problem for problem in sidecar.status()["problems"])

        wait_until(lambda: sidecar.status()["servers"][0]["up"], sidecar.status)
        wait_until(crowd, sidecar.metrics.snapshot)
        monkeypatch.setattr(sidecar._samples, "silent_seconds", lambda _: 1.0)
        assert not is_told()
        monkeypatch.setattr(sidecar._samples, "silent_seconds", lambda _: 30.0)
        assert is_told()


def test_a_crowd_is_told_of(tmp_path: Path) -> None:
    path = tmp_path / "samples"
    with bind_endpoint(f"ipc://{path}", Metrics()) as receiver, ExitStack() as held:
        assert not receiver.is_crowded
        for _ in range(20):
            held.enter_context(socket.socket(socket.AF_UNIX)).connect(str(path))
        wait_until(lambda: receiver.receive(0) or receiver.is_crowded, receiver.metrics.snapshot)


def test_who_comes_and_goes_fills_no_queue_while_nobody_asks_for_samples(tmp_path: Path) -> None:
    path = tmp_path / "samples"
    with bind_endpoint(f"ipc://{path}", Metrics()) as receiver:
        for _ in range(1000):
            with socket.socket(socket.AF_UNIX) as one:
                one.settimeout(20)  # it would wait for room in the kernel's queue
                one.connect(str(path))
        with ExitStack() as servers:

            def has_a_place() -> bool:
                # One of the crowd's own process may be hung up on with it, and comes again.
                server = servers.enter_context(socket.socket(socket.AF_UNIX))
                server.setblocking(False)
                return not server.connect_ex(str(path)) and any(
                    receiver.receive(0.05) or len(receiver._connections._turn) == 1
                    for _ in range(5)
                )

            wait_until(has_a_place, receiver.metrics.snapshot)
        assert receiver.is_crowded
        assert receiver.remedy == "end it, or take its user out of sampling.group"

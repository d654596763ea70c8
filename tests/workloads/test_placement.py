"""A network with a delay, and a solver at its other end."""

from __future__ import annotations

import http.client
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from workloads.experiment.papers.placement.delay_proxy import delayed
from workloads.experiment.papers.placement.measurement import busy_processor
from workloads.experiment.papers.placement.over_the_cloud import one_ways_of_a_cycle
from workloads.experiment.papers.placement.study import crossing

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

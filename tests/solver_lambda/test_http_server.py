"""The front with real sockets: slow, silent and many clients hold up nobody."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from solver_lambda.http.connection import Connection, Limits, Phase, whom_to_hang_up_on
from solver_lambda.http.guards import Anybody, anybody
from solver_lambda.http.incoming import Incoming
from solver_lambda.http.lane_queue import LaneQueue
from solver_lambda.http.listening import listen_at
from solver_lambda.http.message import Answer, Peer, RefusedError, Request, json_answer
from solver_lambda.http.router import Lane, Route, Router
from solver_lambda.http.server import HttpServer
from workloads.local_node import wait_until

LIMITS = Limits(
    connections=16,
    held_bytes=1 << 20,
    head_seconds=0.3,
    request_seconds=0.3,
    answer_seconds=0.5,
    linger_seconds=0.2,
)
BIG = 32 << 20


class Front:
    """A server with a page, a large one, one that hangs, one that fails, and health."""

    def __init__(self, limits: Limits) -> None:
        self.may_go_on = threading.Event()
        self.refusals: list[str] = []
        self.failures: list[str] = []
        work, big = Lane(2, 2, seconds=0.2), Lane(1, 4)
        shared = Lane(2, 2, most_of_one=1, seconds=60)
        routes = [
            Route("GET", "/health", anybody, _page, None),
            Route("GET", "/health/fails", anybody, _fail, None),
            Route("GET", "/big", anybody, _big, big),
            Route("GET", "/shared", anybody, self._hang, shared),
            Route("GET", "/hangs", anybody, self._hang, work),
            Route("GET", "/fails", anybody, _fail, work),
            Route("POST", "/body", anybody, _length, work, 1 << 24),
        ]
        listening = listen_at("127.0.0.1", 0)
        self.port = listening[0].getsockname()[1]
        self.server = HttpServer(listening, Router(routes), limits, self)
        self.server.start()

    def refused(self, peer: Peer, code: str, why: str) -> None:
        self.refusals.append(code)

    def failed(self, what: str, error: Exception) -> str:
        self.failures.append(f"{what}: {error}")
        return "a fault of ours"

    def _hang(self, _request: Request, _: Anybody) -> Answer:
        assert self.may_go_on.wait(60)
        return json_answer({"done": True})

    def answering(self) -> int:
        return sum(one.phase is Phase.ANSWERING for one in list(self.server._connections))

    def connect(self, first: bytes = b"", source: str = "127.0.0.1") -> socket.socket:
        address = ("127.0.0.1", self.port)
        connection = socket.create_connection(address, 30, source_address=(source, 0))
        connection.sendall(first)
        return connection

    def ask(self, path: str) -> bytes:
        with self.connect(f"GET {path} HTTP/1.1\r\n\r\n".encode()) as connection:
            return everything(connection)


def everything(connection: socket.socket) -> bytes:
    answer = b""
    with suppress(ConnectionResetError):
        while part := connection.recv(65536):
            answer += part
    return answer


def _page(_request: Request, _: Anybody) -> Answer:
    return json_answer({"status": "ready"})


def _big(_request: Request, _: Anybody) -> Answer:
    return json_answer("x" * BIG)


def _length(request: Request, _: Anybody) -> Answer:
    return json_answer(len(request.body))


def _fail(_request: Request, _: Anybody) -> Answer:
    raise RuntimeError("secret words")


@pytest.fixture
def front() -> Iterator[Front]:
    made = Front(LIMITS)
    try:
        yield made
    finally:
        made.may_go_on.set()
        made.server.close(10)


def test_silent_and_slow_clients_are_told_and_hung_up_on(front: Front) -> None:
    with front.connect() as silent, front.connect(b"GET /hea") as slow:
        assert everything(silent) == b""
        assert everything(slow).startswith(b"HTTP/1.0 408 ")
    with front.connect(b"POST /body HTTP/1.1\r\nContent-Length: 5\r\n\r\n{") as slow:
        assert everything(slow).startswith(b"HTTP/1.0 408 ")
    assert front.refusals == ["slow", "slow"]


def test_a_byte_now_and_then_wins_no_time(front: Front) -> None:
    with front.connect(b"GET /health HTTP/1.1\r\n") as slow:
        slow.settimeout(0.05)
        answer = b""
        for _ in range(1000):
            with suppress(TimeoutError):
                if answer := slow.recv(100):
                    break
            slow.sendall(b"X")
    assert answer.startswith(b"HTTP/1.0 408 ")


def test_more_than_there_is_room_for_take_the_place_of_the_oldest(front: Front) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with ExitStack() as stack:
        silent = [stack.enter_context(front.connect()) for _ in range(3 * LIMITS.connections)]
        assert front.ask("/health").startswith(b"HTTP/1.0 200 ")
        assert everything(silent[0]) == b""
        ours = len(os.listdir("/proc/self/fd")) - before - len(silent)
        assert ours <= LIMITS.connections
    assert front.refusals.count("crowded") >= 2 * LIMITS.connections
    wait_until(lambda: not front.server._connections, lambda: front.server._connections)
    assert len(os.listdir("/proc/self/fd")) <= before


def test_the_address_with_the_most_makes_room(front: Front) -> None:
    with ExitStack() as stack:
        other = socket.create_connection(
            ("127.0.0.1", front.port), 30, source_address=("127.0.0.2", 0)
        )
        stack.enter_context(other)
        for _ in range(2 * LIMITS.connections):
            stack.enter_context(front.connect())
        other.sendall(b"GET /health HTTP/1.1\r\n\r\n")
        assert everything(other).startswith(b"HTTP/1.0 200 ")


def test_health_is_answered_while_all_others_hang_and_who_waits_is_told(front: Front) -> None:
    request = b"GET /hangs HTTP/1.1\r\n\r\n"
    with ExitStack() as stack:
        hanging = [stack.enter_context(front.connect(request)) for _ in range(2)]
        wait_until(lambda: front.answering() == 2, lambda: "not yet")
        waiting = [stack.enter_context(front.connect(request)) for _ in range(2)]
        full = stack.enter_context(front.connect(request))
        for one in (full, *waiting):
            answer = everything(one)
            assert answer.startswith(b"HTTP/1.0 503 ")
            assert b"Retry-After: " in answer
        assert front.ask("/health").startswith(b"HTTP/1.0 200 ")
        front.may_go_on.set()
        assert [everything(one).partition(b"\r\n")[0] for one in hanging] == [
            b"HTTP/1.0 200 OK"
        ] * 2
    assert front.ask("/hangs").startswith(b"HTTP/1.0 200 ")


def test_health_without_a_lane_is_never_crowded_out_and_a_fault_in_it_is_told(front: Front) -> None:
    threads = threading.active_count()
    with ExitStack() as stack:
        asking = [
            stack.enter_context(front.connect(b"GET /health HTTP/1.1\r\n\r\n")) for _ in range(100)
        ]
        assert all(everything(one).startswith(b"HTTP/1.0 200 ") for one in asking)
    assert front.ask("/health/fails").startswith(b"HTTP/1.0 500 ")
    assert front.ask("/health").startswith(b"HTTP/1.0 200 ")
    assert threading.active_count() <= threads  # those of others may have ended meanwhile


def test_one_address_leaves_places_to_others(front: Front) -> None:
    request = b"GET /shared HTTP/1.1\r\n\r\n"
    with ExitStack() as stack:
        many = [stack.enter_context(front.connect(request)) for _ in range(8)]
        # Which six: not all are read in the order in which they came.
        wait_until(lambda: len(front.refusals) == 6, lambda: str(front.refusals))
        wait_until(lambda: front.answering() == 1, lambda: "none is answered")
        other = stack.enter_context(front.connect(request, source="127.0.0.2"))
        wait_until(lambda: front.answering() == 2, lambda: "the other one has no place")
        front.may_go_on.set()
        assert everything(other).startswith(b"HTTP/1.0 200 ")
        answers = [everything(one) for one in many]
        assert sum(b"such requests of yours" in one for one in answers) == 6
        assert sum(one.startswith(b"HTTP/1.0 200 ") for one in answers) == 2


def test_a_user_holds_his_share_of_a_lane_and_of_the_connections() -> None:
    with ExitStack() as stack:

        def connection(uid: int) -> Connection:
            ours, theirs = socket.socketpair()
            stack.callback(theirs.close)
            peer = Peer(uid=uid)
            made = Connection(ours, peer, Incoming(Router([]), peer), LIMITS)
            stack.callback(made.close)
            return made

        queue = LaneQueue(Lane(2, 4, most_of_one=1))
        first, second, other, third = (connection(uid) for uid in (7, 7, 8, 9))
        for one, next_one in ((first, first), (second, None), (other, other), (third, None)):
            queue.add(one)
            assert queue.take() is next_one
        with pytest.raises(RefusedError):
            queue.add(connection(7))
        queue.done(first)
        assert [queue.take(), queue.take()] == [second, None]
        queue.add(connection(7))
        queue.done(other)
        # Whose own one is being answered does not hold up who came later.
        assert [queue.take(), queue.take()] == [third, None]
        assert whom_to_hang_up_on([other, first, second]) is first
        # So many may wait, whatever may be answered.
        queue = LaneQueue(Lane(2, 4, most_of_one=1, most_waiting_of_one=3))
        for _ in range(4):
            queue.add(connection(7))
            queue.take()
        with pytest.raises(RefusedError):
            queue.add(connection(7))
        queue.add(connection(8))
        # Whom there is no place for takes that of the last of those who have the most.
        queue = LaneQueue(Lane(1, 4, most_waiting_of_one=3))
        many = [connection(7) for _ in range(4)]
        for one in many:
            queue.add(one)
            queue.take()
        few = connection(8)
        assert queue.add(few) is None
        late = connection(9)
        assert queue.add(late) is many[3]
        with pytest.raises(RefusedError):
            queue.add(connection(8))
        queue.done(many[0])
        assert [queue.take() for _ in range(2)] == [many[1], None]
        # Who has none that is answered goes before who has some.
        queue = LaneQueue(Lane(3, 4))
        for one in many[:3]:
            queue.add(one)
        assert [queue.take(), queue.take()] == many[:2]
        queue.add(few)
        assert queue.take() is few


def test_who_does_not_take_his_answer_is_hung_up_on(front: Front) -> None:
    with front.connect(b"GET /big HTTP/1.1\r\n\r\n") as reader:
        wait_until(lambda: front.server._connections, lambda: "not taken")
        wait_until(lambda: not front.server._connections, lambda: front.server._connections)
        assert len(everything(reader)) < BIG
    assert front.ask("/health").startswith(b"HTTP/1.0 200 ")


def test_who_reads_slowly_is_hung_up_on_first_where_there_is_no_room() -> None:
    front = Front(Limits(connections=16, answer_seconds=600))
    with ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(front.connect(b"GET /big HTTP/1.1\r\n\r\n"))
        assert front.ask("/health").startswith(b"HTTP/1.0 ")
    wait_until(lambda: front.ask("/health").startswith(b"HTTP/1.0 200 "), lambda: front.refusals)
    front.server.close(10)


def test_bodies_together_are_bounded(front: Front) -> None:
    head = b"POST /body HTTP/1.1\r\nContent-Length: 2000000\r\n\r\n"
    with front.connect(head) as sender:
        with suppress(OSError):
            sender.sendall(b"x" * 2_000_000)
        assert everything(sender).startswith(b"HTTP/1.0 503 ")
    with front.connect(b"POST /body HTTP/1.1\r\nContent-Length: 9\r\n\r\n123456789") as sender:
        assert everything(sender).endswith(b"\r\n\r\n9\n")


def test_a_fault_is_told_without_its_words(front: Front) -> None:
    answer = front.ask("/fails")
    assert answer.startswith(b"HTTP/1.0 500 ")
    assert b"secret" not in answer
    assert front.failures == ["GET /fails: secret words"]


def test_a_fault_of_the_listener_itself_does_not_end_it(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        monkeypatch.undo()
        raise RuntimeError("as it was told to")

    monkeypatch.setattr(front.server, "_keep_time", broken)
    assert front.ask("/health").startswith(b"HTTP/1.0 200 ")
    wait_until(lambda: front.failures, lambda: "the fault is not told")
    assert front.failures == ["the connections: as it was told to"]
    assert front.ask("/health").startswith(b"HTTP/1.0 200 ")


def test_a_client_that_resets_is_forgotten(front: Front) -> None:
    for first in (b"", b"GET /he", b"GET /health HTTP/1.1\r\n\r\n"):
        connection = front.connect(first)
        # Linger of 0 s: a reset instead of a good end.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.close()
    wait_until(lambda: not front.server._connections, lambda: front.server._connections)
    assert front.ask("/health").startswith(b"HTTP/1.0 200 ")


def test_without_a_descriptor_it_rests_and_goes_on_later(front: Front) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        asking = [socket.socket() for _ in range(4)]
        for one in asking:
            stack.enter_context(one)
        try:
            lowest_free = os.dup(asking[0].fileno())
            os.close(lowest_free)
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
            for one in asking:
                one.connect(("127.0.0.1", front.port))
                one.sendall(b"GET /health HTTP/1.1\r\n\r\n")
            wait_until(lambda: front.server._accepts_at, lambda: "it took them all")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for one in asking:
            assert everything(one).startswith(b"HTTP/1.0 200 ")


def test_strangers_do_not_get_the_last_descriptors(front: Front) -> None:
    """The limit leaves 8 for them: the oldest of theirs go for those that come."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    asking = (
        "import socket, sys; "
        f"held = [socket.create_connection(('127.0.0.1', {front.port})) for _ in range(40)]; "
        "sys.stdin.read()"
    )
    lowest_free = os.dup(0)
    os.close(lowest_free)
    try:
        with subprocess.Popen([sys.executable, "-c", asking], stdin=subprocess.PIPE) as stranger:
            assert stranger.stdin is not None
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free + 1 + 24 + 8, hard))
            wait_until(lambda: len(front.refusals) >= 30, lambda: str(front.refusals))
            # One that comes takes two of them for a moment.
            ours = [os.dup(0) for _ in range(22)]
            stranger.stdin.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    for one in ours:
        os.close(one)


def test_what_is_under_way_at_the_end_is_answered(front: Front) -> None:
    with front.connect(b"GET /hangs HTTP/1.1\r\n\r\n") as asked:
        wait_until(lambda: front.answering() == 1, lambda: "not yet")
        front.server.close()
        with pytest.raises(ConnectionRefusedError):
            front.connect()
        front.may_go_on.set()
        assert everything(asked).startswith(b"HTTP/1.0 200 ")
    front.server.close(10)
    assert not front.server._thread.is_alive()


def test_a_party_that_does_not_take_its_answers_makes_room_itself() -> None:
    """It has most places, and each newcomer pushed out who was still asking."""
    with ExitStack() as stack:

        def connection(uid: int, phase: Phase) -> Connection:
            ours, theirs = socket.socketpair()
            stack.callback(theirs.close)
            peer = Peer(uid=uid)
            made = Connection(ours, peer, Incoming(Router([]), peer), LIMITS)
            stack.callback(made.close)
            made.phase = phase
            return made

        asks = connection(8, Phase.READING)
        crowd = [connection(7, Phase.WRITING) for _ in range(3)]
        assert whom_to_hang_up_on([asks, *crowd]) is crowd[0]
        # Of the same party, who still asks is nearest.
        assert whom_to_hang_up_on([*crowd, own := connection(7, Phase.READING), asks]) is own
        waits = [connection(9, Phase.WAITING) for _ in range(5)]
        assert whom_to_hang_up_on([*waits, asks, *crowd]) is crowd[0]
        assert whom_to_hang_up_on(waits) is None

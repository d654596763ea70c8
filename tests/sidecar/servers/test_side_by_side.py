"""A server that hangs holds up nobody, and one that comes back is cut before anything else."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest

from sidecar.servers import back_off, server_contact, server_watch, side_by_side
from sidecar.servers.connection import background_reading, redis_server
from sidecar.servers.connection.redis_server import RedisServer
from sidecar.servers.connection.server_errors import ServerDownError
from sidecar.servers.unanswered_sizes import UnansweredSizes
from tests.sidecar.actuated_node import BUDGET, ActuatedNode
from tests.sidecar.fixtures import MakeNode
from workloads.local_node import WAIT_LIMIT_SECONDS, wait_until
from workloads.local_server import BUILD

MB = 1 << 20


@pytest.fixture
def endless_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let who waits for a server that hangs wait for longer than any test."""
    for module, name in (
        (redis_server, "TIMEOUT_SECONDS"),
        (background_reading, "TIMEOUT_SECONDS"),
        (background_reading, "ANSWER_SECONDS"),
    ):
        monkeypatch.setattr(module, name, 4 * WAIT_LIMIT_SECONDS)


@pytest.fixture
def node(endless_questions: None, make_node: MakeNode) -> Iterator[ActuatedNode]:
    """Three servers at their targets; s1 hangs."""
    node = make_node("16mb", "16mb", "16mb")
    targets = {"s0": 12 * MB, "s1": 18 * MB, "s2": 18 * MB}
    node.actuator.set_targets(targets, "plan")
    node.settle()
    process = node.servers["s1"].process
    process.send_signal(signal.SIGSTOP)
    yield node
    process.send_signal(signal.SIGCONT)
    node.actuator.stop()


def _size(node: ActuatedNode, name: str) -> int:
    return int(node.servers[name].client.config_get("maxmemory")["maxmemory"])


def test_a_server_that_restarts_is_cut_while_another_hangs(node: ActuatedNode) -> None:
    node.actuator.start()
    node.servers["s0"].client.config_set("maxmemory", 30 * MB)
    node.servers["s0"].client.config_rewrite()
    node.servers["s0"].restart()
    wait_until(lambda: _size(node, "s0") == 12 * MB, node.metrics.snapshot)


def test_an_observation_leaves_out_who_hangs(
    node: ActuatedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_reading, "TIMEOUT_SECONDS", 0.1)
    readings = node.actuator.read_all()
    assert [name for name, reading in readings.items() if reading] == ["s0", "s2"]
    assert "no answer within" in node.actuator.errors()["s1"]
    assert node.metrics.value("servers_lost", instance="s1") == 1


def test_its_answer_is_taken_when_it_comes_at_last(
    node: ActuatedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_reading, "TIMEOUT_SECONDS", 0.1)
    node.actuator.start()
    wait_until(lambda: "s1" in node.actuator.errors(), node.metrics.snapshot)
    connections = len(node.servers["s0"].client.client_list())
    node.servers["s1"].process.send_signal(signal.SIGCONT)
    wait_until(lambda: not node.actuator.errors(), node.metrics.snapshot)
    assert node.metrics.value("servers_lost", instance="s1") == 1
    # The question that hung was the only one.
    assert len(node.servers["s1"].client.client_list()) == connections


def test_one_that_comes_back_is_cut_before_anything_else(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = make_node("16mb", "16mb", "16mb")
    node.settle(12, 12, 24)
    node.servers["s1"].client.config_set("maxmemory", 40 * MB)
    node.servers["s1"].client.config_rewrite()
    node.servers["s1"].restart()
    node.want(10, 12, 26)
    done = []
    real = RedisServer.set

    def note(self: RedisServer, settings: dict[str, object]) -> None:
        if "maxmemory" in settings:
            done.append(self.name)
        real(self, settings)

    monkeypatch.setattr(RedisServer, "set", note)
    node.settle()
    assert done == ["s1", "s0", "s2"]
    assert node.maxmemory() == {"s0": 10 * MB, "s1": 12 * MB, "s2": 26 * MB}


def _is_read_at_once(watch: server_watch.ServerWatch) -> bool:
    """Whether it is read before the next step, however slow its answer is."""
    came_back = watch.comes_back()
    if watch.contact.is_free:
        return came_back
    watch.contact.wait(WAIT_LIMIT_SECONDS)
    return watch.comes_back()


def test_who_hangs_up_again_and_again_is_not_read_at_once_each_time(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_watch, "_HANG_UP_SECONDS", 4 * WAIT_LIMIT_SECONDS)
    node = make_node("16mb", "16mb")
    node.actuator.read_all()
    watch = node.actuator._watches["s0"]
    for expected in (True, False, False):
        node.servers["s0"].client.execute_command("CLIENT", "KILL", "TYPE", "normal")
        wait_until(watch.contact.hung_up, node.metrics.snapshot)
        assert _is_read_at_once(watch) is expected
        node.actuator.read_all()


def test_a_user_who_may_not_ask_for_tables_is_counted_once(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    node = make_node("16mb", "16mb", binary=BUILD / "bin" / "valkey-server-stock")
    node.servers["s0"].client.execute_command("ACL", "SETUSER", "default", "-memory|stats")
    for _ in range(3):
        node.actuator.read_all()
    assert node.metrics.value("tables_not_counted", instance="s0") == 1
    assert node.metrics.value("tables_not_counted", instance="s1") == 0
    assert caplog.text.count("its hash tables are not counted") == 1


def test_nobody_grows_beside_one_that_hangs_and_was_never_seen(make_node: MakeNode) -> None:
    """Another sidecar was killed before it took from s1 what s0 is to have."""
    node = make_node("16mb", "32mb")
    node.servers["s1"].process.send_signal(signal.SIGSTOP)
    try:
        node.begin(32, 16)
        wait_until(lambda: bool(node.actuator.read_all()["s0"]), node.metrics.snapshot)
        for _ in range(5):
            node.actuator.step()
        assert _size(node, "s0") == 16 * MB
    finally:
        node.servers["s1"].process.send_signal(signal.SIGCONT)
    assert node.step_until(lambda: node.maxmemory() == {"s0": 32 * MB, "s1": 16 * MB}) <= BUDGET


def test_one_that_hangs_from_the_start_holds_up_nobody_for_long(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script without end and a restart of the sidecar: nobody grew as long as the script ran."""
    node = make_node("16mb", "16mb")
    node.servers["s1"].process.send_signal(signal.SIGSTOP)
    try:
        node.begin(32, 16)
        wait_until(lambda: bool(node.actuator.read_all()["s0"]), node.metrics.snapshot)
        node.actuator.step()
        assert _size(node, "s0") == 16 * MB
        monkeypatch.setattr(server_contact, "UNREAD_SECONDS", 0.0)
        for _ in range(5):
            node.actuator.step()
        assert _size(node, "s0") == 32 * MB
    finally:
        node.servers["s1"].process.send_signal(signal.SIGCONT)


def test_who_is_down_at_the_start_holds_up_nobody(make_node: MakeNode) -> None:
    node = make_node("16mb", "16mb")
    node.servers["s1"].stop()
    node.want(32, 16)
    for _ in range(50):
        node.actuator.step()
    assert _size(node, "s0") == 32 * MB


def test_servers_that_are_slow_to_answer_get_their_sizes_all_the_same(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answer comes later than anybody waits for."""
    for module in (server_contact, server_watch, side_by_side):
        monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.0)
    node = make_node("16mb", "32mb")
    node.want(32, 16)
    wanted = {"s0": 32 * MB, "s1": 16 * MB}
    contacts = [watch.contact for watch in node.actuator._watches.values()]
    for _ in range(50):
        node.actuator.step()
        # As in the pause between two steps: what has come at last is taken.
        for contact in contacts:
            contact.wait(WAIT_LIMIT_SECONDS)
        node.actuator._one_comes_back()
        for watch in node.actuator._watches.values():
            watch.take()
        if node.maxmemory() == wanted and node.knob("s1", "hz") == "10":
            break
    assert node.maxmemory() == wanted
    assert node.knob("s1", "hz") == "10"
    assert all(node.actuator.read_all().values())


def test_a_size_whose_reply_was_lost_is_not_taken_for_somebodys(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network delivers it when the server has answered again already."""
    node = make_node("16mb", "16mb")
    node.want(20, 16)
    real = RedisServer.set

    def lose(self: RedisServer, settings: dict[str, object]) -> None:
        if "maxmemory" in settings:
            raise ServerDownError("no answer")
        real(self, settings)

    with monkeypatch.context() as away:
        away.setattr(RedisServer, "set", lose)
        node.actuator.step()
    watch = node.actuator._watches["s0"]

    def read() -> bool:
        watch.contact.ask()
        return watch.take() is not None

    wait_until(read, node.metrics.snapshot)
    client = node.servers["s0"].client
    for size, by_hand in ((20 * MB, None), (19 * MB, 19 * MB)):
        client.config_set("maxmemory", size)
        wait_until(read, node.metrics.snapshot)
        wait_until(read, node.metrics.snapshot)
        assert watch.take_size_by_hand() == by_hand


def test_sizes_without_an_answer_are_forgotten_after_a_while() -> None:
    clock = [100.0]
    sizes = UnansweredSizes(lambda: clock[0])
    sizes.add(5)
    clock[0] += 119.0
    sizes.add(6)
    assert sizes.has(5)
    clock[0] += 1.0
    assert [sizes.has(size) for size in (5, 6, 7)] == [False, True, False]


def test_one_that_a_script_keeps_busy_is_looked_at_as_soon_as_one_that_hangs(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that refuses it was asked less and less often: what came in its place was not seen."""
    monkeypatch.setattr(back_off, "FIRST_PAUSE_SECONDS", 4 * WAIT_LIMIT_SECONDS)
    monkeypatch.setattr(back_off, "LAST_PAUSE_SECONDS", 4 * WAIT_LIMIT_SECONDS)
    node = make_node("16mb", "16mb", **{"busy-reply-threshold": 1})
    server = node.servers["s0"]
    node.settle(16, 16)

    def be_busy() -> None:
        connection = server.client.connection_pool.make_connection()
        connection.send_command("EVAL", "while true do end", 0)
        step_until(lambda: "BUSY" in node.actuator.errors().get("s0", ""))

    def step_until(done: Callable[[], bool]) -> None:
        wait_until(lambda: (node.actuator.step(), done())[1], node.metrics.snapshot)

    be_busy()
    node.want(8, 40)
    for _ in range(5):
        node.actuator.step()
    # It has what it had.
    assert _size(node, "s1") == 32 * MB
    server.client.execute_command("SCRIPT", "KILL")
    step_until(lambda: _size(node, "s1") == 40 * MB)
    assert _size(node, "s0") == 8 * MB
    be_busy()
    server.process.kill()  # its file says 16 MB
    server.restart()
    step_until(lambda: _size(node, "s0") == 8 * MB)
    assert node.metrics.value("servers_restarted", instance="s0") == 1

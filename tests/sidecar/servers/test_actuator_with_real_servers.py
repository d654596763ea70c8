"""The actuator against real servers: sums, tenacity, servers that go and come back."""

from __future__ import annotations

import dataclasses
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from sidecar.servers import actuator
from sidecar.servers.connection.redis_server import RedisServer
from sidecar.servers.connection.server_errors import ServerDownError
from sidecar.servers.server_watch import ServerWatch
from sidecar.servers.shrink_mode import SHRINK_MODE
from sidecar.state.sidecar_state import SavedSettings
from sidecar.state.state_store import StateStore
from tests.sidecar.actuated_node import BUDGET, ActuatedNode, fill
from tests.sidecar.fixtures import MakeNode
from tests.sidecar.no_threads import refuse_threads
from workloads.local_node import wait_until
from workloads.local_server import BUILD

MB = 1 << 20


def test_a_full_server_gives_its_memory_to_another_and_the_sum_never_exceeds_the_budget(
    make_node: MakeNode, stock_binary: Path
) -> None:
    node = make_node("16mb", "16mb", "16mb", binary=stock_binary)
    fill(node.servers["s0"], 16)
    node.want(4, 20, 24)
    greatest = node.settle()
    assert node.maxmemory() == {"s0": 4 * MB, "s1": 20 * MB, "s2": 24 * MB}
    assert greatest <= BUDGET
    assert node.knob("s0", "maxmemory-eviction-tenacity") == "10"
    assert node.knob("s0", "activedefrag") == "no"
    assert node.knob("s0", "hz") == "10"


@pytest.mark.parametrize("prefix", ["spreds-", "spreds."], ids=["patch", "module"])
def test_the_sampler_gets_its_knobs(make_node: MakeNode, prefix: str) -> None:
    more: dict[str, Path] = {}
    if prefix == "spreds.":
        more = {"binary": STOCK, "loadmodule": BUILD / "lib" / "spreds.so"}
        if not more["loadmodule"].exists():
            pytest.skip("build/lib/spreds.so is not built")
    node = make_node("16mb", **more)
    found = node.knob("s0", f"{prefix}threshold")
    node.begin(16)
    assert node.knob("s0", f"{prefix}endpoint") == node.config.sampling.endpoint
    assert node.knob("s0", f"{prefix}threshold") == str(1 << 23) != found
    node.actuator.stop()
    knobs = [node.knob("s0", f"{prefix}{knob}") for knob in ("endpoint", "threshold")]
    assert knobs == ["", found]


def test_a_server_without_a_sampler_is_still_sized(make_node: MakeNode) -> None:
    node = make_node("16mb", binary=STOCK)
    node.want(8)
    node.settle()
    assert node.maxmemory() == {"s0": 8 * MB}


STOCK = BUILD / "bin" / "redis-server-stock"
SHRINK_MODE_KNOBS = (
    "maxmemory-eviction-tenacity",
    "activedefrag",
    "active-defrag-ignore-bytes",
    "hz",
)
OWN = {"maxmemory-eviction-tenacity": "30", "hz": "25"}
IN_A_SHRINK = ["0", "yes", "4194304", "500"]
AFTERWARDS = ["30", "no", "104857600", "25"]
DEFAULTS = ["10", "no", "104857600", "10"]


def _knobs(node: ActuatedNode) -> list[str]:
    return [node.knob("s0", knob) for knob in SHRINK_MODE_KNOBS]


@pytest.fixture
def about_to_shrink(make_node: MakeNode) -> ActuatedNode:
    """``s0`` is full; it has settings of its own."""
    node = make_node("32mb", "16mb")
    node.servers["s0"].client.config_set(*[word for pair in OWN.items() for word in pair])
    fill(node.servers["s0"], 40)
    return node


@pytest.fixture
def in_a_shrink(about_to_shrink: ActuatedNode) -> ActuatedNode:
    """``s0`` is full and in the middle of a shrink; it had settings of its own."""
    about_to_shrink.begin(4, 44)
    assert about_to_shrink.maxmemory()["s0"] == 4 * MB
    assert _knobs(about_to_shrink) == IN_A_SHRINK
    return about_to_shrink


def next_life(node: ActuatedNode, state_file: Path | None) -> None:
    """The actuator is never heard of again; another one knows what is on file."""
    node.store = StateStore(state_file)
    node.actuator = node.make()


def test_after_a_shrink_a_server_has_its_own_settings(in_a_shrink: ActuatedNode) -> None:
    in_a_shrink.settle()
    assert _knobs(in_a_shrink) == AFTERWARDS


@pytest.mark.parametrize(
    ("remembers", "after"),
    [(True, ["33", "no", "209715200", "20"]), (False, DEFAULTS)],
)
def test_a_sidecar_that_died_in_a_shrink_is_cleaned_up_after_by_the_next(
    make_node: MakeNode, tmp_path: Path, remembers: bool, after: list[str]
) -> None:
    node = make_node("32mb", "16mb")
    own = {"maxmemory-eviction-tenacity": 33, "active-defrag-ignore-bytes": 200 * MB, "hz": 20}
    node.servers["s0"].client.config_set(*[word for pair in own.items() for word in pair])
    fill(node.servers["s0"], 40)
    node.begin(4, 44)
    assert _knobs(node) == IN_A_SHRINK
    next_life(node, tmp_path / "state" if remembers else None)
    assert node.settle(4, 44) <= BUDGET
    assert node.maxmemory() == {"s0": 4 * MB, "s1": 44 * MB}
    assert _knobs(node) == after
    assert node.store.now.replaced == {}


def test_what_a_dead_sidecar_raised_is_put_back_also_if_somebody_has_repaired_half_of_it(
    make_node: MakeNode, tmp_path: Path
) -> None:
    node = make_node("32mb", "16mb")
    fill(node.servers["s0"], 40)
    node.begin(4, 16)
    node.servers["s0"].client.config_set("maxmemory-eviction-tenacity", 10)
    next_life(node, tmp_path / "state")
    node.settle(4, 16)
    assert _knobs(node) == DEFAULTS


def test_a_sidecar_that_died_before_it_was_gentle_is_gentle_in_its_next_life(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    node = make_node("32mb", "16mb")
    fill(node.servers["s0"], 30)
    node.want(4, 16)

    def die(_: ServerWatch) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(ServerWatch, "enter_shrink_mode", die)
        with pytest.raises(SystemExit):
            node.actuator.step()
    node.store = StateStore(tmp_path / "state")
    assert node.store.now.replaced["s0"].settings["hz"] == "10"
    node.actuator = node.make()
    node.begin(4, 16)
    assert node.maxmemory()["s0"] == 4 * MB
    assert node.knob("s0", "maxmemory-eviction-tenacity") == "0"


@pytest.mark.parametrize("sidecar_dies", [False, True])
def test_a_server_that_comes_back_with_a_shrinks_settings_in_its_file_gets_its_own(
    in_a_shrink: ActuatedNode, tmp_path: Path, sidecar_dies: bool
) -> None:
    node = in_a_shrink
    node.servers["s0"].client.config_rewrite()
    node.servers["s0"].restart()
    assert _knobs(node) == IN_A_SHRINK
    if sidecar_dies:
        next_life(node, tmp_path / "state")
        node.want(4, 44)
    node.step_until(lambda: node.actuator.settled and not node.store.now.replaced)
    assert _knobs(node) == AFTERWARDS


def test_a_server_whose_file_has_a_shrinks_settings_gets_its_own_also_long_after_it(
    in_a_shrink: ActuatedNode, tmp_path: Path
) -> None:
    node = in_a_shrink
    node.servers["s0"].client.config_rewrite()
    node.settle()
    assert _knobs(node) == AFTERWARDS
    node.servers["s0"].restart()
    assert _knobs(node) == IN_A_SHRINK
    next_life(node, tmp_path / "state")
    node.settle(4, 44)
    assert _knobs(node) == AFTERWARDS


def test_a_server_that_comes_back_with_settings_of_its_file_keeps_them(
    in_a_shrink: ActuatedNode,
) -> None:
    node = in_a_shrink
    node.servers["s0"].restart()
    assert _knobs(node) == DEFAULTS
    node.step_until(lambda: node.actuator.settled and not node.store.now.replaced)
    assert _knobs(node) == DEFAULTS


def test_a_setting_that_another_version_replaced_is_no_hindrance(make_node: MakeNode) -> None:
    node = make_node("16mb", "16mb")
    run_id = node.servers["s0"].client.info()["run_id"]
    # As a sidecar that died in a shrink left it; of what was saved before, nothing is known now.
    for knob, value in SHRINK_MODE.items():
        if knob in node.servers["s1"].client.config_get(knob):
            node.servers["s1"].client.config_set(knob, value)
    strange = {"maxmemory-samples": "7"}
    with node.store.update() as state:
        state.replaced = {"s0": SavedSettings(run_id, {**strange, "hz": "37"})}
        state.before_shrink = {"s1": strange}
    node.actuator = node.make()
    node.settle(8, 8)
    assert node.maxmemory() == {"s0": 8 * MB, "s1": 8 * MB}
    assert node.knob("s0", "maxmemory-samples") == "5"
    assert [node.knob("s1", knob) for knob in ("hz", "activedefrag")] == ["10", "no"]
    assert not node.store.now.replaced


def test_bytes_that_are_no_text_do_not_put_a_server_out_of_reach(
    make_node: MakeNode, stock_binary: Path
) -> None:
    """INFO has the codes of errors that scripts make up, CLIENT LIST the names of users."""
    node = make_node("16mb", "16mb", binary=stock_binary)
    client: Any = node.servers["s0"].client
    with pytest.raises(redis.ResponseError):
        client.eval("return {err='\\255\\254 boo'}", 0)
    client.execute_command("ACL", "SETUSER", b"jos\xe9", "on", "nopass", "+@all", "~*")
    client.execute_command("AUTH", b"jos\xe9", "")
    node.actuator = node.make()
    node.actuator.claim()
    node.settle(8, 24)
    assert node.maxmemory() == {"s0": 8 * MB, "s1": 24 * MB}
    assert node.metrics.value("servers_lost") == 0


def test_a_server_that_once_had_many_keys_is_not_shrunk_below_its_tables(
    make_node: MakeNode, stock_binary: Path
) -> None:
    """Of 2 MiB here. Redis 7.0 makes them smaller soon after the keys are gone; Redis 8 and Valkey
    keep them, and would refuse every write."""
    node = make_node("40mb", "8mb", binary=stock_binary, **{"enable-debug-command": "yes"})
    client: Any = node.servers["s0"].client
    client.execute_command("DEBUG", "POPULATE", "150000", "key", "20")
    node.begin(40, 8)
    least = node.actuator.least_bytes()["s0"]
    node.actuator.set_targets({"s0": least}, "test")
    node.settle()

    def takes_write(key: int) -> bool:
        try:
            return bool(client.set(f"new{key}", b"x" * 100))
        except redis.exceptions.OutOfMemoryError:
            return False

    # Some may wait for Redis 7.0, which has two tables while it makes one smaller.
    for key in range(3000):
        wait_until(partial(takes_write, key), node.metrics.snapshot)
    assert least < 8 * MB


def test_what_somebody_sets_in_a_shrink_stays(
    in_a_shrink: ActuatedNode, caplog: pytest.LogCaptureFixture
) -> None:
    node = in_a_shrink
    theirs = {"hz": "100", "maxmemory-eviction-tenacity": "70"}
    node.servers["s0"].client.config_set(*[word for pair in theirs.items() for word in pair])
    with caplog.at_level("WARNING"):
        node.settle()
    assert _knobs(node) == ["70", "no", "104857600", "100"]
    assert "server s0: somebody set hz to 100 in a shrink" in caplog.text
    assert node.store.now.replaced == {}


def test_what_somebody_sets_between_two_shrinks_is_what_comes_back(
    in_a_shrink: ActuatedNode,
) -> None:
    """The second begins before the first is over."""
    node = in_a_shrink
    node.servers["s0"].client.config_set("maxmemory-eviction-tenacity", 70)
    node.begin(3, 44)
    assert _knobs(node) == IN_A_SHRINK
    node.settle()
    assert _knobs(node) == ["70", "no", "104857600", "25"]


@pytest.mark.parametrize("by_hand", [{}, {"hz": "100"}])
def test_stopping_in_a_shrink_leaves_what_somebody_has_just_set_and_nothing_half_applied(
    in_a_shrink: ActuatedNode, by_hand: dict[str, str]
) -> None:
    node = in_a_shrink
    for knob, value in by_hand.items():
        node.servers["s0"].client.config_set(knob, value)
    node.actuator.stop()
    assert _knobs(node) == [*AFTERWARDS[:3], by_hand.get("hz", OWN["hz"])]
    assert node.knob("s0", "spreds-endpoint") == ""
    assert sum(node.maxmemory().values()) <= BUDGET


def test_what_cannot_be_kept_on_file_is_not_replaced_and_the_shrink_does_not_wait(
    about_to_shrink: ActuatedNode, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = about_to_shrink
    (tmp_path / "state").mkdir()  # which no file can replace
    node.want(4, 44)
    with caplog.at_level("WARNING"):
        node.actuator.step()
    assert _knobs(node) == AFTERWARDS
    assert node.maxmemory()["s0"] == 4 * MB
    assert node.store.now.replaced == {}
    assert node.metrics.value("shrinks_without_mode") == 1
    assert "cannot be kept on file" in caplog.text
    # The next one is gentle again, if it can be.
    (tmp_path / "state").rmdir()
    node.begin(3, 44)
    assert _knobs(node) == IN_A_SHRINK


def test_without_a_thread_servers_are_out_of_reach_and_are_left_in_order(
    in_a_shrink: ActuatedNode, caplog: pytest.LogCaptureFixture
) -> None:
    node = in_a_shrink
    with pytest.MonkeyPatch.context() as patch, caplog.at_level("WARNING"):
        refuse_threads(patch)
        node.actuator.stop()
        assert _knobs(node) == AFTERWARDS
        assert [node.knob(name, "spreds-endpoint") for name in node.servers] == ["", ""]
        other = node.make()
        assert other.read_all() == {"s0": None, "s1": None}
    assert "reads s0: can't start new thread" in caplog.text
    wait_until(lambda: None not in other.read_all().values(), lambda: caplog.text)
    other.stop()


def test_a_server_that_is_down_keeps_its_claim_and_the_others_go_on(make_node: MakeNode) -> None:
    node = make_node("16mb", "16mb", "8mb")
    node.begin(16, 16, 8)
    node.servers["s0"].stop()
    others = {name: server for name, server in node.servers.items() if name != "s0"}
    node.servers = others
    node.settle(4, 8, 36)
    # s0 may come back with its 16 MB: only what is free beside them goes to s2.
    assert node.maxmemory() == {"s1": 8 * MB, "s2": 24 * MB}
    assert node.metrics.value("servers_lost") == 1


def test_a_change_by_somebody_else_is_put_back(make_node: MakeNode) -> None:
    node = make_node("16mb", "16mb")
    node.begin(16, 16)
    node.servers["s0"].client.config_set("maxmemory", 0)
    node.step_until(lambda: node.maxmemory()["s0"] == 16 * MB)
    assert node.metrics.value("foreign_changes") == 1


def test_a_server_that_restarted_is_noticed_and_brought_back(make_node: MakeNode) -> None:
    node = make_node("16mb", "16mb")
    node.settle(8, 16)
    node.servers["s0"].restart()
    assert node.maxmemory()["s0"] == 16 * MB
    node.step_until(lambda: node.maxmemory()["s0"] == 8 * MB)
    assert node.metrics.value("servers_restarted") == 1
    assert node.knob("s0", "spreds-endpoint") == node.config.sampling.endpoint


def test_a_restart_is_noticed_by_the_closed_connection_not_by_the_next_reading(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actuator, "IDLE_SECONDS", 3600.0)
    node = make_node("16mb", "16mb")
    sizes = {"s0": 8 * MB, "s1": 16 * MB}
    node.actuator.engage(sizes, sizes, "test")
    node.actuator.start()
    try:
        wait_until(lambda: node.actuator.settled, node.metrics.snapshot)
        for restarts in (1, 2):
            node.servers["s0"].restart()
            wait_until(lambda: node.maxmemory()["s0"] == 8 * MB, node.metrics.snapshot)
            assert node.metrics.value("servers_restarted") == restarts
    finally:
        node.actuator.stop()


def test_a_growth_whose_reply_is_lost_counts_as_done(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = make_node("8mb", "8mb", "8mb")
    targets = {"s0": 32 * MB, "s1": 8 * MB, "s2": 8 * MB}
    node.actuator.set_targets(targets, "test")
    real = RedisServer.set
    lost = threading.Event()

    def set_and_lose(self: RedisServer, values: dict[str, object]) -> None:
        real(self, values)
        if self.name == "s0" and "maxmemory" in values and not lost.is_set():
            lost.set()
            raise ServerDownError("the reply is lost")

    monkeypatch.setattr(RedisServer, "set", set_and_lose)
    node.actuator.step()
    assert lost.is_set()
    assert node.maxmemory()["s0"] == 32 * MB
    # The others must not be given what s0 may have.
    node.begin(8, 32, 8)
    assert sum(node.maxmemory().values()) <= BUDGET


def test_growth_waits_for_resident_memory_and_then_no_longer(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = make_node("24mb", "16mb", memory='rss_wait = "1h"')
    real = RedisServer.read
    resident = {"s0": 80 * MB, "s1": 0}

    def read(self: RedisServer, *wait: float) -> object:
        return dataclasses.replace(real(self, *wait), rss_bytes=resident[self.name])

    monkeypatch.setattr(RedisServer, "read", read)
    node.want(8, 40)
    for _ in range(5):
        node.actuator.step()
    assert node.maxmemory() == {"s0": 8 * MB, "s1": 16 * MB}
    assert not node.actuator.settled
    resident["s0"] = 10 * MB
    node.settle()
    assert node.maxmemory() == {"s0": 8 * MB, "s1": 40 * MB}

"""Operators decide: nothing is set until they say so, and what they say holds."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sidecar.commands.plan.plan_words import plan_in_short
from sidecar.config.node import load_config
from sidecar.control.history import history_path, read_history
from sidecar.control.order import Order, OrderRefusedError
from sidecar.daemon import Sidecar
from sidecar.half_lives.planning_basis import PlanningBasis
from solver_lambda.documents.units import format_size
from tests.sidecar.actuated_node import fill
from tests.sidecar.daemon.test_closed_loop import Load
from tests.sidecar.fixtures import Servers, StartServer, WriteNode
from workloads.local_node import sidecar_in_thread, wait_until
from workloads.local_server import LocalServer
from workloads.local_server import settled_sizes as sizes

MB = 1 << 20
FIRST = {"s0": 12 * MB, "s1": 12 * MB}
MORE = """
[cycle]
samples = 4000
maximum_age = "6s"
[planning]
minimum_gain_ratio = 0.0
forecast = "last"
[controller]
kind = "embedded"
"""


@pytest.fixture
def servers(start_server: StartServer) -> Servers:
    return {name: start_server(size) for name, size in FIRST.items()}


@pytest.fixture
def path(write_node: WriteNode, servers: Servers) -> Path:
    return in_mode(
        write_node(servers, budget="24mb", memory='rss_wait = "0s"', more=MORE), "recommend"
    )


@pytest.fixture
def applying(path: Path) -> Path:
    """Return the path of a file like ``path`` with which plans are carried out."""
    return in_mode(path, "apply")


def in_mode(path: Path, mode: str) -> Path:
    text = path.read_text()
    for old in ("apply", "recommend"):
        text = text.replace(f'mode = "{old}"', f'mode = "{mode}"')
    path.write_text(text)
    return path


def wait_for(condition: Callable[[], object], sidecar: Sidecar) -> None:
    wait_until(condition, lambda: (sidecar.status()["servers"], sidecar.metrics.snapshot()))


@contextmanager
def running(path: Path) -> Iterator[Sidecar]:
    """The sidecar of this node, once it has read all servers."""
    with sidecar_in_thread(path) as sidecar:
        wait_for(lambda: all(one["up"] for one in sidecar.status()["servers"]), sidecar)
        yield sidecar


def wait_for_two_cycles(sidecar: Sidecar) -> None:
    cycles = sidecar.cycles
    wait_for(lambda: sidecar.cycles >= cycles + 2, sidecar)


def can_be_applied(status: dict[str, Any]) -> bool:
    plan = status["last_plan"]
    return plan is not None and plan["decision"] == "apply" and not plan["carried_out"]


def recommended(sidecar: Sidecar) -> bool:
    return can_be_applied(sidecar.status())


def problems(sidecar: Sidecar) -> str:
    return " ".join(sidecar.status()["problems"])


def takes_from_the_first(sidecar: Sidecar) -> bool:
    """It is recommended; the very first plans, made of little, may do the opposite."""
    plan = sidecar.last_plan
    return plan is not None and recommended(sidecar) and plan.servers[0].maxmemory_bytes < 12 * MB


def would_have_gained(sidecar: Sidecar) -> bool:
    """Something, in what came after the plans."""
    return (sidecar.status()["recommended_gain"]["ratio"] or 0) > 0.01


@contextmanager
def sizes_set(servers: Servers) -> Iterator[list[str]]:
    """The CONFIG SETs of maxmemory that servers were sent meanwhile."""
    found: list[str] = []
    stop = threading.Event()

    def listen(server: LocalServer) -> None:
        with server.client.monitor() as monitor:
            ready.wait()
            while not stop.is_set():
                command = monitor.next_command()["command"]
                if command.lower().startswith("config set maxmemory "):
                    found.append(command)

    ready = threading.Barrier(len(servers) + 1)
    threads = [threading.Thread(target=listen, args=(one,)) for one in servers.values()]
    for thread in threads:
        thread.start()
    ready.wait()
    try:
        yield found
    finally:
        stop.set()
        for server in servers.values():
            server.client.ping()  # wakes the listener
        for thread in threads:
            thread.join()


def test_nothing_is_set_while_plans_are_only_recommended(path: Path, servers: Servers) -> None:
    with (
        sizes_set(servers) as commands,
        Load(list(servers.values())),
        sidecar_in_thread(path) as sidecar,
    ):
        wait_for(lambda: recommended(sidecar) and would_have_gained(sidecar), sidecar)
        status = sidecar.status()
        assert status["mode"] == "recommend"
        assert not status["sets_sizes"]
        assert status["last_plan"]["not_carried_out_because"] == "the mode is recommend"
    assert commands == []
    assert sizes(servers) == FIRST
    for server in servers.values():
        # The sampler was turned off, to connect anew, on, and off again.
        assert server.client.info("commandstats")["cmdstat_config|set"]["calls"] == 3


def test_a_sum_above_the_budget_is_said_and_left(path: Path, servers: Servers) -> None:
    servers["s0"].client.config_set("maxmemory", 0)
    servers["s1"].client.config_set("maxmemory", "40mb")
    with Load(list(servers.values())), sidecar_in_thread(path) as sidecar:
        wait_for(lambda: recommended(sidecar), sidecar)
        assert "s0 has no maxmemory" in problems(sidecar)
        assert "more than the budget of 24 MiB" in problems(sidecar)
        assert sizes(servers) == {"s0": 0, "s1": 40 * MB}
        # What was found comes back, also what SPREDS would never give.
        sidecar.order(Order("apply", "ann"))
        wait_for(
            lambda: sum(sizes(servers).values()) <= 24 * MB and all(sizes(servers).values()),
            sidecar,
        )
        said = sidecar.order(Order("rollback", "ann", to="installation"))
        assert "together 40 MiB, above the budget of 24 MiB" in said
        assert sizes(servers) == {"s0": 0, "s1": 40 * MB}
        told = read_history(history_path(path.parent / "state.json"))
        (back,) = [entry for entry in told if entry["kind"] == "rollback"]
        assert back["sizes_before_bytes"]["s1"] < back["sizes_bytes"]["s1"] == 40 * MB
        sidecar.order(Order("pause", "ann"))
        # The status says what was read last, which may be from before the rollback.
        wait_for(lambda: "no maxmemory: 'spreds resume' gives it one" in problems(sidecar), sidecar)


def test_what_is_cut_to_fit_into_the_budget_is_told_and_not_forgotten(
    write_node: WriteNode, servers: Servers
) -> None:
    path = in_mode(write_node(servers, budget="16mb", more=MORE), "recommend")

    def changes(sidecar: Sidecar) -> list[dict[str, Any]]:
        return [server["last_change"] for server in sidecar.status()["servers"]]

    ways = "; s0 12 MiB -> 8 MiB, s1 12 MiB -> 8 MiB"
    with sidecar_in_thread(path) as sidecar:
        wait_for(
            lambda: "'spreds apply --from-now-on' brings it below" in problems(sidecar), sidecar
        )
        assert ways in sidecar.order(Order("apply_from_now_on", "ann"))
        wait_for(lambda: sizes(servers) == {"s0": 8 * MB, "s1": 8 * MB}, sidecar)
        told = changes(sidecar)
        assert [(one["from_bytes"], one["to_bytes"]) for one in told] == [(12 * MB, 8 * MB)] * 2
    with sidecar_in_thread(path) as sidecar:
        assert changes(sidecar) == told
        sidecar.order(Order("rollback", "ann", to="installation"))
        wait_for(lambda: sizes(servers) == FIRST, sidecar)
        told = changes(sidecar)
        assert told[0]["words"] == "given back as it was before SPREDS"
    with sidecar_in_thread(path) as sidecar:
        assert changes(sidecar) == told
    entries = read_history(history_path(path.parent / "state.json"))
    assert [entry for entry in entries if ways in entry["words"]]


def test_a_recommended_plan_is_carried_out_once_when_somebody_says_so(
    path: Path, servers: Servers
) -> None:
    with Load(list(servers.values())), sidecar_in_thread(path) as sidecar:
        with pytest.raises(OrderRefusedError, match="it is for node other, and this is the sid"):
            sidecar.order(Order("pause", "ann", node="other"))
        with pytest.raises(OrderRefusedError, match="there is no plan yet"):
            sidecar.order(Order("apply", "ann"))
        wait_for(lambda: takes_from_the_first(sidecar), sidecar)
        with sidecar._lock:  # no other plan comes meanwhile
            read = sidecar.status()["last_plan"]["cycle"]
            for what in ("apply", "apply_from_now_on"):
                with pytest.raises(OrderRefusedError, match=f"the last plan is {read}; see"):
                    sidecar.order(Order(what, "ann", plan=read - 1))
            said = sidecar.order(Order("apply", "ann", "it looks right", plan=read))
        assert "s0 12 MiB -> " in said
        wait_for(lambda: sizes(servers)["s0"] < 12 * MB and arrived(sidecar), sidecar)
        applied = sizes(servers)
        assert applied["s1"] > 12 * MB
        wait_for_two_cycles(sidecar)
        status = sidecar.status()
        assert (status["mode"], status["sets_sizes"]) == ("recommend", True)
        assert sizes(servers) == applied
        change = status["servers"][0]["last_change"]
        assert (change["from_bytes"], change["to_bytes"]) == (12 * MB, applied["s0"])
        rolled_back_at = time.time()
        with sidecar._lock:  # no other plan comes meanwhile
            seen = {server.name: server for server in sidecar.last_observation.servers}
            said = sidecar.order(Order("rollback", "ann"))
            told = sidecar.status()
        has = format_size(applied["s0"])
        assert said.startswith(f"going back to s0 12 MiB (from {has}), s1 12 MiB (from ")
        assert told["last_plan"]["overtaken_by"] == "rollback by ann"
        assert "sizes have changed since (rollback by ann)" in plan_in_short(told)
        for server in told["servers"]:
            assert server["recommended_bytes"] is None
            if server["predicted_hit_ratio"] is not None:
                curve = seen[server["name"]].curve
                expected = 1 - float(curve.miss_ratio(12.0 * MB))
                assert server["predicted_hit_ratio"] == pytest.approx(expected)
        assert sidecar.status()["recommended_gain"]["since_seconds"] >= rolled_back_at
        wait_for(lambda: sizes(servers) == FIRST, sidecar)
    told = read_history(history_path(path.parent / "state.json"))
    (order,) = [entry for entry in told if entry["kind"] == "order"]
    assert order["by"] == "ann"
    assert order["words"].startswith("apply (it looks right): carrying out plan")
    assert [entry["by"] for entry in told if entry["kind"] == "rollback"] == ["ann"]


def test_orders_that_change_sizes_are_no_loss_of_plans(
    path: Path, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []
    monkeypatch.setattr(PlanningBasis, "begin_anew", lambda _: told.append(1))
    with Load(list(servers.values())), sidecar_in_thread(path) as sidecar:
        wait_for(lambda: recommended(sidecar), sidecar)
        for order in ("pause", "resume"):  # nothing is another size by that
            sidecar.order(Order(order, "ann"))
        assert not told
        sidecar.order(Order("apply", "ann"))
        assert len(told) == 1
        sidecar.order(Order("rollback", "ann"))
        assert len(told) == 2


def won(sidecar: Sidecar) -> float:
    """Against the sizes that were found; 0 before anything was counted."""
    gain = sidecar.status()["installed_gain"]
    return (gain and gain["ratio"]) or 0.0


def test_from_now_on_until_rolled_back_to_the_installation(path: Path, servers: Servers) -> None:
    with Load(list(servers.values())):
        with running(path) as sidecar:
            sidecar.order(Order("apply_from_now_on", "ann"))
            wait_for(lambda: sizes(servers)["s0"] < 12 * MB, sidecar)
            wait_for(lambda: won(sidecar) > 0.01, sidecar)
            wait_for_two_cycles(sidecar)  # with each it goes on file
            gain = sidecar.status()["installed_gain"]
            assert sidecar.status()["measured_access_time_seconds"] > 0
            assert gain["measured_before_seconds"] > 0
            before = sidecar._control.gain.before
        # Kept across a restart.
        with sidecar_in_thread(path) as sidecar:
            status = sidecar.status()
            again = status["installed_gain"]
            assert again["since_seconds"] == gain["since_seconds"]
            assert sidecar._control.gain.before == before
            assert again["ratio"] > 0.01
            assert status["mode"] == "apply"
            assert status["mode_by"]["by"] == "ann"
            wait_for(lambda: sidecar.cycles, sidecar)
            sidecar.order(Order("rollback", "ann", to="installation"))
            assert sizes(servers) == FIRST
            wait_for_two_cycles(sidecar)
            assert sizes(servers) == FIRST
        with sidecar_in_thread(path) as sidecar:
            assert sidecar.status()["mode"] == "recommend"


def test_the_files_mode_counts_again_when_it_is_edited(path: Path, servers: Servers) -> None:
    with running(path) as sidecar:
        sidecar.order(Order("apply_from_now_on", "ann"))
        assert sidecar.status()["mode"] == "apply"
        in_mode(path, "apply")
        sidecar.reload(lambda: load_config(path))
        wait_for(lambda: sidecar.status()["mode_by"] is None, sidecar)
        in_mode(path, "recommend")
        sidecar.reload(lambda: load_config(path))
        wait_for(lambda: sidecar.status()["mode"] == "apply", sidecar)


@pytest.mark.parametrize("paused", [False, True])
def test_who_only_recommends_stops_what_is_under_way(
    applying: Path, servers: Servers, paused: bool
) -> None:
    # No plan of the sidecar's own gains as much: the one that is stopped is the first.
    applying.write_text(applying.read_text().replace("gain_ratio = 0.0", "gain_ratio = 0.99"))
    with Load(list(servers.values())), sidecar_in_thread(applying) as sidecar:
        wait_for(lambda: sidecar.cycles, sidecar)
        assert sizes(servers) == FIRST
        with sidecar._lock:
            sidecar.order(Order("apply_from_now_on", "ann"))
            with sidecar._store.update() as state:
                state.targets_bytes = {"s0": 4 * MB, "s1": 20 * MB}
            if paused:
                sidecar.order(Order("pause", "ann"))
            said = sidecar.order(Order("recommend", "ann"))
            if paused:
                sidecar.order(Order("resume", "ann"))
        assert "the plan under way stops: s0 " in said
        wait_for(lambda: arrived(sidecar), sidecar)
        stopped = sizes(servers)
        assert stopped["s1"] < 20 * MB
        wait_for_two_cycles(sidecar)
        assert sizes(servers) == stopped
        assert "under way" not in sidecar.order(Order("recommend", "ann"))


def arrived(sidecar: Sidecar) -> bool:
    """Whether each server has the size that is wanted."""
    servers = sidecar.status()["servers"]
    return all(one["maxmemory_bytes"] == one["target_bytes"] for one in servers)


def test_a_pause_sets_nothing_and_ends_by_itself(applying: Path, servers: Servers) -> None:
    with Load(list(servers.values())), sidecar_in_thread(applying) as sidecar:
        wait_for(lambda: sizes(servers)["s0"] < 12 * MB, sidecar)
        sidecar.order(Order("pause", "ann", "an incident"))
        with sizes_set(servers) as commands:
            wait_for_two_cycles(sidecar)
        assert commands == []
        assert sidecar.status()["pause"]["why"] == "an incident"
        for what in ("apply", "apply_from_now_on", "rollback"):
            with pytest.raises(OrderRefusedError, match="paused by ann"):
                sidecar.order(Order(what, "bob"))
        sidecar.order(Order("pause", "ann", for_seconds=0.2))
        wait_for(lambda: sidecar.status()["pause"] is None, sidecar)
        assert sidecar.status()["sets_sizes"]


def test_a_pause_survives_a_restart(applying: Path, servers: Servers) -> None:
    servers["s0"].client.config_set("maxmemory", "40mb")
    with sidecar_in_thread(applying) as sidecar:
        wait_for(lambda: sum(sizes(servers).values()) <= 24 * MB, sidecar)
        sidecar.order(Order("pause", "ann"))
    servers["s0"].client.config_set("maxmemory", "40mb")
    with running(applying) as sidecar:
        assert not sidecar.status()["sets_sizes"]
        assert sizes(servers)["s0"] == 40 * MB
        sidecar.order(Order("resume", "ann"))
        wait_for(lambda: sum(sizes(servers).values()) <= 24 * MB, sidecar)


def test_a_size_set_by_hand_holds_until_resume(applying: Path, servers: Servers) -> None:
    with Load(list(servers.values())), sidecar_in_thread(applying) as sidecar:
        wait_for(lambda: sizes(servers)["s0"] < 12 * MB, sidecar)
        servers["s0"].client.config_set("maxmemory", "15mb")
        wait_for(lambda: sidecar.status()["servers"][0]["held"], sidecar)
        wait_for_two_cycles(sidecar)
        assert sizes(servers)["s0"] == 15 * MB
        assert sum(sizes(servers).values()) <= 24 * MB
        reason = sidecar.status()["servers"][0]["keep_reason"]
        assert reason.startswith("held: somebody set it to 15 MiB by hand")
        # A slip is put back to that, and not to what was planned before.
        for slip in ("300mb", "0"):
            servers["s0"].client.config_set("maxmemory", slip)
            wait_for(lambda: sizes(servers)["s0"] == 15 * MB, sidecar)
        wait_for_two_cycles(sidecar)
        assert sizes(servers)["s0"] == 15 * MB
        assert sidecar.status()["servers"][0]["held"]["bytes"] == 15 * MB
    # Also across a restart.
    with Load(list(servers.values())), sidecar_in_thread(applying) as sidecar:
        wait_for(lambda: sidecar.cycles >= 2, sidecar)
        assert sizes(servers)["s0"] == 15 * MB
        with pytest.raises(OrderRefusedError, match="s1 is not held"):
            sidecar.order(Order("resume", "ann", server="s1"))
        wait_for(lambda: sidecar.status()["servers"][0]["keep_reason"], sidecar)
        sidecar.order(Order("resume", "ann", server="s0"))
        kept = sidecar.status()["servers"][0]["keep_reason"]
        assert not (kept or "").startswith("held:")
        wait_for(lambda: sizes(servers)["s0"] < 12 * MB, sidecar)


def test_what_a_size_by_hand_takes_is_memory_that_nobody_uses_first(
    start_server: StartServer, write_node: WriteNode
) -> None:
    """Each other server gave in proportion to its size: a full one evicted, beside one that used a
    fifth."""
    servers = {name: start_server("16mb") for name in ("full", "hardly", "hand")}
    fill(servers["full"], 13)
    keys = servers["full"].client.dbsize()
    with sidecar_in_thread(write_node(servers, budget="48mb")) as sidecar:
        wait_for(lambda: sidecar._actuator.settled, sidecar)
        servers["hand"].client.config_set("maxmemory", "22mb")
        wait_for(lambda: sizes(servers)["hardly"] < 13 * MB, sidecar)
        assert sizes(servers)["hand"] == 22 * MB
        assert servers["full"].client.dbsize() == keys
        assert sum(sizes(servers).values()) <= 48 * MB
        # Where even that is not enough all give, as far as half of an equal share.
        servers["hand"].client.config_set("maxmemory", "31mb")
        wait_for(lambda: sizes(servers)["hand"] == 31 * MB, sidecar)
        wait_for(lambda: sum(sizes(servers).values()) <= 48 * MB, sidecar)
        assert min(sizes(servers).values()) >= 8 * MB


@pytest.mark.parametrize(
    ("by_hand", "setting"), [("0", "hold"), ("23mb", "hold"), ("10mb", "put_back")]
)
def test_a_size_by_hand_that_starves_the_others_or_is_not_to_hold_is_put_back(
    applying: Path, servers: Servers, by_hand: str, setting: str
) -> None:
    text = applying.read_text()
    applying.write_text(text.replace("[memory]", f'[memory]\nset_by_hand = "{setting}"'))
    with running(applying) as sidecar:
        servers["s0"].client.config_set("maxmemory", by_hand)
        wait_for(lambda: sidecar.metrics.value("foreign_changes"), sidecar)
        wait_for(lambda: sizes(servers)["s0"] == 12 * MB, sidecar)
        assert sidecar.status()["servers"][0]["held"] is None


def test_a_size_by_hand_leaves_the_minima_of_the_file_that_was_read_last(
    applying: Path, servers: Servers
) -> None:
    with running(applying) as sidecar:
        text = applying.read_text()
        applying.write_text(text.replace("[[server]]", '[[server]]\nminimum = "10mb"'))
        sidecar.reload(lambda: load_config(applying))
        wait_for(lambda: sidecar.config.servers[1].minimum_bytes == 10 * MB, sidecar)
        servers["s0"].client.config_set("maxmemory", 15 * MB)
        wait_for(lambda: sidecar.metrics.value("foreign_changes"), sidecar)
        wait_for(lambda: sizes(servers)["s0"] == 12 * MB, sidecar)
        assert sidecar.status()["servers"][0]["held"] is None


def test_who_was_down_is_given_back_when_it_answers_and_shrinks_come_first(
    applying: Path, servers: Servers
) -> None:
    with Load(list(servers.values())), sidecar_in_thread(applying) as sidecar:
        wait_for(lambda: sizes(servers)["s1"] > 12 * MB, sidecar)
        servers["s1"].process.send_signal(signal.SIGSTOP)
        try:
            said = sidecar.order(Order("rollback", "ann", to="installation"))
            assert "s1: " in said
            # Who grows waits for who shrinks.
            assert sizes({"s0": servers["s0"]})["s0"] < 12 * MB
            assert "still to be given back" in problems(sidecar)
        finally:
            servers["s1"].process.send_signal(signal.SIGCONT)
        wait_for(lambda: sizes(servers) == FIRST, sidecar)


def test_who_does_not_evict_is_not_shrunk_when_it_is_given_back(
    applying: Path, servers: Servers
) -> None:
    with running(applying) as sidecar:
        servers["s0"].client.config_set("maxmemory-policy", "noeviction", "maxmemory", "14mb")
        wait_for(lambda: sidecar.status()["servers"][0]["policy"] == "noeviction", sidecar)
        said = sidecar.order(Order("rollback", "ann", to="installation"))
        assert "s0: it does not evict (noeviction), and keeps its size" in said
        assert sizes(servers) == {"s0": 14 * MB, "s1": 12 * MB}


def test_a_server_that_left_the_file_is_not_asked_for(applying: Path, servers: Servers) -> None:
    with running(applying):
        pass
    text = applying.read_text()
    applying.write_text(text[: text.rindex("[[server]]")])
    with running(applying) as sidecar:
        said = sidecar.order(Order("rollback", "ann", to="installation"))
    assert said.startswith("going back to the sizes from before SPREDS, s0 12 MiB; nothing")


@pytest.mark.parametrize(
    ("size", "problem"),
    [
        ("16mb", "s1 has 16 MiB, and does not evict. It counts with 12 MiB"),
        ("0", "s0 has no maxmemory: as it does not evict, nobody but you"),
    ],
)
def test_sizes_set_by_hand_that_do_not_fit_are_told(
    applying: Path, servers: Servers, size: str, problem: str
) -> None:
    with running(applying):
        pass
    for server in servers.values():
        server.client.config_set("maxmemory", size, "maxmemory-policy", "noeviction")
    with sidecar_in_thread(applying) as sidecar:
        wait_for(lambda: problem in problems(sidecar), sidecar)
        assert sidecar.status()["sets_sizes"]


def test_two_sizes_by_hand_do_not_exceed_the_budget(applying: Path, servers: Servers) -> None:
    with running(applying) as sidecar:
        servers["s0"].client.config_set("maxmemory", "16mb")
        wait_for(lambda: sidecar.status()["servers"][0]["held"], sidecar)
        servers["s1"].client.config_set("maxmemory", "16mb")
        wait_for(lambda: sum(sizes(servers).values()) <= 24 * MB, sidecar)
        assert sizes(servers)["s0"] == 16 * MB


def test_sizes_by_hand_while_plans_are_recommended_are_what_is_wanted(
    path: Path, servers: Servers
) -> None:
    with Load(list(servers.values())), running(path) as sidecar:
        servers["s0"].client.config_set("maxmemory", "13mb")
        servers["s1"].client.config_set("maxmemory", "11mb")
        wait_for(lambda: sidecar.metrics.value("foreign_changes") == 2, sidecar)
        sidecar.order(Order("apply_from_now_on", "ann"))
        wait_for(lambda: sizes(servers)["s0"] < 12 * MB, sidecar)
        assert sidecar.status()["servers"][0]["held"] is None


def test_the_end_of_a_pause_leaves_sizes_set_by_hand(applying: Path, servers: Servers) -> None:
    with running(applying) as sidecar:
        servers["s0"].client.config_set("maxmemory", "9mb")
        wait_for(lambda: sidecar.status()["servers"][0]["held"], sidecar)
        sidecar.order(Order("pause", "ann", for_seconds=0.1))
        wait_for(lambda: sidecar.status()["pause"] is None, sidecar)
        assert sidecar.status()["servers"][0]["held"]["bytes"] == 9 * MB
        assert sidecar.status()["sets_sizes"]
        done = sidecar.order(Order("resume", "ann"))
        # It is empty.
        assert done == (
            "s0 takes part in plans again; what s0 does not use of its size goes to whoever fills "
            "it, and the next plan decides"
        )


def test_apply_looks_at_the_bounds_of_now(path: Path, servers: Servers) -> None:
    with Load(list(servers.values())), sidecar_in_thread(path) as sidecar:
        wait_for(lambda: recommended(sidecar), sidecar)
        path.write_text(
            path.read_text().replace("backend_latency", 'maximum = "12mb"\nbackend_latency')
        )
        sidecar.reload(lambda: load_config(path))
        wait_for(lambda: sidecar.config.servers[0].maximum_bytes == 12 * MB, sidecar)
        plan = sidecar.last_plan
        assert plan is not None
        if max(server.maxmemory_bytes for server in plan.servers) > 12 * MB:
            # By the bounds of now the next plan may have come.
            words = rf"more than its maximum, 12 MiB|not plan {plan.cycle}"
            with pytest.raises(OrderRefusedError, match=words):
                sidecar.order(Order("apply", "ann", plan=plan.cycle))


def test_a_state_file_that_cannot_be_read_means_a_pause(applying: Path, servers: Servers) -> None:
    state = applying.parent / "state.json"
    state.write_text("{")
    with running(applying) as sidecar:
        assert "could not be read" in sidecar.status()["pause"]["why"]
        assert state.with_name("state.json.unreadable").read_text() == "{"
        sidecar.order(Order("resume", "ann"))
        wait_for(lambda: sidecar.status()["sets_sizes"], sidecar)

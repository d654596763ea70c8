"""The budget follows the machine: limits of cgroups are read, and servers kept below them."""

from __future__ import annotations

import logging
import math
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.base import machine_memory
from sidecar.base.machine_memory import (
    cgroup_limits_bytes,
    machine_memory_bytes,
    memory_limit,
    own_cgroups,
)
from sidecar.base.metrics import Metrics
from sidecar.cli import main
from sidecar.config.node import ServerConfig, load_config
from sidecar.control import control_plane
from sidecar.servers.budget_keeper import BudgetKeeper, SizesChange
from sidecar.servers.sizes import memory_budget
from sidecar.servers.sizes.budget_fit import fitted_sizes
from sidecar.servers.sizes.fallen_budget import (
    BUDGET_FELL,
    BUDGET_IS_BACK,
    HALVES_SECONDS,
    FallenBudget,
)
from sidecar.servers.sizes.memory_budget import MemoryBudget, Source
from sidecar.state.room_made import RoomMade
from sidecar.state.sidecar_state import SidecarState
from sidecar.state.state_store import StateStore
from solver_lambda.documents.reader import DocumentError
from tests.sidecar.actuated_node import MB, ActuatedNode, fill
from tests.sidecar.fixtures import LoadNode, MakeNode, Servers, StartServer, WriteNode
from tests.sidecar.sidecar_process import sidecar_process
from workloads.local_node import sidecar_in_thread, wait_until

V1_CGROUPS = Path("/sys/fs/cgroup/memory")


@pytest.fixture
def cgroup(tmp_path: Path) -> Path:
    """A folder like a cgroup's, within another; 64 MB."""
    folder = tmp_path / "slice" / "pod"
    folder.mkdir(parents=True)
    (folder.parent / "memory.max").write_text("max\n")
    (folder / "memory.max").write_text(f"{64 * MB}\n")
    return folder


@pytest.fixture
def looks_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_budget, "REFRESH_SECONDS", 0.0)


def _limit(cgroup: Path, size_bytes: int) -> None:
    (cgroup / "memory.max").write_text(f"{size_bytes}\n")


def test_the_least_limit_around_a_cgroup_counts(cgroup: Path) -> None:
    assert memory_limit(cgroup) == (64 * MB, "cgroup")
    (cgroup.parent / "memory.max").write_text(f"{48 * MB}\n")
    assert memory_limit(cgroup) == (48 * MB, "cgroup")
    (cgroup.parent / "memory.limit_in_bytes").write_text(f"{40 * MB}\n")  # as v1 has it
    assert memory_limit(cgroup) == (40 * MB, "cgroup")


@pytest.mark.parametrize("text", ["max\n", "9223372036854771712\n"])
def test_without_a_limit_it_is_the_machines(cgroup: Path, text: str) -> None:
    (cgroup / "memory.max").write_text(text)
    assert memory_limit(cgroup) == (machine_memory_bytes(), "machine")


def test_what_is_no_limit_is_not_believed(cgroup: Path) -> None:
    (cgroup / "memory.max").write_text("much\n")
    with pytest.raises(ValueError, match=r"memory\.max is 'much'"):
        cgroup_limits_bytes(cgroup)


@pytest.mark.parametrize("text", ["0\n", "-1\n", "-9223372036854775808\n", "\n", "1e9\n"])
def test_the_last_limit_counts_while_there_is_none_that_can_be(
    cgroup: Path, text: str, load_node: LoadNode
) -> None:
    config = load_node({"s0": "redis://127.0.0.1:1"}, budget="50%", memory=f'cgroup = "{cgroup}"')
    metrics = Metrics()
    budget = MemoryBudget(config.memory, metrics)
    (cgroup / "memory.max").write_text(text)
    assert not budget.refresh([], 1.0)
    assert (budget.bytes, metrics.value("budget_unread")) == (32 * MB, 1)
    (cgroup / "memory.max").write_text(f"{48 * MB}\n")
    assert budget.refresh([], 2.0)
    assert budget.bytes == 24 * MB


def test_the_own_cgroups_of_both_versions_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a container sees them: the mount begins at its own cgroup, or further up."""
    v1, v2 = tmp_path / "v1", tmp_path / "v2"
    (v1 / "app").mkdir(parents=True)
    v2.mkdir()
    (tmp_path / "cgroup").write_text("4:cpu,memory:/docker/abc/app\n1:cpu:/x\n0::/elsewhere\n")
    (tmp_path / "mountinfo").write_text(
        f"35 31 0:32 /docker/abc {v1} rw,relatime - cgroup cgroup rw,cpu,memory\n"
        f"36 31 0:33 / {tmp_path} rw,relatime - cgroup cgroup rw,cpu\n"
        f"41 31 0:38 / {v2} rw,relatime shared:1 - cgroup2 cgroup2 rw\n"
    )
    monkeypatch.setattr(machine_memory, "_OWN", tmp_path)
    assert own_cgroups() == [v1 / "app", v2]


@pytest.mark.parametrize("odd", [b"\xfc", b"\x0b", b"\x1c", b"\x85", "\u2028".encode()])
def test_what_else_is_mounted_does_not_matter(
    tmp_path: Path, odd: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stick or anybody's mount, whose path has a byte that is no text, ended the start."""
    (tmp_path / "cgroup").write_text("0::/\n")
    (tmp_path / "mountinfo").write_bytes(
        b"36 31 0:33 / /media/" + odd + b"/x rw,relatime - fuse.sshfs other rw\n"
        b"41 31 0:38 / " + os.fsencode(tmp_path) + b" rw,relatime - cgroup2 cgroup2 rw\n"
    )
    monkeypatch.setattr(machine_memory, "_OWN", tmp_path)
    assert own_cgroups() == [tmp_path]


def test_this_process_has_a_limit() -> None:
    assert 0 < memory_limit().bytes <= machine_memory_bytes()


@pytest.mark.skipif(
    not os.access(V1_CGROUPS, os.W_OK) or not (V1_CGROUPS / "memory.limit_in_bytes").exists(),
    reason="no cgroup of version 1 can be made here",
)
def test_the_limit_of_a_real_cgroup_counts() -> None:
    cgroup = V1_CGROUPS / f"spreds-test-{os.getpid()}"
    cgroup.mkdir()
    try:
        (cgroup / "memory.limit_in_bytes").write_text(str(96 * MB))
        assert memory_limit(cgroup) == (96 * MB, "cgroup")
    finally:
        cgroup.rmdir()


def test_a_share_is_one_of_the_cgroup(cgroup: Path, load_node: LoadNode) -> None:
    urls = {"s0": "redis://127.0.0.1:1"}
    config = load_node(urls, budget="75%", memory=f'cgroup = "{cgroup}"\nrss_budget = "90%"')
    assert config.memory.budget_bytes == 48 * MB
    budget = MemoryBudget(config.memory, Metrics())
    assert (budget.bytes, budget.source, budget.configured) == (48 * MB, "cgroup", "75%")
    assert budget.rss_budget_bytes == int(0.9 * 64 * MB)
    again = load_node(urls, budget="75%", memory=f'cgroup = "{cgroup}"\nrss_budget = "90%"')
    _limit(cgroup, 32 * MB)
    assert not again.needs_restart_after(config)
    assert budget.refresh([])
    assert budget.bytes == 24 * MB


def test_a_limit_that_cannot_be_read_any_more_stays(
    cgroup: Path, load_node: LoadNode, looks_each_step: None
) -> None:
    metrics = Metrics()
    config = load_node({"s0": "redis://127.0.0.1:1"}, budget="50%", memory=f'cgroup = "{cgroup}"')
    budget = MemoryBudget(config.memory, metrics)
    (cgroup / "memory.max").unlink()
    assert not budget.refresh([])
    assert budget.bytes == 32 * MB
    assert metrics.value("budget_unread") == 1


WRONG = {
    "no percent": ('budget = "75 percent"', ["memory.budget", "75 percent"]),
    "nothing": ('budget = "0%"', ["memory.budget", "at least 1%", "'0%'"]),
    "more than all": ('budget = "101%"', ["memory.budget", "at most 100%"]),
    "half a sign": ('budget = "%"', ["memory.budget", "a share such as '75%'"]),
    "a word": ('budget = "75 percent"', ["memory.budget", "a share such as '75%'"]),
    "no cgroup": ('budget = "75%"\ncgroup = "/proc"', ["memory.cgroup", "'/proc'", "memory.max"]),
    "cgroup of nothing": ('budget = "1GiB"\ncgroup = "{cgroup}"', ["memory.cgroup", "share"]),
    "rss": ('budget = "1GiB"\nrss_budget = "1 lot"', ["memory.rss_budget", "1 lot"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_share_is_refused_in_one_sentence(
    case: str, cgroup: Path, write_node: WriteNode
) -> None:
    text, words = WRONG[case]
    path = write_node({"s0": "redis://127.0.0.1:1"}, budget="1mb")
    path.write_text(
        path.read_text().replace('budget = "1mb"', text.replace("{cgroup}", str(cgroup)))
    )
    with pytest.raises(DocumentError) as refused:
        load_config(path)
    assert "\n" not in str(refused.value)
    for word in [str(path), *words]:
        assert word in str(refused.value)


# --- what it does to servers ----------------------------------------------------------------------


@pytest.fixture
def node(make_node: MakeNode, cgroup: Path, looks_each_step: None) -> Iterator[ActuatedNode]:
    """Two servers with 24 MB each of a cgroup's 64 MB, of which 75 % are theirs."""
    made = make_node(
        "24mb",
        "24mb",
        budget="75%",
        gradual=True,
        memory=f'rss_wait = "0s"\ncgroup = "{cgroup}"',
        server_keys='minimum = "8mb"',
    )
    made.actuator.set_targets({"s0": 30 * MB, "s1": 18 * MB}, "plan")
    made.step_until(lambda: made.actuator.settled)
    return made


def test_a_change_that_nobody_sees_is_not_told(
    node: ActuatedNode, cgroup: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Until many of them are one that can be seen."""
    caplog.set_level(logging.INFO)
    for less in range(1, 9):
        _limit(cgroup, 64 * MB - less * MB // 15)
        node.actuator.step()
        assert node.actuator.budget.bytes < 48 * MB
    told = [record.getMessage() for record in caplog.records if "budget is" in record.getMessage()]
    assert len(told) == 1
    assert node.metrics.value("budget_changes", to="less") == 1


def test_when_it_falls_all_give_at_once(node: ActuatedNode, cgroup: Path) -> None:
    _limit(cgroup, 32 * MB)
    node.actuator.step()
    assert sum(node.maxmemory().values()) <= 24 * MB
    assert min(node.maxmemory().values()) >= 8 * MB
    assert node.metrics.value("budget_changes", to="less") == 1
    with pytest.raises(ValueError, match="exceed the budget"):
        node.actuator.set_targets({"s0": 30 * MB, "s1": 18 * MB}, "an older plan")
    for _ in range(3):
        node.actuator.step()
        assert sum(node.maxmemory().values()) <= 24 * MB


def test_who_begins_to_set_sizes_does_not_go_by_what_would_fit_while_nobody_did(
    node: ActuatedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client's garbage amid a pause was taken from all caches when it ended."""
    monkeypatch.setattr(memory_budget, "REFRESH_SECONDS", 1e9)
    acted = []
    look = node.actuator.budget._follow_machine
    monkeypatch.setattr(node.actuator.budget, "_follow_machine", lambda: acted.append(look()))
    node.actuator.watch()
    node.actuator.step()
    node.actuator.step()
    assert len(acted) == 1
    node.actuator.look_at_budget()
    assert len(acted) == 2


def _budget_becomes(node: ActuatedNode, size_bytes: float, source: str) -> None:
    """Change the budget as readings of resident memory do; the next step goes by it."""
    budget = node.actuator.budget
    budget.bytes, budget.source = int(size_bytes), cast("Source", source)
    budget.refresh = lambda *_, **_more: False  # type: ignore[method-assign]
    node.actuator.step()


def test_what_resident_memory_took_goes_back_to_who_had_it(node: ActuatedNode) -> None:
    """Three seconds of a stranger's buffers halved all caches until the next plan."""
    targets = node.actuator.targets
    _budget_becomes(node, 24 * MB, "rss")
    fallen = targets()
    assert sum(fallen.values()) <= 24 * MB
    _budget_becomes(node, 20 * MB, "rss")
    _budget_becomes(node, 36 * MB, "rss")
    assert sum(targets().values()) == pytest.approx(36 * MB, rel=0.01)
    assert targets()["s0"] > targets()["s1"] > fallen["s1"]
    _budget_becomes(node, 48 * MB, "file")
    assert targets() == {"s0": 30 * MB, "s1": 18 * MB}
    told = [why for *_, why in node.actuator.fitted]
    assert told == [BUDGET_FELL, BUDGET_FELL, BUDGET_IS_BACK, BUDGET_IS_BACK]


def test_what_comes_back_is_not_planned_for_who_needs_it_at_once(
    node: ActuatedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger who held buffers in two servers, and let go of one, kept all that came back."""
    store = node.actuator._store
    _budget_becomes(node, 24 * MB, "rss")
    monkeypatch.setattr(node.actuator, "least_bytes", lambda: {"s1": 24 * MB})
    for size_bytes, source in ((36 * MB, "rss"), (48 * MB, "file")):
        _budget_becomes(node, size_bytes, source)
        targets = node.actuator.targets()
        # The other has half of what it had.
        assert targets["s1"] == min(24 * MB, size_bytes - 15 * MB)
        assert sum(targets.values()) <= size_bytes
    assert store.now.without_needs == {"s0": 30 * MB, "s1": 18 * MB}


def test_what_is_needed_as_the_budget_falls_is_not_planned(
    node: ActuatedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's buffers that one look found with what they did to resident memory were planned
    for him, and stayed his after he had let go."""
    monkeypatch.setattr(node.actuator, "least_bytes", lambda: {"s1": 20 * MB})
    _budget_becomes(node, 32 * MB, "rss")
    assert node.actuator.targets() == {"s0": 15 * MB, "s1": 17 * MB}  # half of what s0 had
    assert node.store.now.without_needs == {"s0": 20 * MB, "s1": 12 * MB}
    monkeypatch.setattr(node.actuator, "least_bytes", dict[str, int])
    _budget_becomes(node, 40 * MB, "rss")
    assert node.actuator.targets() == {"s0": 25 * MB, "s1": 15 * MB}


def test_beside_one_that_hangs_the_others_keep_half_as_the_budget_falls(
    node: ActuatedNode,
) -> None:
    """A slow script in one server, garbage of scripts in another, and all others had 2 MiB."""
    hangs = node.servers["s0"].process
    hangs.send_signal(signal.SIGSTOP)
    try:
        wait_until(lambda: not _reachable(node), lambda: node.actuator.states())
        _budget_becomes(node, 32 * MB, "rss")
        assert node.actuator.targets() == {"s0": 23 * MB, "s1": 9 * MB}
        assert node.store.now.room is not None
        assert node.store.now.room.before_bytes == {"s0": 20 * MB, "s1": 12 * MB}
    finally:
        hangs.send_signal(signal.SIGCONT)
    wait_until(lambda: _reachable(node), lambda: node.actuator.states())
    _budget_becomes(node, 48 * MB, "file")
    assert node.actuator.targets() == {"s0": 30 * MB, "s1": 18 * MB}


def test_the_pages_of_one_that_hangs_are_no_room(
    node: ActuatedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script without an end made the memory limit's guard give back what it had taken."""
    asked: list[dict[str, int]] = []
    refresh = lambda seen, **_: asked.append({one.run_id: one.rss_bytes for one in seen})  # noqa: E731
    monkeypatch.setattr(node.actuator.budget, "refresh", refresh)
    node.actuator.step()
    hangs = node.servers["s0"].process
    hangs.send_signal(signal.SIGSTOP)
    try:
        wait_until(lambda: not _reachable(node), lambda: node.actuator.states())
        node.actuator.step()
        assert asked[-1].keys() == asked[0].keys()
        assert len(asked[-1]) == 2
    finally:
        hangs.send_signal(signal.SIGCONT)


def test_plans_leave_half_of_what_each_had_for_a_day(
    node: ActuatedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each plan took the half of what the last one had left, beside one client's garbage."""
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    _budget_becomes(node, 40 * MB, "rss")
    for _ in range(3):
        minima = {one.name: one.minimum_bytes for one in node.actuator.sheltered()}
        assert minima == {"s0": 15 * MB, "s1": 9 * MB}
        sizes = {"s0": 31 * MB, "s1": 9 * MB}
        node.actuator.engage(sizes, sizes, "a plan")
        node.actuator.fallen.follow_plan(sizes, 40 * MB, node.actuator.budget)
    now += HALVES_SECONDS
    node.actuator.fallen.follow_plan(sizes, 40 * MB, node.actuator.budget)
    later = {one.name: one.minimum_bytes for one in node.actuator.sheltered()}
    assert later["s1"] < 9 * MB < later["s0"]
    had = dict(node.store.now.had_bytes)
    _budget_becomes(node, 48 * MB, "file")
    assert node.store.now.before_fall_bytes == {}
    assert node.store.now.had_bytes == had  # as what is taken in vain is given back
    node.actuator.fallen.follow_plan({"s0": 38 * MB, "s1": 10 * MB}, 48 * MB, node.actuator.budget)
    assert node.store.now.had_bytes == {}


def test_what_is_taken_again_after_it_was_given_back_leaves_the_same_half(
    node: ActuatedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client's need, a plan amid it and resident memory took the others below a third."""
    _budget_becomes(node, 40 * MB, "rss")
    half = {one.name: one.minimum_bytes for one in node.actuator.sheltered()}
    sizes = {"s0": 31 * MB, "s1": 9 * MB}
    node.actuator.engage(sizes, sizes, "a plan")
    node.actuator.fallen.follow_plan(sizes, 40 * MB, node.actuator.budget)
    for size, source in ((48 * MB, "file"), (36 * MB, "rss")):
        _budget_becomes(node, size, source)
    assert {one.name: one.minimum_bytes for one in node.actuator.sheltered()} == half


def _reachable(node: ActuatedNode) -> bool:
    node.actuator.step()
    return all(state.reachable for state in node.actuator.states())


def test_the_operators_minima_come_before_half_of_what_others_had(
    node: ActuatedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Garbage of one client's scripts took servers below the `minimum` that guards them."""
    minima = [
        replace(one, minimum_bytes=size)
        for one, size in zip(node.actuator.configs, (8 * MB, 17 * MB), strict=True)
    ]
    monkeypatch.setattr(node.actuator, "configs", minima)
    # No resident memory takes more than what is left then.
    assert node.actuator.fallen.least_bytes(minima) == (15 + 17) * MB
    _budget_becomes(node, 28 * MB, "rss")
    assert node.actuator.targets() == {"s0": 11 * MB, "s1": 17 * MB}


def test_room_is_on_file_with_the_sizes_that_have_it(
    node: ActuatedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the two somebody took a need for what was planned, and it stayed his for good."""
    monkeypatch.setattr(node.actuator, "least_bytes", lambda: {"s1": 20 * MB})
    seen, store, now = [], node.actuator._store, StateStore.now.fget
    assert now is not None
    update = StateStore.update

    @contextmanager
    def told(self: StateStore) -> Iterator[SidecarState]:
        with update(self) as state:
            yield state
        seen.append(now(self))

    monkeypatch.setattr(StateStore, "update", told)
    _budget_becomes(node, 32 * MB, "rss")
    assert store.now.room is not None
    made = [state.targets_bytes for state in seen if state.room is not None]
    assert made
    assert all(targets == store.now.room.made_bytes for targets in made)


def test_what_was_worked_out_for_other_sizes_is_not_set(node: ActuatedNode) -> None:
    """The budget fell, or came back, while others' room was worked out: for good it was theirs."""
    store = node.actuator._store
    keeper = BudgetKeeper(node.actuator, store, node.metrics, lambda *_: None)
    keeper._planned = store.now.targets_bytes
    _budget_becomes(node, 24 * MB, "rss")
    fallen = node.actuator.targets()
    keeper._set(fallen, {"s0": 6 * MB, "s1": 18 * MB}, SizesChange("room for s1", None))
    assert node.actuator.targets() == fallen
    # Nor is what the actuator saw before it planned others.
    stale = [replace(state, target_bytes=12 * MB) for state in node.actuator.latest]
    node.actuator.latest = stale
    node.actuator.convergence.rest()
    keeper.keep(node.actuator.configs)
    assert node.actuator.targets() == fallen


def test_what_resident_memory_takes_at_a_start_comes_back(node: ActuatedNode) -> None:
    """A stranger who filled buffers as the sidecar came again halved all caches for an hour."""
    fallen, budget = node.actuator.fallen, node.actuator.budget
    planned = node.actuator.targets()
    fallen._budget_bytes = 48 * MB  # as after a fall before, that is over
    budget.bytes, budget.source = 24 * MB, "rss"
    servers = fallen.begin(node.actuator.configs, planned, budget)
    assert node.actuator._store.now.before_fall_bytes == planned
    assert [one.minimum_bytes for one in servers] == [15 * MB, 9 * MB]
    node.actuator.engage(*[{"s0": 15 * MB, "s1": 9 * MB}] * 2, "initial sizes")
    _budget_becomes(node, 48 * MB, "file")
    assert node.actuator.targets() == planned


def test_the_last_bit_comes_back_too(node: ActuatedNode) -> None:
    _budget_becomes(node, 47.5 * MB, "rss")
    assert sum(node.actuator.targets().values()) <= 47.5 * MB
    _budget_becomes(node, 48 * MB, "file")
    assert node.actuator.targets() == {"s0": 30 * MB, "s1": 18 * MB}
    assert not node.actuator._store.now.before_fall_bytes


def test_a_plan_for_a_fallen_budget_that_comes_when_it_is_back_has_all_of_it(
    node: ActuatedNode,
) -> None:
    _budget_becomes(node, 24 * MB, "rss")
    _budget_becomes(node, 48 * MB, "file")
    node.actuator.budget.rss_budget_bytes = 64 * MB
    planned = {"s0": 9 * MB, "s1": 15 * MB}
    node.actuator.engage(planned, planned, "a plan")
    node.actuator.fallen.follow_plan(planned, 24 * MB, node.actuator.budget)
    node.actuator.step()
    assert node.actuator.targets() == {"s0": 18 * MB, "s1": 30 * MB}


def test_a_start_with_room_for_somebody_forgets_nothing_that_was_lost(node: ActuatedNode) -> None:
    """Amid a need, in the whole budget: what the others had lost was his for good."""
    _budget_becomes(node, 24 * MB, "rss")
    fallen, room = node.actuator.targets(), {"s0": 15 * MB, "s1": 33 * MB}
    node.actuator.budget.bytes = 48 * MB
    node.actuator.engage(room, room, "initial sizes")
    with node.actuator._store.update() as state:
        state.make_room(RoomMade(fallen, room, {}, {"s1": 33 * MB}))
    _budget_becomes(node, 48 * MB, "file")
    assert node.actuator._store.now.without_needs == {}
    assert node.actuator.targets() == {"s0": 30 * MB, "s1": 18 * MB}


def test_who_could_not_be_given_it_gets_what_he_lost_when_he_can(node: ActuatedNode) -> None:
    _budget_becomes(node, 24 * MB, "rss")
    node.servers["s0"].client.config_set("maxmemory-policy", "noeviction")
    node.actuator.step()
    _budget_becomes(node, 48 * MB, "file")
    assert node.actuator.targets()["s0"] < 30 * MB
    node.servers["s0"].client.config_set("maxmemory-policy", "allkeys-lru")
    node.actuator.step()
    node.actuator.step()
    assert node.actuator.targets() == {"s0": 30 * MB, "s1": 18 * MB}
    assert not node.actuator._store.now.before_fall_bytes


def test_what_is_planned_since_resident_memory_took_it_grows_in_proportion(
    node: ActuatedNode,
) -> None:
    """An order in a fallen budget, as a rollback to a plan that was made in one, left half of the
    budget to nobody."""
    _budget_becomes(node, 24 * MB, "rss")
    sizes = {"s0": 9 * MB, "s1": 15 * MB}
    node.actuator.engage(sizes, sizes, "an order")
    node.actuator.fallen.depart(sizes, sizes)
    _budget_becomes(node, 48 * MB, "file")
    assert node.actuator.targets() == {"s0": 18 * MB, "s1": 30 * MB}


def test_an_order_that_the_fallen_budget_cut_is_had_when_it_is_back(node: ActuatedNode) -> None:
    _budget_becomes(node, 24 * MB, "rss")
    sizes, whole = {"s0": 9 * MB, "s1": 15 * MB}, {"s0": 18 * MB, "s1": 30 * MB}
    node.actuator.engage(sizes, sizes, "rolled back")
    node.actuator.fallen.depart(sizes, whole)
    _budget_becomes(node, 48 * MB, "file")
    assert node.actuator.targets() == whole


def test_what_resident_memory_took_goes_back_whatever_came_between(node: ActuatedNode) -> None:
    """Room for somebody's need, a plan for the fallen budget, and a restart of the sidecar."""
    _budget_becomes(node, 24 * MB, "rss")
    sizes = {"s0": 9 * MB, "s1": 15 * MB}
    node.actuator.engage(sizes, sizes, "room for what s1 needs")
    _budget_becomes(node, 36 * MB, "rss")
    assert node.actuator.targets() == {"s0": 19.5 * MB, "s1": 16.5 * MB}
    planned = {"s0": 20 * MB, "s1": 10 * MB}
    node.actuator.engage(planned, planned, "a plan")
    store = node.actuator._store
    node.actuator.fallen = FallenBudget(store, node.metrics)
    _budget_becomes(node, 48 * MB, "file")
    assert node.actuator.targets() == {"s0": 30 * MB, "s1": 18 * MB}
    assert not store.now.before_fall_bytes


def test_what_other_servers_had_is_nobodys(node: ActuatedNode) -> None:
    with node.actuator._store.update() as state:
        state.before_fall_bytes = {"s0": 40 * MB, "old": 8 * MB}
    before = node.actuator.targets()
    _budget_becomes(node, 64 * MB, "file")
    assert node.actuator.targets() == before


def test_when_it_rises_nothing_moves(node: ActuatedNode, cgroup: Path) -> None:
    before = node.maxmemory()
    _limit(cgroup, 1024 * MB)
    for _ in range(3):
        node.actuator.step()
    assert node.maxmemory() == before
    assert node.actuator.budget.bytes == 768 * MB
    node.actuator.set_targets({"s0": 500 * MB, "s1": 200 * MB}, "the next plan")


def test_minima_that_do_not_fit_are_cut_in_proportion(
    node: ActuatedNode, cgroup: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _limit(cgroup, 16 * MB)
    node.actuator.step()
    assert sum(node.maxmemory().values()) <= 12 * MB
    assert min(node.maxmemory().values()) >= 5 * MB
    assert "do not fit the budget of 12 MiB: they are cut in proportion" in caplog.text
    assert node.metrics.value("minima_cut") == 1


def test_a_server_that_does_not_evict_keeps_its_size(node: ActuatedNode, cgroup: Path) -> None:
    fixed = node.maxmemory()["s0"]
    node.servers["s0"].client.config_set("maxmemory-policy", "noeviction")
    _limit(cgroup, 48 * MB)
    node.actuator.step()
    sizes = node.maxmemory()
    assert sizes["s0"] == fixed
    # Rather the budget is exceeded than that the other one gets less than its minimum.
    assert sizes["s1"] == 8 * MB


def test_who_only_watches_sets_nothing(node: ActuatedNode, cgroup: Path) -> None:
    before = node.maxmemory()
    node.actuator.watch()
    _limit(cgroup, 32 * MB)
    node.actuator.step()
    assert node.maxmemory() == before
    assert node.actuator.budget.bytes == 24 * MB


names = st.sampled_from(["a", "b", "c", "d"])
SERVERS = [
    ServerConfig(name, "redis://127.0.0.1", minimum_bytes=n)
    for name, n in zip("abcd", (1, 5, 9, 400), strict=True)
]


@given(
    sizes=st.lists(st.integers(1, 1000), min_size=4, max_size=4),
    fixed=st.dictionaries(names, st.integers(1, 900)),
    least=st.dictionaries(names, st.integers(1, 900)),
    budget=st.integers(4, 4000),
)
def test_what_fits_is_within_the_budget_and_nobody_is_left_without(
    sizes: list[int], fixed: dict[str, int], least: dict[str, int], budget: int
) -> None:
    wanted = dict(zip("abcd", sizes, strict=True))
    fitted = fitted_sizes(SERVERS, wanted, fixed, budget, least)
    assert fitted.keys() == wanted.keys()
    assert sum(fitted.values()) <= budget
    assert min(fitted.values()) >= 1  # to Redis, 0 is no limit
    minima = {server.name: server.minimum_bytes for server in SERVERS}
    rest = sum(size for name, size in minima.items() if name not in fixed)
    if sum(fixed.values()) + rest <= budget:
        assert {name: fitted[name] for name in fixed} == fixed
    if sum(minima.values()) <= budget:
        assert all(fitted[name] >= size for name, size in minima.items() if name not in fixed)


def test_a_container_that_is_resized_in_place(
    start_server: StartServer, write_node: WriteNode, cgroup: Path
) -> None:
    """``spreds run`` and real servers: down at once, and the sum never above what is allowed."""
    servers = {name: start_server("24mb") for name in ("s0", "s1")}
    path = write_node(
        servers,
        budget="75%",
        memory=f'rss_wait = "0s"\ncgroup = "{cgroup}"',
    )

    with sidecar_process(path) as sidecar:
        sidecar.read_until("initial sizes:", "s0 24 MiB, s1 24 MiB")
        _limit(cgroup, 32 * MB)
        sidecar.read_until("the budget is 24 MiB now, it was 48 MiB: by the cgroup")
        wait_until(lambda: _total(servers) <= 24 * MB, lambda: str(_total(servers)))
        _limit(cgroup, 64 * MB)
        sidecar.read_until("the budget is 48 MiB now")
        assert _total(servers) <= 24 * MB
        assert sidecar.end() == 0


def test_a_share_of_the_wrong_memory_evicts_nothing(
    start_server: StartServer,
    write_node: WriteNode,
    cgroup: Path,
    monkeypatch: pytest.MonkeyPatch,
    looks_each_step: None,
) -> None:
    """The sidecar has a cgroup of its own, and the servers are elsewhere."""
    monkeypatch.setattr(control_plane, "TRY_SECONDS", 0.2)
    monkeypatch.setattr(memory_budget, "memory_limit", lambda _: memory_limit(cgroup))
    _limit(cgroup, 24 * MB)
    servers = {name: start_server("24mb") for name in ("s0", "s1")}
    for server in servers.values():
        fill(server, 20)
    path = write_node(servers, budget="75%", memory='rss_wait = "0s"')
    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: "evicted at once" in str(sidecar.status()["problems"]), sidecar.status)
        assert 'write budget = "18MiB"' in str(sidecar.status()["problems"])
        assert _total(servers) == 48 * MB
        assert not any(one.client.info("stats")["evicted_keys"] for one in servers.values())
        _limit(cgroup, 64 * MB)
        wait_until(lambda: sidecar.status()["sets_sizes"], sidecar.status)
        assert _total(servers) == 48 * MB


def test_resident_memory_lowers_maxmemory_of_real_servers(
    start_server: StartServer, write_node: WriteNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two servers that hold 20 MB each take more than 52 MB; the status says what of it is what."""
    # The allocator gives pages back after 10 s, or later on a busy machine.
    monkeypatch.setattr("sidecar.servers.sizes.resident_budget.SETTLE_SECONDS", 12.0)
    monkeypatch.setattr("workloads.local_node.WAIT_LIMIT_SECONDS", 180.0)
    servers = {name: start_server("24mb") for name in ("s0", "s1")}
    for server in servers.values():
        fill(server, 20)
    path = write_node(servers, memory='rss_budget = "52mib"')
    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: sidecar.status()["budget"]["source"] == "rss", sidecar.status)
        wait_until(lambda: _total(servers) <= 52 * MB, sidecar.status)
        budget = sidecar.status()["budget"]
        assert budget["bytes"] < 52 * MB
        assert budget["rss_budget_bytes"] == 52 * MB
        assert budget["headroom_bytes"]["fragmentation"] > 1 * MB
        assert any("memory.rss_budget" in words for words in sidecar.status()["problems"])
        wait_until(lambda: _resident(servers) <= 52 * MB, sidecar.status)


def _total(servers: Servers) -> float:
    found = [int(str(s.client.config_get("maxmemory")["maxmemory"])) for s in servers.values()]
    return sum(size or math.inf for size in found)


def _resident(servers: Servers) -> int:
    found: list[Any] = [server.client.info("memory") for server in servers.values()]
    return sum(one["used_memory_rss"] for one in found)


@pytest.mark.parametrize(
    ("memory", "words"),
    [
        ("", ["at most 32 MiB (50% of", "the limit of its own cgroup", "are not held"]),
        ('rss_budget = "60%"', ["at most 32 MiB", "held below 60%", "each 30s", "after 5min"]),
    ],
)
def test_check_tells_what_comes_on_top(
    memory: str,
    words: list[str],
    write_node: WriteNode,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    limit = memory_limit()._replace(bytes=64 * MB)
    monkeypatch.setattr("sidecar.config.memory.memory_limit", lambda _cgroup: limit)
    path = write_node({"s0": "redis://127.0.0.1"}, budget="50%", memory=memory)
    assert main(["check", str(path)]) == 0
    printed = " ".join(capsys.readouterr().out.replace("\n# ", " ").split())
    assert 'budget = "50%" now: 32MiB' in printed
    for word in words:
        assert word in printed

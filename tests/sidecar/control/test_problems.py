"""The problems that status names: each with what is done about it by whom."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sidecar.control.problems import problems_of
from sidecar.control.status_document import _refusing_writes, _waits
from sidecar.servers.sizes.transitions import ServerState
from sidecar.state.control_state import ControlState, Hold, Pause
from sidecar.state.room_made import RoomMade
from sidecar.state.sidecar_state import SidecarState
from tests.secret_file import write_secret
from tests.sidecar.control.test_modes import in_mode, problems, sizes, wait_for
from tests.sidecar.fixtures import StartServer, WriteNode
from workloads.local_node import sidecar_in_thread

MB = 1 << 20
WATCHED = ControlState()
SET = ControlState(engaged=True)
PAUSED = ControlState(engaged=True, pause=Pause("ann", 1.0))


def _server(name: str, size: int, target: int, keeps: str | None = None) -> dict[str, Any]:
    return {
        "name": name,
        "up": True,
        "sampler": "patch",
        "policy": "allkeys-lru",
        "maxmemory_bytes": size * MB,
        "target_bytes": target * MB,
        "keep_reason": keeps,
    }


def _said(control: ControlState, *servers: dict[str, Any], mode: str = "recommend") -> str:
    counted = {server["name"]: server["maxmemory_bytes"] for server in servers}
    total = sum(counted.values())
    used = sum(server.get("used_bytes", 0) for server in servers)
    budget = {"bytes": 24 * MB, "maxmemory_bytes": total, "rss_budget_bytes": None}
    budget["used_bytes"] = used
    return " ".join(
        problems_of(
            servers, budget, SidecarState(control=control), mode, None, counted, lambda _: 0.0
        )
    )


def test_memory_above_the_budget_is_told_although_the_limits_are_within() -> None:
    """As a client takes it that subscribes to long names."""
    holds = {**_server("a", 12, 12), "used_bytes": 76 * MB}
    said = _said(SET, holds, {**_server("b", 12, 12), "used_bytes": 4 * MB})
    assert "the servers use 80 MiB, more than the budget of 24 MiB: a holds more than its" in said
    assert "the servers use" not in _said(SET, {**_server("a", 12, 12), "used_bytes": 12 * MB})


@pytest.mark.parametrize(("beside", "is_told"), [(2, False), (3, False), (4, True), (252, True)])
def test_memory_beside_maxmemory_is_told(beside: int, *, is_told: bool) -> None:
    """As a client takes it that attaches as a replica and does not read."""
    said = _said(SET, {**_server("a", 12, 12), "not_counted_bytes": beside * MB})
    assert (f"a uses {beside} MiB beside its maxmemory, for buffers of replicas" in said) == is_told


@pytest.mark.parametrize(
    ("control", "words"),
    [
        (WATCHED, "'spreds apply --from-now-on' brings it below, or raise memory.budget"),
        (PAUSED, "'spreds resume' brings it below, or raise memory.budget"),
        (SET, "the sidecar is bringing it below: a has still to shrink"),
    ],
)
def test_who_brings_sizes_below_the_budget(control: ControlState, words: str) -> None:
    said = _said(control, _server("a", 20, 12), _server("b", 12, 12))
    assert "maxmemory of all servers is 32 MiB, more than the budget of 24 MiB: " in said
    assert words in said


def test_sizes_that_stay_above_the_budget_have_their_reason() -> None:
    fixed = "no_eviction: noeviction; a smaller maxmemory would make writes fail"
    said = _said(SET, _server("a", 40, 12, fixed), _server("b", 8, 1), _server("c", 1, 1))
    assert "b has still to shrink" in said
    said = _said(SET, _server("a", 40, 12, fixed), _server("b", 1, 1))
    assert "it stays above, for a keeps its size: raise memory.budget" in said
    assert "apply" not in said
    said = _said(SET, _server("a", 20, 20), _server("b", 5, 5))
    assert "it stays above, for none may be smaller: raise memory.budget" in said


@pytest.mark.parametrize(
    ("control", "words"),
    [
        (WATCHED, "'spreds apply --from-now-on' gives it one"),
        (PAUSED, "'spreds resume' gives it one"),
        (SET, "the sidecar gives it one"),
    ],
)
def test_who_gives_a_server_a_limit(control: ControlState, words: str) -> None:
    assert f"a has no maxmemory: {words}" in _said(control, _server("a", 0, 12))


@pytest.mark.parametrize(
    ("counted", "words"),
    [
        ({"a": 12 * MB}, "a cannot be read: no; it counts with 12 MiB in the budget, whatever it"),
        ({}, "a cannot be read: no"),
    ],
)
def test_what_a_server_counts_with_that_cannot_be_read(counted: dict[str, int], words: str) -> None:
    server = {**_server("a", 0, 12), "up": False, "error": "no"}
    budget = {
        "bytes": 24 * MB,
        "maxmemory_bytes": 12 * MB,
        "rss_budget_bytes": None,
        "used_bytes": 0,
    }
    (said,) = problems_of([server], budget, SidecarState(), "apply", None, counted, lambda _: 0.0)
    assert said.startswith(words)
    assert ("counts" in said) == bool(counted)


@pytest.mark.parametrize("is_vain", [False, True])
def test_resident_memory_above_its_budget_says_whether_less_maxmemory_helps(is_vain: bool) -> None:
    budget = {"bytes": 24 * MB, "maxmemory_bytes": 24 * MB, "rss_budget_bytes": 20 * MB}
    budget |= {"rss_bytes": 30 * MB, "rss_budget_is_vain": is_vain, "used_bytes": 0}
    servers = [
        {**_server("a", 12, 12), "used_bytes": 12 * MB, "rss_bytes": 16 * MB},
        {**_server("b", 12, 12), "used_bytes": 4 * MB, "rss_bytes": 14 * MB},
    ]
    (said,) = problems_of(servers, budget, SidecarState(), "apply", None, {}, lambda _: 0.0)
    assert "more than memory.rss_budget, 20 MiB; b has 14 MiB of it, and uses 4 MiB" in said
    assert ("given back" in said) == is_vain


def test_who_sends_no_samples_is_told_before_anything_is_observed(
    start_server: StartServer, write_node: WriteNode
) -> None:
    servers = {name: start_server("12mb") for name in ("s0", "s1")}
    path = write_node(servers, budget="24mb")
    with sidecar_in_thread(path) as sidecar:
        wait_for(lambda: len(sidecar._samples.by_instance) == 2, sidecar)
        assert "no samples" not in problems(sidecar)
        (path.parent / "samples").unlink()
        servers["s1"].restart()
        wait_for(lambda: "s1 has sent no samples for" in problems(sidecar), sidecar)
        assert sidecar.last_observation is None
        assert "s0 has sent" not in problems(sidecar)


def test_a_password_that_is_changed_is_read_again(
    start_server: StartServer, write_node: WriteNode, tmp_path: Path
) -> None:
    servers = {name: start_server("12mb") for name in ("s0", "s1")}
    for server in servers.values():
        server.client.config_set("requirepass", "first")
    write_secret(tmp_path / "s.secret", "first\n")
    keys = 'password_file = "s.secret"\nbackend_latency = "50ms"'
    with sidecar_in_thread(write_node(servers, budget="24mb", server_keys=keys)) as sidecar:
        wait_for(lambda: len(sidecar._actuator.readings) == 2, sidecar)
        client: Any = servers["s0"].client
        client.config_set("requirepass", "second")
        client.client_kill_filter(_type="normal", skipme=True)
        # The connection may be cut in the middle of a reading: then that is told first.
        words = "is not the password of the default user"
        wait_for(lambda: "s0 cannot be read: " in problems(sidecar), sidecar)
        wait_for(lambda: words in problems(sidecar), sidecar)
        write_secret(tmp_path / "s.secret", "second\n")
        wait_for(lambda: "cannot be read" not in problems(sidecar), sidecar)


@pytest.mark.parametrize("is_engaged", [False, True])
def test_nobody_is_told_to_apply_what_is_applied(
    start_server: StartServer, write_node: WriteNode, is_engaged: bool
) -> None:
    servers = {name: start_server("12mb") for name in ("s0", "s1")}
    path = in_mode(write_node(servers, budget="24mb"), "apply")

    def change() -> None:
        servers["s0"].client.config_set("maxmemory-policy", "noeviction")
        servers["s0"].client.config_set("maxmemory", "40mb")

    if not is_engaged:
        change()
    with sidecar_in_thread(path) as sidecar:
        if is_engaged:
            wait_for(lambda: sidecar._store.now.control.engaged, sidecar)
            change()
        words = "s0 has 40 MiB, and does not evict. It counts with 22 MiB"
        wait_for(lambda: words in problems(sidecar), sidecar)
        assert "for s0 keeps its size" in problems(sidecar)
        assert "spreds apply" not in problems(sidecar)
        assert "raise memory.budget" not in problems(sidecar)
        assert sizes(servers)["s0"] == 40 * MB


@pytest.mark.parametrize(
    ("stated", "counts", "is_told"),
    [
        (60.0, 0.017, "60000 ms, and only 17 ms count, 10 times what is known of it"),
        (0.0, 0.017, "0 ms, and still 17 ms count, 1/10 of what is known of it"),
        (0.1, 0.1, None),
        (0.0, 0.0, None),
        (None, 0.1, None),
        (60.0, None, None),
    ],
)
def test_a_latency_that_no_measurement_bears_out_is_named(
    stated: float | None, counts: float | None, is_told: str | None
) -> None:
    latencies = {"stated_latency_seconds": stated, "backend_latency_seconds": counts}
    said = _said(SET, {**_server("a", 2, 2), **latencies})
    words = "states a backend latency of "
    assert (words + is_told in said) if is_told else (words not in said)


@pytest.mark.parametrize(
    ("rates", "is_told"),
    [((990, 5, 4), True), ((980, 10, 10), False), ((1000, 0), False), ((0, 0, None), False)],
)
def test_a_server_that_makes_nearly_all_reads_is_named(
    rates: tuple[float | None, ...], is_told: bool
) -> None:
    servers = [
        {**_server(name, 2, 2), "reads_per_second": rate}
        for name, rate in zip("abc", rates, strict=False)
    ]
    assert ("a makes more than 99% of all reads" in _said(SET, *servers)) == is_told


def test_one_that_is_down_makes_no_reads() -> None:
    down = {**_server("a", 2, 2), "reads_per_second": 990, "up": False, "error": "gone"}
    others = [{**_server(name, 2, 2), "reads_per_second": 0.0} for name in "bcd"]
    assert "makes more than" not in _said(SET, down, *others)


@pytest.mark.parametrize(
    ("role", "keeps", "words"),
    [
        ("slave", None, "holds as a replica, new keys or buffers of clients"),
        ("master", None, "omem"),
        (
            "master",
            "no_eviction: clients take work from it by LPOP, and",
            "'cache = true' in the file",
        ),
    ],
)
def test_who_needs_room_is_told_what_for(role: str, keeps: str | None, words: str) -> None:
    room = RoomMade({"a": 8 * MB}, {"a": 16 * MB}, {}, {"a": 16 * MB})
    server = {**_server("a", 16, 16, keeps), "role": role}
    budget = {
        "bytes": 24 * MB,
        "maxmemory_bytes": 16 * MB,
        "rss_budget_bytes": None,
        "used_bytes": 0,
    }
    counted = {"a": 16 * MB}
    state = SidecarState(room=room, replicas=("a",) if role == "slave" else ())
    (said,) = problems_of([server], budget, state, "apply", None, counted, lambda _: 0.0)
    assert said.startswith("a needs 16 MiB for what it ")
    assert words in said


def test_keys_without_a_ttl_are_told_where_they_are_not_evicted() -> None:
    room = RoomMade({"a": 8 * MB}, {"a": 16 * MB}, {}, {"a": 16 * MB})
    server = {**_server("a", 16, 16), "policy": "volatile-lru"}
    budget = {"bytes": 24 * MB, "maxmemory_bytes": 16 * MB, "rss_budget_bytes": None}
    budget["used_bytes"] = 0
    state = SidecarState(room=room)
    (said,) = problems_of([server], budget, state, "apply", None, {}, lambda _: 0.0)
    assert "keys without a TTL" in said


def test_a_slip_by_hand_is_told_with_what_it_takes_from_whom() -> None:
    """Four caches were emptied for one, and status told of that one alone."""
    before = {"a": 8 * MB, "b": 8 * MB, "c": 8 * MB}
    room = RoomMade(before, {"a": 18 * MB, "b": 2 * MB, "c": 4 * MB}, {"a": 18 * MB})
    control = ControlState(engaged=True, held={"a": Hold(18 * MB, 1.0)})
    servers = [_server(name, size, size, None) for name, size in (("a", 18), ("b", 2), ("c", 4))]
    budget = {"bytes": 24 * MB, "maxmemory_bytes": 24 * MB, "rss_budget_bytes": None}
    budget["used_bytes"] = 0
    state = SidecarState(room=room, control=control)
    (said,) = problems_of(servers, budget, state, "apply", None, {}, lambda _: 0.0)
    assert said == (
        "a was given 18 MiB by hand and keeps it until 'spreds resume'; b, c gave 10 MiB for it"
    )


@pytest.mark.parametrize(("needs", "ignores", "told"), [(9, False, 1), (8, False, 0), (9, True, 0)])
def test_who_refuses_writes_is_told(needs: int, ignores: bool, told: int) -> None:
    reading = SimpleNamespace(
        maxmemory_bytes=8 * MB,
        counted_bytes=8 * MB,
        maxmemory_policy="allkeys-lru",
        ignores_maxmemory=ignores,
    )
    actuator: Any = SimpleNamespace(
        readings={"a": reading},
        latest_least_bytes={"a": needs * MB},
        latest=[ServerState("a", 8 * MB, 8 * MB, 8 * MB)],
        looks_on=False,
        refused=dict,
    )
    said = list(_refusing_writes(actuator))
    assert len(said) == told == _waits(actuator)
    assert all(
        "a refuses writes, or soon will: it has 8 MiB, and needs 9 MiB" in one for one in said
    )


def test_one_that_does_not_evict_and_restarted_with_too_little_is_told() -> None:
    reading = SimpleNamespace(
        maxmemory_bytes=4 * MB,
        counted_bytes=28 * MB,
        maxmemory_policy="noeviction",
        ignores_maxmemory=False,
    )
    actuator = SimpleNamespace(readings={"q": reading}, latest_least_bytes={})
    (said,) = _refusing_writes(actuator)  # type: ignore[arg-type]
    assert said.startswith("q refuses writes: it does not evict, uses 28 MiB, and has 4 MiB, ")


@pytest.mark.parametrize(
    ("has", "words"),
    [(38, "and keeps it until"), (30, "and has 30 MiB since: 'spreds resume' forgets that")],
)
def test_a_size_by_hand_that_a_restart_has_ended_is_told_as_that(has: int, words: str) -> None:
    control = ControlState(engaged=True, held={"a": Hold(38 * MB, 1.0)})
    assert f"a was given 38 MiB by hand {words}" in _said(control, _server("a", has, 38)).replace(
        "hand, and", "hand and"
    )

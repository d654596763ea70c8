"""Where a plan under way stops, nobody gets what no plan gave him."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sidecar.control.order import Order
from sidecar.control.stopped_sizes import stopped_sizes
from sidecar.servers.connection.server_errors import MOST_WORDS, ServerRefusedError
from sidecar.servers.server_changes import has_more
from sidecar.servers.sizes.transitions import ServerState
from sidecar.state.control_state import ControlState, Hold
from sidecar.state.room_made import RoomMade
from sidecar.state.sidecar_state import SidecarState
from tests.sidecar.actuated_node import MB
from tests.sidecar.fixtures import StartServer, WriteNode
from tests.sidecar.monitored_load import STATS
from workloads.local_node import sidecar_in_thread, wait_until

BEFORE = {"a": 32, "b": 32, "c": 32, "away": 40}
TARGETS = {"a": 20, "b": 44, "c": 32, "away": 40}


def stopped(
    has: dict[str, int],
    *,
    contested: tuple[str, ...] = (),
    by_plan: bool = True,
    room: RoomMade | None = None,
    now: dict[str, int] | None = None,
) -> dict[str, int]:
    state = SidecarState(
        targets_bytes=TARGETS,
        room=room,
        control=ControlState(engaged=True, before_plan_bytes=BEFORE, held={"held": Hold(9, 1.0)}),
    )
    actuator: Any = SimpleNamespace(
        convergence=SimpleNamespace(is_by_plan=by_plan),
        intermediate_sizes=SimpleNamespace(sizes_bytes=now or {"a": 28, "b": 36, "c": 32}),
        latest=[ServerState("away", 40, 0, 40, reachable=False)],
    )
    return stopped_sizes(state, has, actuator, contested)


def test_a_handover_stops_where_it_is() -> None:
    assert stopped({"a": 27, "b": 37, "c": 32}) == {"a": 27, "b": 37}


@pytest.mark.parametrize("size", [1000, 1])
def test_what_somebody_has_set_since_is_not_where_it_stops(size: int) -> None:
    """'recommend' while a size was put back emptied the other caches for good."""
    assert stopped({"c": size}) == {}
    assert stopped({"a": size}, contested=("a",)) == {}
    assert stopped({"a": size}) == ({"a": 32} if size > 1 else {})


def test_room_on_its_way_is_no_plan() -> None:
    """What an emptied server had got stayed with it, and was nobody's."""
    back = RoomMade(TARGETS, TARGETS, {}, {"a": 60})
    has = {"a": 58, "b": 18, "c": 18}
    assert stopped(has, room=back, by_plan=False) == {}
    assert stopped({"a": 27}, room=back) == {"a": 27}


def test_the_same_process_that_has_more_than_we_gave_was_given_it_by_somebody() -> None:
    assert has_more(STATS, STATS, STATS.maxmemory_bytes - 1)
    assert not has_more(STATS, STATS, STATS.maxmemory_bytes)
    assert not has_more(None, STATS, 1)
    assert not has_more(STATS, STATS, None)


def test_words_of_a_server_are_bounded_as_they_are_shown() -> None:
    """990 characters that cannot be printed were 9,908 in each plan, which was refused for that."""
    assert len(str(ServerRefusedError("\U000e0001" * 990))) == MOST_WORDS


@pytest.mark.parametrize("size", ["20mb", "4mb"])
def test_a_size_set_by_hand_in_a_pause_is_put_back_by_resume(
    start_server: StartServer, write_node: WriteNode, size: str
) -> None:
    """It became the planned size, and the others made room for it."""
    servers = {name: start_server("12mb") for name in ("s0", "s1")}
    path = write_node(servers, budget="24mb", memory='rss_wait = "0s"\nset_by_hand = "put_back"')

    def sizes() -> list[int]:
        found = (one.client.config_get("maxmemory")["maxmemory"] for one in servers.values())
        return [int(size_bytes) for size_bytes in found]

    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
        sidecar.order(Order("pause", "ann"))
        servers["s0"].client.config_set("maxmemory", size)
        wait_until(lambda: sidecar._control.history.tail(1)[0]["kind"] == "hand", sizes)
        wait_until(
            lambda: any(one.contested for one in sidecar._actuator.latest),
            sidecar.metrics.snapshot,
        )
        sidecar.order(Order("resume", "ann"))
        wait_until(lambda: sizes() == [12 * MB, 12 * MB], sizes)
        assert set(sidecar._actuator.targets().values()) == {12 * MB}

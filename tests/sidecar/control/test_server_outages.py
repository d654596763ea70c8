"""What happens to servers stands in the history."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.base.time_of_day import time_of_day
from sidecar.control.history import history_path, read_history
from sidecar.control.server_outages import (
    MOST_AT_ONCE,
    OUTAGE_SECONDS,
    SECONDS_EACH,
    ServerOutages,
)
from sidecar.servers.connection.server_reading import ServerReading
from tests.sidecar.fixtures import StartServer, WriteNode
from workloads.local_node import sidecar_in_thread, wait_until


def reading(run_id: str = "a" * 40, role: str = "master") -> ServerReading:
    info = {"run_id": run_id, "role": role, "maxmemory": 0, "used_memory": 0}
    return ServerReading.parse(info, {}, 1.0)


class Node:
    """One server, ``pages``, at moments."""

    def __init__(self, **run_ids: str) -> None:
        self.events = ServerOutages(run_ids)

    def at(self, seconds: float, found: ServerReading | None) -> list[str]:
        readings: dict[str, Any] = {"pages": found} if found else {}
        errors = {} if found else {"pages": "connection refused"}
        return [words for _, words in self.events.take_readings(1000.0 + seconds, readings, errors)]


def test_an_outage_and_a_restart() -> None:
    node = Node()
    assert node.at(0, reading()) == []
    assert node.at(1, None) == []
    (gone,) = node.at(1 + OUTAGE_SECONDS, None)
    assert gone == f"pages does not answer since {time_of_day(1001)}: connection refused"
    assert node.at(25, None) == []
    (back,) = node.at(31, reading("b" * 40))
    away = f"from {time_of_day(1001)} to {time_of_day(1031)} (30s)"
    assert back == f"pages answers again, and did not {away}; was restarted"
    assert node.at(300, reading("b" * 40)) == []


def test_a_short_outage_is_none_and_a_restart_in_it_is_told() -> None:
    node = Node()
    assert node.at(0, reading()) == []
    assert node.at(100, None) == []
    assert node.at(105, reading()) == []
    # It begins anew.
    assert node.at(111, None) == []
    assert node.at(112, reading("b" * 40)) == ["pages was restarted"]


def test_roles_are_told() -> None:
    node = Node()
    assert node.at(0, reading()) == []
    assert node.at(100, reading(role="slave")) == ["pages is a replica from now on"]
    assert node.at(200, reading()) == ["pages is a primary from now on"]


def test_a_restart_while_no_sidecar_ran() -> None:
    assert Node(pages="b" * 40).at(0, reading()) == ["pages was restarted"]
    assert Node(pages="a" * 40).at(0, reading()) == []


def test_one_that_never_rests_fills_no_history_and_the_end_of_it_is_told() -> None:
    node = Node()
    told = [
        line for second in range(600) for line in node.at(second, reading(run_id=f"{second:040x}"))
    ]
    assert len(told) == pytest.approx(MOST_AT_ONCE + 600 / SECONDS_EACH, abs=1)
    late = [node.at(second, reading(run_id=f"{599:040x}")) for second in range(600, 700)]
    assert [line for lines in late for line in lines] == ["pages was restarted"]


def test_how_long_it_was_away_is_right_also_where_it_is_told_later() -> None:
    node = Node()
    for second in range(MOST_AT_ONCE):
        node.at(second, reading(run_id=f"{second:040x}"))
    assert node.at(10, None) == []
    assert len(node.at(20, None)) == 1
    assert node.at(40, reading(run_id=f"{3:040x}")) == []
    lines = [node.at(second, reading(run_id=f"{3:040x}")) for second in range(41, 300)]
    (back,) = [line for one in lines for line in one]
    assert f"from {time_of_day(1010)} to {time_of_day(1040)} (30s)" in back


def test_a_real_restart(start_server: StartServer, write_node: WriteNode) -> None:
    pages = start_server("8mb")
    path = write_node({"pages": pages, "other": start_server("8mb")}, budget="16mb")
    with sidecar_in_thread(path) as sidecar:
        events = sidecar._control.server_events._outages
        wait_until(lambda: "pages" in events._told, sidecar.metrics.snapshot)
        pages.restart()

        def told() -> list[dict[str, Any]]:
            entries = read_history(history_path(path.parent / "state.json"))
            return [entry for entry in entries if entry["kind"] == "server"]

        wait_until(told, sidecar.metrics.snapshot)
    (entry,) = told()
    assert entry["server"] == "pages"
    assert "was restarted" in entry["words"]

"""``spreds status`` in short: one table, nothing twice, and no two sentences that differ."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.commands.status.status import print_short
from sidecar.commands.status.status_gains import gains
from sidecar.commands.status.status_verbose import is_unfilled, print_status, waits_words
from sidecar.servers.connection.outage_words import outage_words
from tests.sidecar.example_sidecar import MIB, NOW_SECONDS, example_status

NAMES = ("a", "b", "c", "d", "e", "f")
OLD = "of the last reads were of keys from before the sampling"
DOWN = "INFO: Error 111 connecting to 127.0.0.1:7006. Connection refused."


def _status(**changes: Any) -> dict[str, Any]:
    """Return the status of six servers that are well, in mode apply."""
    told = example_status()
    usual = {**told["servers"][0], "keep_reason": None, "settings_by": None}
    told["servers"] = [{**usual, "name": name, "target_bytes": 2048 * MIB} for name in NAMES]
    told |= {"mode": "apply", "sets_sizes": True}
    told["last_plan"] |= {"carried_out": True, "not_carried_out_because": None}
    told |= changes
    servers = [
        {
            "name": server["name"],
            "error": None,
            "error_kind": None,
            "maxmemory_bytes": server["maxmemory_bytes"],
            "planned_bytes": server["target_bytes"],
            "used_memory_bytes": server["used_bytes"],
            "rss_bytes": server["rss_bytes"],
            "sampler": "module",
            "maxmemory_policy": "allkeys-lru",
            "keep_reason": None,
            "backend_latency": None,
            "configured_latency_seconds": 0.02,
        }
        for server in told["servers"]
    ]
    return {
        "node": told["node"],
        "sidecar": told,
        "silent": None,
        "servers": servers,
        "total_maxmemory_bytes": 6 * 2048 * MIB,
        "budget_bytes": 6 * 2048 * MIB,
    }


def _printed(
    status: dict[str, Any], capsys: pytest.CaptureFixture[str], *, is_verbose: bool = False
) -> str:
    (print_status if is_verbose else print_short)(status)
    return " ".join(capsys.readouterr().out.split())


def test_six_servers_that_are_well_take_a_dozen_lines_and_a_table(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_short(_status())
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("server ") for line in lines) == 1
    assert len([line for line in lines if line]) <= 12 + 1 + len(NAMES)
    for words in ("main loop", "of 500,000", "resident", "sampler", "changed at", "since start"):
        assert words not in "\n".join(lines)


def test_what_is_late_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    late = _printed(_status(loop_at_seconds=NOW_SECONDS - 60), capsys)
    assert "main loop turned 60s ago" in late
    waits = _printed(_status(next_observation_at_seconds=NOW_SECONDS - 60), capsys)
    assert "of 500,000 for the next observation" in waits


def test_what_is_the_same_for_all_servers_is_said_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = _status()
    for place, server in enumerate(status["sidecar"]["servers"]):
        server["keep_reason"] = f"warming_up: {20 + place}% {OLD}"
    said = _printed(status, capsys)
    assert (
        f"all servers: cannot be given another size now, because 20% to 25% {OLD} (at the " in said
    )
    assert said.count(OLD) == 1
    status["sidecar"]["servers"][0]["keep_reason"] = None
    assert f"b, c, d, e, f: cannot be given another size now, because 21% to 25% {OLD}" in _printed(
        status, capsys
    )


@pytest.mark.parametrize("is_verbose", [False, True])
def test_on_its_way_a_server_is_not_said_to_be_stuck(
    is_verbose: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    status = _status()
    server = status["sidecar"]["servers"][0]
    server |= {"keep_reason": f"warming_up: 23% {OLD}", "target_bytes": 1024 * MIB}
    said = _printed(status, capsys, is_verbose=is_verbose)
    assert f"a: no new plan changes its size yet, because 23% {OLD} (at the last obs" in said
    assert "the one from 2026-" in said
    assert "goes on" in said
    assert "cannot be given" not in said


def test_a_server_that_is_down_is_told_once_and_in_plain_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = _status()
    status["servers"][5] |= {"error": DOWN, "error_kind": "down"}
    assert _printed(status, capsys).count("f: cannot be reached: connection refused") == 1
    problem = f"f {outage_words(DOWN)}; it counts with 2 GiB in the budget, whatever it has"
    status["sidecar"]["problems"] = [problem]
    said = _printed(status, capsys)
    assert said.count("connection refused") == 1
    assert "Error 111" not in said
    status["servers"][5] |= {"error": "is the same server as a", "error_kind": "twice"}
    assert "f: is the same server as a " in _printed(status, capsys)
    assert outage_words("no") == "cannot be read: no"
    assert outage_words("Error 2 connecting to unix socket: /a.b/c. No such file.") == (
        "cannot be reached: no such file"
    )


def test_who_is_not_read_has_no_hits(capsys: pytest.CaptureFixture[str]) -> None:
    status = _status()
    assert _printed(status, capsys).count("87.0 % ") >= len(NAMES)
    for server in status["sidecar"]["servers"]:
        server |= {"reads_per_second": 0.0, "curve": None}
    assert "hits, last window" not in _printed(status, capsys)


def test_after_a_restart_the_plan_from_before_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    status = _status(last_plan=None)
    assert "none since the sidecar started; the sizes from before are kept;" in _printed(
        status, capsys
    )
    status["sidecar"]["servers"][1]["target_bytes"] = 1024 * MIB
    assert "servers are still on the way to the sizes from before (b);" in _printed(status, capsys)
    status["sidecar"]["sets_sizes"] = False
    assert "none since the sidecar started; the next observation" in _printed(status, capsys)


def test_without_a_sidecar_nobody_gives_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    status = _status()
    status |= {"sidecar": None, "silent": "the sidecar is not running"}
    status["servers"][0]["planned_bytes"] = 1024 * MIB
    assert "a: planned 1 GiB, has 2 GiB: nothing is set while no sidecar runs" in _printed(
        status, capsys, is_verbose=True
    )
    assert "gives" not in _printed(status, capsys)


def test_a_recommended_size_stands_in_the_place_of_a_planned_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = _status(mode="recommend", sets_sizes=False)
    status["sidecar"]["servers"][0]["recommended_bytes"] = 3072 * MIB
    said = _printed(status, capsys)
    assert "server maxmemory recommended used" in said
    assert "a 2 GiB 3 GiB" in said


def _gains(*, is_verbose: bool = False, **changes: Any) -> str:
    told = _status()["sidecar"]
    plan = {**told["last_plan"], **changes.pop("plan", {})}
    return "\n".join(gains({**told, "last_plan": plan, **changes}, is_verbose=is_verbose))


def test_a_refused_plan_is_told_for_a_day(capsys: pytest.CaptureFixture[str]) -> None:
    def printed(age_seconds: float, *, is_verbose: bool) -> str:
        status = _status()
        status["sidecar"]["plans_refused"] = {
            "count": 3,
            "last_at_seconds": NOW_SECONDS - age_seconds,
            "last_words": "old_cycle: the plan is of cycle 7 (plans/7.json from the cloud)",
        }
        (print_status if is_verbose else print_short)(status)
        return " ".join(capsys.readouterr().out.split())

    words = "7.json from the cloud)"
    assert "plans refused: 3, the last one at 20" in printed(60, is_verbose=False)
    assert words in printed(60, is_verbose=False)
    assert words not in printed(90_000, is_verbose=False)
    assert words in printed(90_000, is_verbose=True)
    print_short(_status())
    assert "plans refused" not in capsys.readouterr().out


def test_the_plans_gain_stands_beside_the_measurement() -> None:
    both = "mean access time: by the curves 9.12 ms -> 6.42 ms; measured now "
    assert f"{both}7 ms; before" in _gains(measured_access_time_seconds=0.007)
    assert f"{both}5 ms (less than the curves say); before" in _gains(
        measured_access_time_seconds=0.005
    )
    assert f"{both}5 ms (less than the curves still say);" in _gains(
        measured_access_time_seconds=0.005, plan={"known_words": "how far curves are known: a"}
    )
    servers = _status()["sidecar"]["servers"]
    servers[0]["target_bytes"] = servers[0]["maxmemory_bytes"] + 1
    way = _gains(measured_access_time_seconds=0.012, servers=servers)
    assert f"{both}12 ms, with sizes on the way;" in way
    assert f"{both}12 ms (more than the curves say);" in _gains(measured_access_time_seconds=0.012)
    assert "by the curves 9.12 ms; measured" in _gains(plan={"decision": "keep"})
    assert "by the curves 9" not in _gains(plan={"overtaken_by": "rollback by bob"})
    assert "last outcome: plan 1795354200, better: 9.34 ms since, 11.8 ms with the sizes bef" in (
        _gains()
    )


def test_what_earlier_plans_would_have_brought_is_not_said_of_this_one() -> None:
    would = {"since_seconds": NOW_SECONDS - 1_798, "ratio": 0.0}
    recommending = {"sets_sizes": False, "recommended_gain": would}
    assert "been in force" not in _gains(**recommending)
    verbose = _gains(is_verbose=True, **recommending)
    assert "had the recommended sizes been in force" in verbose
    would["since_seconds"] -= 3600
    verbose = _gains(is_verbose=True, **recommending)
    assert "had the sizes of each plan since its time been in force" in verbose


@pytest.mark.parametrize(
    ("fill_ratio", "told"), [(None, False), (0.0, True), (0.75, True), (0.95, False)]
)
def test_misses_that_are_never_filled_are_told_also_where_none_is(
    fill_ratio: float | None, *, told: bool
) -> None:
    assert is_unfilled({"fill_ratio": fill_ratio}) == told


def test_a_minimum_that_was_raised_is_told_until_a_plan_keeps_to_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = _status()
    server = status["sidecar"]["servers"][0]
    words = "its minimum is 3 GiB now: the next plan keeps to it"
    server["minimum_bytes"] = 3072 * MIB
    for is_verbose in (False, True):
        assert words in _printed(status, capsys, is_verbose=is_verbose)
    server["target_bytes"] = 3072 * MIB
    assert words not in _printed(status, capsys)


@pytest.mark.parametrize(
    ("on_file", "waits"), [(None, True), ({"backend_latency_seconds": 0.08}, False)]
)
def test_a_latency_that_is_on_file_is_known_before_the_first_observation(
    on_file: dict[str, Any] | None, waits: bool
) -> None:
    server = {"keep_reason": None, "backend_latency": on_file, "configured_latency_seconds": None}
    told = {"up": True, "keep_reason": None, "backend_latency_seconds": None}
    assert ("neither configured nor measured" in waits_words(server, told)) == waits


def test_what_was_won_names_whose_latency_is_stated() -> None:
    """A team that exaggerated made it twice as much."""
    told = _status()["sidecar"]
    for server in told["servers"]:
        server["backend_latency_source"] = "configured"
    won = "at today's latencies and weights"
    assert any(won in line for line in gains(told, is_verbose=False))
    told["servers"][1]["backend_latency_source"] = "team"
    stated = "at today's latencies (of b as its team states it) and weights"
    assert any(stated in line for line in gains(told, is_verbose=False))

"""``spreds plan`` says in a dozen lines what a plan does, and the rest under ``--verbose``."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

import pytest

from sidecar.commands.plan.plan import print_plan
from tests.sidecar.example_sidecar import MIB, example_status


@pytest.fixture
def told() -> dict[str, Any]:
    """A status document of six servers, whose names are as long as names are."""
    found = example_status()
    for of_it in (found, found["last_plan"]):
        of_it["servers"][3]["name"] = "search"
    more, planned = deepcopy(found["servers"][0]), deepcopy(found["last_plan"]["servers"][0])
    found["servers"].append(more | {"name": "more"})
    found["last_plan"]["servers"].append(planned | {"name": "more"})
    return found


def shown(capsys: pytest.CaptureFixture[str], told: dict[str, Any], **how: bool) -> str:
    print_plan(told["last_plan"], told, **how)
    return capsys.readouterr().out


def test_six_servers_make_a_table_and_a_few_lines(
    told: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(capsys, told)
    assert len(text.splitlines()) <= 7 + 12
    assert max(map(len, text.splitlines())) <= 110
    for words in ("counts from", "proven", "memory for all", "bring its mean", "may be off"):
        assert words not in text
    assert "one more MiB: by what it shortens the mean of all servers" in text
    told["last_plan"]["servers"][0]["marginal_gain_seconds_per_mebibyte"] = 1e-9
    assert "hardly any" in shown(capsys, told)


def test_what_is_measured_stands_beside_what_the_curves_say(
    told: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    for seconds, words in (
        (0.0085, "too few hits"),
        (0.0091, None),
        (0.02, "more than the curves"),
    ):
        told["measured_access_time_seconds"] = seconds
        text = " ".join(shown(capsys, told).split())
        assert f"; measured now {1e3 * seconds:.4g} ms" in text
        assert (words or "total") in text
        assert words or ("curves say" not in text)


def test_a_size_that_somebody_set_by_hand_is_told_as_that(
    told: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """It stays, and no planned size beside it is had."""
    told["servers"][0]["held"] = {"bytes": 18 * MIB, "at_seconds": 1.0}
    name = told["servers"][0]["name"]
    (line,) = (one for one in shown(capsys, told).splitlines() if one.startswith(f"{name} "))
    assert re.search(r"set by hand +- ", line)


def test_while_a_curve_is_learnt_the_table_says_guess(
    told: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    told["servers"][0].update(curve=None, curve_error_ratio=None)
    text = " ".join(shown(capsys, told).split())
    assert "sessions 2 GiB 3 GiB +1 GiB guess - -" in text
    assert "; that is a guess, as too little is known of sessions so far; measured" in text
    text = " ".join(shown(capsys, told, is_verbose=True).split())
    assert "sessions (a guess), more: 1024 MiB more bring" in text
    assert "what another budget would bring is not known yet" in text
    assert "as fast as now" not in text
    assert "memory for all" not in text
    told["last_plan"].update(decision="keep", reason="learning: nothing better is known so far")
    text = " ".join(shown(capsys, told).split())
    assert "known so far; by the curves, mean access time not known yet; measured now" in text


def test_figures_of_now_are_those_of_the_size_in_force(
    told: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """A plan counts from the one before it, which a server perhaps never reached."""
    server, planned = told["servers"][0], told["last_plan"]["servers"][0]
    at_two = " ".join(shown(capsys, told).split())
    planned.update(
        maxmemory_before_bytes=1024 * MIB, hit_ratio_before=0.1, eat_before_seconds=0.072
    )
    for text in (at_two, " ".join(shown(capsys, told).split())):
        assert re.search(r"sessions 2 GiB 3 GiB \+1 GiB 87.0 -> 93.8 % 10.\d -> 5.1\d ms", text)
    counts = "the first line counts from the sizes that were planned before: sessions 1 GiB; the "
    assert counts not in at_two
    assert counts in text
    server["maxmemory_bytes"] = planned["maxmemory_bytes"]
    assert "sessions 3 GiB 3 GiB - 93.8 % 5.16 ms" in " ".join(shown(capsys, told).split())


def test_a_plan_that_keeps_sizes_while_servers_are_on_their_way_says_so(
    told: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    told["sets_sizes"] = True
    told["servers"][0]["target_bytes"] += MIB
    told["last_plan"].update(
        decision="keep",
        reason="small_gain: a better split would gain 0.11%; it takes 0.20% to move",
    )
    for server in told["last_plan"]["servers"]:
        server["reason"] = f"stays: {told['last_plan']['reason']}"
    text = " ".join(shown(capsys, told, is_verbose=True).split())
    assert "keeps what is planned (sessions on the way to it): a better split" in text
    assert text.count("a better split would gain") == 1
    assert "is better than that split" in text
    assert "no other division" not in text


def test_a_reason_of_several_servers_stands_once(
    told: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    for server in told["last_plan"]["servers"][2:]:
        server["reason"] = "stays: it is what it is; its backend takes 20 ms as configured"
    text = " ".join(shown(capsys, told, is_verbose=True).split())
    names = "catalogue, search, jobs, more: "
    assert f"{names}it is what it is" in text
    assert f"{names}the backend takes 20 ms as configured" in text
    assert text.count("it is what it is") == 1


def test_what_one_more_mebibyte_brings_is_left_out_where_that_is_nothing(
    told: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "one more MiB" in shown(capsys, told)
    for server in told["last_plan"]["servers"]:
        server["marginal_gain_seconds_per_mebibyte"] = 1e-8
    assert "one more MiB" not in shown(capsys, told)


def test_of_a_plan_that_an_order_has_overtaken_nothing_is_still_to_come(
    capsys: pytest.CaptureFixture[str], told: dict[str, Any]
) -> None:
    told["last_plan"]["overtaken_by"] = "rollback by ann"
    for server in told["servers"]:
        server["target_bytes"] = server["maxmemory_bytes"]
    text = " ".join(shown(capsys, told).split())
    assert "and sizes have changed since (rollback by ann)" in text
    assert "sessions 2 GiB 2 GiB - - -" in text
    assert "+1 GiB" not in text
    assert "misses a second" not in text

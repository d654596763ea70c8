"""``spreds explain`` says in a dozen lines why a server has its size, in sentences, each once."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.commands.change_words import in_the_last_day, last_change
from sidecar.commands.explain.explain import _in_short, last_plan_sentences
from sidecar.commands.explain.explain_limits import backend_words
from sidecar.commands.explain.explain_words import server_sentences
from sidecar.commands.printing import print_wrapped
from sidecar.config.node import ServerConfig, load_config
from tests.sidecar.example_sidecar import MIB, NOW_SECONDS, example_status
from tests.sidecar.fixtures import WriteNode


@pytest.fixture
def told() -> dict[str, Any]:
    """Return a status document."""
    return example_status()


def lines(capsys: pytest.CaptureFixture[str], sentences: list[str]) -> list[str]:
    for sentence in sentences:
        print_wrapped(sentence)
    return capsys.readouterr().out.splitlines()


def short(told: dict[str, Any], name: str = "sessions", *history: dict[str, Any]) -> list[str]:
    return server_sentences(ServerConfig(name, ""), told, history, is_verbose=False)


def plan_entry(cycle: int, age: float, before: int, after: int) -> dict[str, Any]:
    sizes = {"sizes_before_bytes": {"sessions": before}, "sizes_bytes": {"sessions": after}}
    about = {"at_seconds": NOW_SECONDS - age, "carried_out": True, "words": "moves memory"}
    return {"kind": "plan", "cycle": cycle, **about, **sizes}


def test_a_server_takes_twelve_lines(
    told: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    history = [plan_entry(7 + one, 900 - one, one * MIB, (one + 1) * MIB) for one in range(9)]
    for name in (server["name"] for server in told["servers"]):
        said = lines(capsys, short(told, name, *history))
        assert len(said) < 12, said  # the last one names --verbose
    (day,) = in_the_last_day("sessions", history, NOW_SECONDS, is_short=True)
    assert day.startswith("In the last day: 6 more before that; 15min ago: 6 MiB -> 7 MiB, by plan")
    assert day.count("by plan") == 3


def test_a_node_takes_eight_lines(
    told: dict[str, Any], write_node: WriteNode, capsys: pytest.CaptureFixture[str]
) -> None:
    config = load_config(write_node({"a": "redis://127.0.0.1:1"}, server_keys=""), secrets=False)
    said = lines(capsys, [_in_short(config), *last_plan_sentences(told, is_verbose=False)])
    assert len(said) < 8, said


def test_no_sentence_comes_twice_and_each_is_one(told: dict[str, Any]) -> None:
    server, planned = told["servers"][0], told["last_plan"]["servers"][0]
    server["last_change"].update(cycle=told["last_plan"]["cycle"], words=planned["reason"])
    for sentences in (short(told), server_sentences(ServerConfig("sessions", ""), told, [])):
        assert " ".join(sentences).count("bring its mean access time from") == 1
    told["last_plan"] = None
    none = "There is no plan yet: the next observation is due by "
    assert any(one.startswith(none) for one in short(told))
    assert any(one.startswith(none) for one in last_plan_sentences(told))


@pytest.mark.parametrize("is_verbose", [False, True])
def test_who_was_cut_is_told_since_when_and_for_whom(
    told: dict[str, Any], is_verbose: bool
) -> None:
    """Whatever steps led there, and whichever sizes plans count from."""
    server, others = told["servers"][4], told["servers"][:3]
    server.update(installed_bytes=1024 * MIB, used_bytes=256 * MIB)

    def said() -> str:
        return " ".join(server_sentences(ServerConfig("jobs", ""), told, [], is_verbose=is_verbose))

    assert (
        "SPREDS found it with 1 GiB: it has 512 MiB less now, and uses 256 MiB; by its curve, it "
        "hits 92.2% instead of 99.4%. Who has more than then: sessions 256 MiB, pages 256 MiB, "
        "catalogue 256 MiB." in said()
    )
    server["curve"]["miss_ratios"] = [0.0] * len(server["curve"]["miss_ratios"])
    for one in others:
        one["installed_bytes"] = one["maxmemory_bytes"]
    assert "by its curve, it hits 100.0% with either. " in said()
    assert "Who has" not in said()
    server["installed_bytes"] = server["maxmemory_bytes"]
    assert "SPREDS found it" not in said()
    assert "It uses 256 MiB of that." in said()


def test_a_plan_without_a_server_says_why(told: dict[str, Any]) -> None:
    del told["last_plan"]["servers"][0]
    without = "The last plan is without sessions, which did not answer then."
    assert without in short(told)
    assert without in server_sentences(ServerConfig("sessions", ""), told, [])


def test_what_is_learnt_is_a_guess(told: dict[str, Any]) -> None:
    told["servers"][0].update(curve=None)
    text = " ".join(short(told))
    assert "from 8.412 ms to 5.077 ms, which is a guess." in text
    assert "Its curve is still learnt" in text
    assert "not known" not in text
    backend = "too little is known of its curve; its backend takes 80 ms as configured"
    told["last_plan"]["servers"][0]["reason"] = f"stays: {backend}"
    assert "ago: too little is known of its curve." in " ".join(short(told))


def test_who_is_on_its_way_is_to_grow(told: dict[str, Any]) -> None:
    pages, change = told["servers"][1], told["servers"][0]["last_change"]
    entry = plan_entry(change["cycle"], 9.0, MIB, 2 * MIB)
    entry["sizes_before_bytes"]["pages"], entry["sizes_bytes"]["pages"] = MIB, 3 * MIB
    assert "In that plan pages grew by 2 MiB." in last_change(told["servers"][0], told, [entry])
    told["sets_sizes"] = True
    pages["target_bytes"] += MIB
    said = last_change(told["servers"][0], told, [entry])
    assert "In that plan pages is to grow by 2 MiB." in said


@pytest.mark.parametrize(
    ("words", "plain"),
    [
        ("room beside prices", "as this is left beside prices"),
        ("less room beside prices", "as less room is needed beside prices"),
        ("room that was made is given back", "as others need the room no longer"),
        ("rollback to last", "by rollback to last"),
    ],
)
def test_room_is_told_in_plain_words(told: dict[str, Any], words: str, plain: str) -> None:
    entry = plan_entry(1, 9.0, MIB, 2 * MIB) | {"kind": "budget", "words": f"{words}: a, b"}
    (day,) = in_the_last_day("sessions", [plan_entry(1, 60.0, 0, MIB), entry], NOW_SECONDS)
    assert day.endswith(f"1 MiB -> 2 MiB, {plain}.")


def test_room_beside_oneself_is_told_by_ones_own_entry(told: dict[str, Any]) -> None:
    entry = plan_entry(1, 9.0, MIB, 2 * MIB) | {"kind": "budget", "words": "room beside sessions"}
    assert in_the_last_day("sessions", [plan_entry(1, 60.0, 0, MIB), entry], NOW_SECONDS) == []


@pytest.mark.parametrize("stated_seconds", [0.1, 5.0])
def test_a_latency_that_counts_for_less_than_its_team_says(stated_seconds: float) -> None:
    server = {
        "backend_latency_seconds": 0.1,
        "backend_latency_source": "team",
        "stated_latency_seconds": stated_seconds,
    }
    config = ServerConfig(name="a", url="redis://127.0.0.1", minimum_bytes=1)
    (words,) = backend_words(config, server, None)
    bounded = "Its backend latency counts as 100 ms (its team says 5000 ms)."
    plain = "Its backend latency is 100 ms, as its team says."
    assert words == (plain if stated_seconds == 0.1 else bounded)


def test_of_a_size_set_by_hand_no_plan_gives_the_reason(told: dict[str, Any]) -> None:
    assert "Plan " in " ".join(short(told))
    hold = {"bytes": 5 * MIB, "at_seconds": NOW_SECONDS, "config": None}
    told["servers"][0].update(held=hold, maxmemory_bytes=5 * MIB)
    said = " ".join(short(told))
    assert "Somebody gave it 5 MiB by hand" in said
    assert "Plan " not in said
    assert "One more MiB" not in said


def test_it_says_whose_bounds_took_memory(told: dict[str, Any]) -> None:
    """By what an attacker did: a team's minimum cut a neighbour, and nothing said whose it was."""
    server, other = told["servers"][:2]
    why = "shrinks: 21 MiB less cost it 2.1 ms (8.4 ms -> 10.5 ms), which servers' bounds ask for"
    told["last_plan"]["servers"][0]["reason"] = why
    said = " ".join(server_sentences(ServerConfig(server["name"], ""), told, ()))
    assert "Bounds that their teams set" not in said  # nobody did
    other["team_settings"] = {"minimum_bytes": 32 * MIB, "latency_bound_seconds": 0.02, "weight": 3}
    other["settings_by"] = "eve"
    said = " ".join(server_sentences(ServerConfig(server["name"], ""), told, ()))
    assert (
        "Bounds that their teams set: pages minimum 32 MiB, latency bound 20ms (signed eve)."
        in said
    )
    told["last_plan"]["servers"][0]["reason"] = "shrinks: which others more than save"
    said = " ".join(server_sentences(ServerConfig(server["name"], ""), told, ()))
    assert "Bounds that their teams set" not in said

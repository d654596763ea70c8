"""``spreds history`` in short: a plan's sizes once, an order before what it causes."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.commands.history import _folded, concerning, in_short
from sidecar.control.server_outages import set_again
from sidecar.state.control_state import ControlState, Hold
from sidecar.state.sidecar_state import SidecarState
from tests.sidecar.example_sidecar import MIB

BEFORE, AFTER = {"a": 3 * MIB, "b": MIB, "c": MIB}, {"a": 2 * MIB, "b": 2 * MIB, "c": MIB}
GAIN = "mean access time from 2 ms to 1 ms, 50.00% less after the cost of moving"
KNOWN = "; how far curves are known: a hardly (7 sampled keys), b up to 1 MiB (1 sampled key)"
WAYS = "a 3 MiB -> 2 MiB, b 1 MiB -> 2 MiB"


def _plan(words: str, **more: Any) -> dict[str, Any]:
    sizes = {"sizes_before_bytes": BEFORE, "sizes_bytes": AFTER}
    plan = {"at_seconds": 1.0, "kind": "plan", "cycle": 7, "decision": "apply", "words": words}
    return {**plan, **sizes, "carried_out": False, **more}


WOULD = _plan(f"plan 7 would move memory (the mode is recommend): {GAIN}{KNOWN}")
MOVES = _plan(f"plan 7 moves memory: {GAIN}{KNOWN}", carried_out=True)
ORDER = {
    "at_seconds": 1.0,
    "kind": "order",
    "by": "ana",
    "words": f"apply: carrying out plan 7: {WAYS}; plans are carried out from now on",
    "order": {"what": "apply"},
}
ROOM = {
    "at_seconds": 2.0,
    "kind": "budget",
    "words": f"room beside a: {WAYS}",
    "sizes_before_bytes": BEFORE,
    "sizes_bytes": AFTER,
}


def _told(*entries: dict[str, Any], server: str | None = None) -> list[str]:
    found = [f"{line} {' '.join(more)}" for line, more in _folded(in_short(entries, server))]
    return [line.partition("  ")[2].strip() for line in found]


def test_the_sizes_of_a_plan_are_told_once_and_its_order_before_it() -> None:
    would, order, moves = _told(WOULD, MOVES, ORDER)
    guess = "; hardly known: a"
    assert would == f"plan 7 would move memory (the mode is recommend): {GAIN}{guess}"
    assert order == (
        "order (by ana): apply: carrying out plan 7; plans are carried out from now on"
    )
    assert moves == f"plan 7 moves memory {WAYS.replace(',', '')}"


def test_a_plan_that_nobody_carried_out_has_its_sizes() -> None:
    (would,) = _told(WOULD)
    assert would.endswith(WAYS.replace(",", ""))
    (order,) = _told(ORDER)  # its plan is older than what is told
    assert WAYS in order


def test_of_plans_that_nobody_carried_out_the_last_has_its_sizes() -> None:
    first, kept, last = {**WOULD, "cycle": 6}, {**WOULD, "cycle": 8, "decision": "keep"}, WOULD
    told = _told(first, last, kept)
    assert [WAYS.replace(",", "") in one for one in told] == [False, True, False]


def test_room_has_its_sizes_in_its_words_and_of_one_server_only_its_own() -> None:
    assert _told(ROOM) == [f"room beside a: {WAYS}"]
    assert _told(ROOM, server="b") == ["room beside a: b 1 MiB -> 2 MiB"]


@pytest.mark.parametrize(
    ("kind", "words", "of_b"),
    [
        ("start", "the sidecar started", False),
        ("stop", "the sidecar stopped", False),
        ("reload", "cycle.samples 5 -> 4", False),
        ("reload", "server b.backend_latency 5ms -> 10ms", True),
        ("reload", "server b-2.backend_latency 5ms -> 10ms", False),
        ("yardstick", "weights changed: a 1 -> 3", False),
        ("yardstick", "weights changed: a 1 -> 3, b 3 -> 1", True),
        ("order", "pause: nothing is set", True),
    ],
)
def test_of_one_server_is_told_what_concerns_it(kind: str, words: str, of_b: bool) -> None:
    entry = {"at_seconds": 1.0, "kind": kind, "words": words}
    assert bool(list(concerning([entry], "b"))) == of_b


def test_an_outcome_concerns_who_was_changed_by_its_plan() -> None:
    outcome = {"at_seconds": 2.0, "kind": "check", "cycle": 7, "words": "better"}
    assert list(concerning([MOVES, outcome], "b")) == [MOVES, outcome]
    assert list(concerning([MOVES, outcome], "c")) == []
    assert list(concerning([outcome], "c")) == [outcome]


def test_a_restart_says_which_size_is_set_again() -> None:
    state = SidecarState(targets_bytes={"a": 3 * MIB}, control=ControlState(engaged=True))
    assert set_again("a", "a was restarted", state) == "; it goes back to 3 MiB"
    assert set_again("a", "a does not answer", state) == ""
    assert set_again("b", "b was restarted", state) == ""
    state.control = ControlState(engaged=True, held={"a": Hold(5 * MIB, 1.0)})
    assert set_again("a", "a was restarted", state, 9 * MIB) == "; it goes back to 3 MiB"
    kept = "; it keeps 5 MiB, which was set by hand"
    assert set_again("a", "a was restarted", state, 5 * MIB) == kept
    state.control = ControlState()
    assert set_again("a", "a was restarted", state) == ""

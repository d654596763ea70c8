"""Scripts of faults: text and steps say the same, and each step reaches the stage."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.experiment.faults.stage import script
from workloads.experiment.faults.stage.script import (
    ScriptError,
    Stage,
    Step,
    dumps,
    loads,
    play,
    random_script,
)

MADE_BY_NOBODY = {"settle", "verdict"}
SAID = """\
plan 3 1 1
kill_server 0
start_server 0 24
policy 2 noeviction
wait 0.5
"""
MEANT = [
    Step("plan", None, (3, 1, 1)),
    Step("kill_server", 0),
    Step("start_server", 0, 24.0),
    Step("policy", 2, "noeviction"),
    Step("wait", None, 0.5),
]


class Noted:
    """A stage that only remembers."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, what: str) -> Any:
        return lambda *words: self.calls.append((what, *words))


def test_text_and_steps_say_the_same() -> None:
    assert loads(SAID) == MEANT
    assert dumps(MEANT) == SAID
    assert loads("# nothing\n\n  wait 1   # a second\n") == [Step("wait", None, 1.0)]


@given(seed=st.integers(0, 1 << 40), servers=st.integers(1, 6))
def test_random_scripts_survive_text_and_repeat(seed: int, servers: int) -> None:
    steps = random_script(seed, servers)
    assert loads(dumps(steps)) == steps == random_script(seed, servers)
    assert all(step.server is None or step.server < servers for step in steps)


def test_each_step_reaches_the_stage_in_its_order() -> None:
    stage = Noted()
    play(MEANT, stage)  # type: ignore[arg-type]
    assert stage.calls == [
        ("plan", 3, 1, 1),
        ("kill_server", 0),
        ("start_server", 0, 24.0),
        ("policy", 2, "noeviction"),
        ("wait", 0.5),
    ]


def test_random_scripts_draw_all_that_a_stage_can_do_and_nothing_else() -> None:
    methods = {
        name: method
        for name, method in inspect.getmembers(Stage, inspect.isfunction)
        if not name.startswith("_")
    }
    drawn = {step.what for seed in range(200) for step in random_script(seed, 3)}
    assert drawn == methods.keys() - MADE_BY_NOBODY == script._FORMS.keys()
    for seed in range(200):
        for step in random_script(seed, 3):
            place = [] if step.server is None else [step.server]
            values = step.value if isinstance(step.value, tuple) else (step.value,)
            words = [*place, *(value for value in values if value is not None)]
            inspect.signature(methods[step.what]).bind(None, *words)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("wait 1\nexplode 0", "line 2, 'explode 0': there is no step 'explode', there are plan, "),
        ("kill_server", "line 1, 'kill_server': 1 words are to follow 'kill_server', not 0"),
        ("wait 1 2", "1 words are to follow 'wait', not 2"),
        ("kill_server x", "'x' is not the number of a server"),
        ("start_server 0 many", "'many' makes no sense there"),
        ("wait -1", "'-1' makes no sense there"),
        ("wait inf", "'inf' makes no sense there"),
        ("wait nan", "'nan' makes no sense there"),
        ("policy 0 volatile", "'volatile' makes no sense there"),
        ("plan", "a plan needs a share for each server"),
        ("plan 1 0", "a plan needs a share for each server"),
        ("plan 1 x", "a plan needs a share for each server"),
    ],
)
def test_a_script_that_cannot_be_read_says_which_line_and_why(text: str, message: str) -> None:
    with pytest.raises(ScriptError, match=message.replace("(", r"\(")):
        loads(text)

"""Orders are kept as they were given, and decide what may be done."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from sidecar.state.control_state import MODES, ControlState, Hold, OrderOrigin, Pause, Wait
from sidecar.state.sidecar_state import SidecarState
from solver_lambda.documents.reader import Fields

TEXT = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=20)
TIMES = st.floats(1, 1e10)
SIZES = st.dictionaries(TEXT, st.integers(0, 1 << 40), max_size=3)
WAITS = st.builds(Wait, TIMES, TEXT, st.integers(0, 9))
STATES = st.builds(
    ControlState,
    mode=st.none() | st.sampled_from(MODES),
    mode_by=st.none() | st.builds(OrderOrigin, TEXT, TIMES, st.just("") | TEXT),
    file_mode=st.none() | st.sampled_from(MODES),
    engaged=st.booleans(),
    pause=st.none() | st.builds(Pause, TEXT, TIMES, st.just("") | TEXT, st.none() | TIMES),
    wait=st.none() | WAITS,
    server_waits=st.dictionaries(TEXT, WAITS, max_size=3),
    held=st.dictionaries(TEXT, st.builds(Hold, st.integers(1, 1 << 40), TIMES), max_size=3),
    installed_bytes=SIZES,
    before_plan_bytes=SIZES,
)


@given(STATES)
def test_it_is_read_back_as_it_was_written(control: ControlState) -> None:
    assert ControlState.from_json(Fields(control.to_json(), "state")) == control


@given(STATES)
def test_a_file_from_before_servers_waited_is_read(control: ControlState) -> None:
    old = {key: value for key, value in control.to_json().items() if key != "server_waits"}
    assert ControlState.from_json(Fields(old, "state")) == replace(control, server_waits={})


@given(STATES, st.none() | st.sampled_from(MODES), TIMES)
def test_who_objects_has_a_reason_and_nobody_else(
    control: ControlState, file_mode: str | None, now_seconds: float
) -> None:
    objection = control.objection(file_mode, now_seconds)
    waits = control.wait is not None and now_seconds < control.wait.until_seconds
    free = control.pause is None and control.mode_with(file_mode) == "apply" and not waits
    assert (objection is None) == free


def test_a_new_installation_recommends() -> None:
    assert ControlState().mode_with(None) == "recommend"
    assert not ControlState().sets_sizes


def test_an_order_holds_until_the_line_in_the_file_is_edited() -> None:
    ordered = ControlState().ordered("apply", "recommend", OrderOrigin("ann", 1.0))
    assert ordered.mode_with("recommend") == "apply"
    assert ordered.mode_with("apply") == "apply"
    back = ControlState().ordered("recommend", "apply", OrderOrigin("ann", 1.0))
    assert back.mode_with("apply") == "recommend"
    assert back.mode_with(None) == "recommend"


def test_a_sidecar_that_knew_no_modes_goes_on_with_carrying_out_plans() -> None:
    table = SidecarState(last_cycle=7).to_json()
    del table["control"]
    control = SidecarState.from_json(Fields(table, "state")).control
    assert (control.mode_with(None), control.sets_sizes) == ("apply", True)
    assert replace(control, engaged=False).mode_with("recommend") == "recommend"

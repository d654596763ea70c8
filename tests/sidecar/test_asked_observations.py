"""What was seen when plans were asked for is kept for the answers, over a restart, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.state.asked_observations import AskedObservations, asked_path
from tests.sidecar.plan_messages import observation


def test_those_that_wait_are_kept_and_the_last_one_over_a_restart(tmp_path: Path) -> None:
    path = asked_path(tmp_path / "state.json")
    assert path == tmp_path / "state.json.asked"
    asked = AskedObservations(path)
    for cycle in (1, 2, 3):
        asked.keep(observation(cycle), {2, cycle})
    known = [asked.get(cycle) for cycle in (1, 2, 3)]
    assert [one and one.cycle for one in known] == [None, 2, 3]
    again = AskedObservations(path)
    last = again.get(3)
    assert last is not None
    assert last.dumps() == known[2].dumps()  # type: ignore[union-attr]
    assert again.get(2) is None
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("text", [b"", b"{}", b"\xff" * 10])
def test_what_cannot_be_read_is_left_out(
    tmp_path: Path, text: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "state.json.asked"
    path.write_bytes(text)
    asked = AskedObservations(path)
    assert "the last observation is left out" in caplog.text
    asked.keep(observation(1), ())
    assert AskedObservations(path).get(1) is not None


def test_what_cannot_be_written_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    asked = AskedObservations(tmp_path / "not-there" / "asked")
    asked.keep(observation(1), ())
    assert "the observation cannot be kept" in caplog.text
    assert asked.get(1) is not None


def test_without_a_state_file_nothing_is_on_file() -> None:
    asked = AskedObservations(asked_path(None))
    asked.keep(observation(1), ())
    assert asked.get(1) is not None

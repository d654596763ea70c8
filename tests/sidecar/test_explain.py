"""``spreds explain`` tells of the node's own file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sidecar.cli import main
from sidecar.commands import explain
from sidecar.commands.explain_words import (
    last_plan_sentences,
    of_which_change,
    server_sentences,
)
from sidecar.config.node import ServerConfig
from sidecar.curves.remembered import HALF_LIVES_CYCLES
from tests.sidecar.example_sidecar import example_status

NODE = """
node = "n"
[memory]
budget = "1GiB"
[sampling]
endpoint = "ipc:///tmp/x"
[cycle]
maximum_age = "2h"
samples = 1234
[planning]
minimum_gain_ratio = 0.03
{forecast}
[[server]]
name = "a"
url = "redis://127.0.0.1:1"
[[server]]
name = "b"
url = "redis://127.0.0.1:2"
"""


@pytest.mark.parametrize(
    ("forecast", "told"),
    [
        ("", ("2 servers share 1 GiB", "10min to 12h", "after 2h", "1234 samples", "3.00%")),
        ('forecast = "last"', ("2 servers share 1 GiB", "Every 2h", "1234 samples", "3.00%")),
    ],
)
def test_it_tells_when_and_by_what_plans_are_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], forecast: str, told: tuple[str, ...]
) -> None:
    path = tmp_path / "node.toml"
    path.write_text(NODE.format(forecast=forecast))
    assert main(["explain", str(path)]) == 0
    output = capsys.readouterr().out
    for words in told:
        assert words in output


def test_it_knows_how_far_back_one_looks() -> None:
    assert (HALF_LIVES_CYCLES[0], HALF_LIVES_CYCLES[-1]) == (explain._SHORTEST, explain._LONGEST)


def test_milliseconds_stand_beside_the_amount_that_they_were_computed_for() -> None:
    words = "128 KiB less cost it 0.02079 ms (1 ms to 1.021 ms), which others more than save"
    have, step = 13 << 20, 128 << 10
    assert of_which_change(words, have, have - step) == words
    # On its way, by several plans: 128 KiB are the last one's.
    for change in (-step - 1024, step, -8 * step):
        said = of_which_change(words, have, have + change)
        assert said.startswith("the last plan alone, ")
        assert said.endswith(f": {words}")
    assert of_which_change(words, None, have) == words
    assert of_which_change("given back", have, have - step) == "given back"


def _sentences(name: str, changes: dict[str, Any], **config: Any) -> str:
    status = example_status()
    for server in status["servers"]:
        server.update(changes)
    return "\n".join(server_sentences(ServerConfig(name, "", **config), status, []))


def test_the_node_is_told_what_became_of_the_last_plan_that_was_checked() -> None:
    status = example_status()
    status["last_check"]["words"] = "too early to tell: plan 7"
    assert "The last check: too early to tell: plan 7." in last_plan_sentences(status)


def test_a_server_that_the_running_sidecar_does_not_know_is_told() -> None:
    said = _sentences("new", {})
    assert said.startswith("The sidecar that runs does not know new")
    assert "Restart the sidecar" in said


def test_who_is_down_is_not_said_to_have_no_sampler() -> None:
    gone = {"curve": None, "sampler": None, "keep_reason": None}
    assert "neither the patch nor the module" in _sentences("sessions", gone)
    down = _sentences("sessions", {**gone, "up": False, "error": "Connection refused."})
    assert "Its curve is not known: nor" in down
    assert "neither the patch" not in down


def test_without_a_curve_what_a_plan_says_of_more_memory_is_called_a_guess() -> None:
    unknown = {"curve": None, "keep_reason": None}
    assert "a guess from its first reads" in _sentences("sessions", unknown)
    assert "a guess" not in _sentences("sessions", {})
    assert "a guess" not in _sentences("sessions", {**unknown, "keep_reason": "too few samples"})


def test_a_configured_latency_is_known_before_the_first_observation() -> None:
    unseen = {"backend_latency_seconds": None}
    assert "20 ms in the node's file" in _sentences(
        "sessions", unseen, backend_latency_seconds=0.02
    )
    assert "is not known yet" in _sentences("sessions", unseen)

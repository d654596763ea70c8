"""``spreds explain`` tells of the node's own file."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.cli import main
from sidecar.commands import explain
from sidecar.commands.explain_words import of_which_change
from sidecar.curves.remembered import HALF_LIVES_CYCLES

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

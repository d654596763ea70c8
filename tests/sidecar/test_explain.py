"""``spreds explain`` tells of the node's own file."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.cli import main
from sidecar.commands import explain
from sidecar.commands.explain_words import with_sizes_had
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


def test_how_much_a_size_changed_is_by_what_the_server_had() -> None:
    words = "8.2 MiB less do not change its mean access time"
    said = with_sizes_had(words, 15 << 20, 12 << 20)
    assert said == "3 MiB less do not change its mean access time"
    assert with_sizes_had(words, None, 12 << 20) == words
    assert with_sizes_had("given back", 15 << 20, 12 << 20) == "given back"

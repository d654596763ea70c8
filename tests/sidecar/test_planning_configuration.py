"""``[planning] forecast``, what follows from it, and the half-life that it takes the place of."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from sidecar.config.node import SidecarConfig, load_config
from solver_lambda.documents.reader import DocumentError

NODE = """
node = "n1"
[memory]
budget = "100mb"
[sampling]
endpoint = "ipc:///tmp/samples"
{sampling}
[cycle]
maximum_age = "30m"
[planning]
{planning}
[[server]]
name = "pages"
url = "redis://127.0.0.1:6379"
"""


def config_of(folder: Path, planning: str = "", sampling: str = "") -> SidecarConfig:
    path = folder / "node.toml"
    path.write_text(NODE.format(planning=planning, sampling=sampling))
    return load_config(path)


@pytest.mark.parametrize(
    ("planning", "forecasts", "horizon_seconds"),
    [
        ("", True, 10 * 1800),
        ('forecast = "competing"', True, 10 * 1800),
        ('forecast = "last"', False, 1800),
        ('horizon = "10m"', True, 600),
        ('forecast = "last"\nhorizon = "2d"', False, 2 * 86400),
    ],
)
def test_a_plan_is_expected_to_last_ten_cycles_or_one_of_the_last_window(
    tmp_path: Path, planning: str, forecasts: bool, horizon_seconds: float
) -> None:
    config = config_of(tmp_path, planning)
    assert config.forecasts is forecasts
    assert config.planning.horizon_seconds == horizon_seconds


def test_another_forecast_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"planning\.forecast.*'first'"):
        config_of(tmp_path, 'forecast = "first"')


def test_a_reload_cannot_change_the_forecast(tmp_path: Path) -> None:
    old, new = config_of(tmp_path), config_of(tmp_path, 'forecast = "last"')
    assert new.needs_restart_after(old) == ["planning.forecast"]


def test_a_half_life_is_accepted_and_the_operator_told_what_took_its_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        config = config_of(tmp_path, sampling='half_life = "2h"')
    assert config == config_of(tmp_path)
    (warning,) = caplog.messages
    assert "sampling.half_life" in warning
    assert "cycle.maximum_age" in warning
    assert str(tmp_path / "node.toml") in warning


@pytest.mark.parametrize("half_life", ["2", '"0s"', '"long"'])
def test_a_half_life_that_never_was_one_is_still_refused(tmp_path: Path, half_life: str) -> None:
    with pytest.raises(DocumentError, match=r"sampling\.half_life"):
        config_of(tmp_path, sampling=f"half_life = {half_life}")

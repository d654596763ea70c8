"""Which targets a mix is judged by, and what is said of those that are missed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from workloads.experiment.gain.mix import Targets
from workloads.experiment.gain.report import Result, summary, told
from workloads.experiment.gain.score import Score, Verdict, judge, score
from workloads.experiment.gain.simulation import Outcome

EQUAL = Score("equal", "", 0.010, 0.0, 0.0, 0.0, 0.0, 0, 0, 0, [])
STATIC = replace(EQUAL, division="static oracle", share=1.0, late_share=1.0, loss_ratio=-0.20)
CLIMBER = replace(EQUAL, division="climber", share=0.5, late_share=0.5, loss_ratio=-0.10)
GOOD = replace(STATIC, division="SPREDS", salt="a", moves=1, changes=9)


def missed(scores: list[Score], targets: Targets | None = None, changes: bool = False):
    verdicts = judge(targets or Targets(), changes, [EQUAL, STATIC, CLIMBER, *scores])
    return {one.target: round(one.missed_by, 6) for one in verdicts if one.missed_by}


def test_a_stationary_mix_is_judged_by_its_shares_at_the_worst_salt():
    worse = replace(GOOD, salt="b", share=0.85, late_share=0.96)
    assert missed([GOOD]) == {}
    assert missed([GOOD, worse]) == {"share": 0.05, "late_share": 0.01}
    verdicts = judge(Targets(), False, [EQUAL, STATIC, CLIMBER, worse, GOOD])
    assert {one.salt for one in verdicts if one.target == "share"} == {"b"}


def test_a_changing_mix_is_to_gain_more_than_climber_and_static_oracle():
    low = replace(GOOD, share=0.4, late_share=0.1, loss_ratio=-0.15)
    assert missed([GOOD], changes=True) == {}
    assert missed([low], changes=True) == {"gain_ratio": 0.05}
    assert missed([replace(GOOD, loss_ratio=-0.19999)], changes=True) == {}
    assert missed([replace(low, loss_ratio=-0.3)], changes=True) == {}


def test_moves_are_judged_where_the_mix_has_a_target_for_them():
    many = replace(GOOD, loss_ratio=0.001, moves=9)
    assert missed([many]) == {}
    assert missed([many], Targets(loss_ratio=0.0005, moves=2)) == {
        "loss_ratio": 0.0005,
        "moves": 7,
    }


def test_where_there_is_nothing_to_gain_only_losses_are_judged():
    nothing = replace(GOOD, share=None, late_share=None, loss_ratio=0.001, worst_cycle_ratio=0.12)
    assert missed([nothing]) == {"worst_cycle_ratio": 0.02}


def test_what_is_missed_is_said_with_bound_and_salt():
    verdicts = [
        Verdict("share", 0.9, 0.85, "b", 0.05),
        Verdict("loss_ratio", 0.002, 0.0, "a", 0.0),
        Verdict("moves", 2, 9, "b", 7),
    ]
    result = Result("mix", "what it is", False, [EQUAL, GOOD], verdicts)
    met = replace(result, verdicts=verdicts[1:2])
    assert told(met).splitlines()[-1] == "all targets are met"
    assert told(result).splitlines()[-1] == (
        "MISSED: share 85.00 % with salt b, to be at least 90.00 %; "
        "MISSED: moves 9 with salt b, to be at most 2"
    )
    *_, first, second, last, _ = summary([result, met]).splitlines()
    assert first.endswith("share by 5.00 %; moves by 7")
    assert second.endswith("met")
    assert last == "1 of 2 mixes meet all targets"


@pytest.mark.parametrize("share", [None, 0.5])
def test_results_travel_as_json(share):
    result = Result("mix", "", True, [replace(GOOD, share=share)], [])
    assert result.to_json()["scores"][0]["share"] == share
    assert "gain_ratio" not in result.to_json()["scores"][0]


class Waited(Outcome):
    """All cycles take the same time."""

    def __init__(self, seconds: float) -> None:
        self.__dict__.update(seconds=seconds, reads=np.zeros((8, 2)), moves=0, changes=0)
        self.__dict__.update(moved_bytes=0)

    def access_seconds(self, first: int = 0, last: int | None = None) -> float:
        return self.__dict__["seconds"]


@pytest.mark.parametrize(("static_ms", "share"), [(9.81, None), (9.7, 0.5)])
def test_there_is_no_share_of_a_gain_below_two_per_cent(static_ms, share):
    mine, equal, static = (Waited(ms / 1e3) for ms in ((10 + static_ms) / 2, 10.0, static_ms))
    one = score("SPREDS", mine, equal, static)
    assert one.share == one.late_share == (share and pytest.approx(share))

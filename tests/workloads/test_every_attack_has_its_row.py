"""The table of attacks: each row of the gate holds, and a row can fall."""

from __future__ import annotations

import pytest

from workloads.__main__ import main
from workloads.experiment.attacks.command import ALL_ATTACKS, table
from workloads.experiment.attacks.stage.attack import FELL, OK, SKIPPED, Attack, must, play_attack
from workloads.experiment.study_verb import chosen

QUICK = chosen(ALL_ATTACKS, quick=True)


@pytest.mark.parametrize("attack", QUICK, ids=lambda attack: attack.name)
def test_an_attack_has_no_effect(attack: Attack) -> None:
    outcome = play_attack(attack)
    if outcome.verdict == SKIPPED:
        pytest.skip(outcome.words)
    assert outcome.verdict == OK, outcome.words


def test_each_attack_has_a_name_of_its_own() -> None:
    names = [attack.name for attack in ALL_ATTACKS]
    assert len(set(names)) == len(names)


def test_an_effect_is_a_fall_and_so_is_what_cannot_be_judged() -> None:
    def breaks() -> None:
        raise ValueError("as it was told to")

    attacks = [Attack("a", "", lambda: must(0, "it gave way")), Attack("b", "", breaks)]
    outcomes = [play_attack(attack) for attack in attacks]
    assert [outcome.verdict for outcome in outcomes] == [FELL, FELL]
    assert "it gave way" in table(attacks, outcomes)
    assert "ValueError: as it was told to" in table(attacks, outcomes)


def test_rows_are_listed_and_a_name_that_no_row_has_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["experiment", "attacks", "--list", "--quick"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2 + len(QUICK)
    assert main(["experiment", "attacks", "--only", "no such row"]) == 2
    assert "no row has" in capsys.readouterr().err

"""A plan says how much of the curves is known, as long as that is little."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sidecar.plans.plan_gain import PlanGain
from sidecar.plans.plan_knowledge import known_words
from solver_lambda.documents.curve import MissRatioCurve
from solver_lambda.documents.observation import Observation, ServerObservation

MIB = 1 << 20
# What a size beyond the deepest read would bring is not known, whatever the grid has.
CURVE = MissRatioCurve(np.array([1.0, 3.0, 8.0, 96.0]) * MIB, np.array([0.5, 0.1, 0.1, 0.1]))
KNOWN = ServerObservation(
    *("a", 10 * MIB, MIB, 1.0, 1000.0, 1e-4, 1e-2, CURVE),
    curve_error_ratio=0.02,
    sampled_objects=1234,
)


def words(**of_b: object) -> str | None:
    servers = (KNOWN, replace(KNOWN, name="b", **of_b))
    return known_words(Observation("n", 7, 1.0, 60.0, 20 * MIB, servers))


def test_where_enough_is_known_nothing_is_said() -> None:
    assert words() is None
    # Of who has no curve, none will be known.
    assert words(keep_reason="no_model: for maxmemory-policy volatile-ttl") is None


def test_a_curve_that_is_hardly_known_is_told_by_its_samples_and_its_depth() -> None:
    hardly = "how far curves are known: b hardly (1,234 sampled keys)"
    little = "how far curves are known: b up to 3 MiB (1,234 sampled keys)"
    assert words(curve_error_ratio=0.4) == little
    assert words(curve_error_ratio=0.9) == hardly
    assert words(keep_reason="few_samples: 12 reads sampled so far") == hardly
    nothing = words(keep_reason="no_samples: nothing is known", sampled_objects=0)
    assert nothing == "how far curves are known: b not at all"


def test_early_plans_tell_of_all_curves() -> None:
    servers = KNOWN, replace(KNOWN, name="b", keep_reason="held: it was resized by hand")
    asked = Observation("n", 7, 1.0, 60.0, 20 * MIB, servers)
    told = "how far curves are known: a up to 3 MiB (1,234 sampled keys)"
    assert known_words(asked, is_early=True) == told


def test_of_many_servers_some_are_named() -> None:
    servers = tuple(replace(KNOWN, name=name, curve_error_ratio=0.4) for name in "abcdef")
    told = known_words(Observation("n", 7, 1.0, 60.0, 60 * MIB, servers))
    assert told is not None
    assert told.endswith("d up to 3 MiB (1,234 sampled keys), and 2 more hardly")


def test_who_predicts_nothing_gains_nothing_that_could_be_told() -> None:
    assert PlanGain(None, 0.1).ratio is None
    assert PlanGain(0.1, None).words is None
    assert PlanGain(0.0, 0.0).ratio == 0.0
    assert PlanGain(0.2, 0.1).ratio == 0.5

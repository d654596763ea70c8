"""Every way to divide a mix's memory, simulated; what one process does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sidecar.config.sampling import DEFAULT_RATE
from workloads.experiment.gain.mix import Mix, record
from workloads.experiment.gain.oracle import Oracle, StatedErrors, stated_errors
from workloads.experiment.gain.rivals import (
    Climber,
    by_demand,
    by_working_set,
    one_shared_server,
)
from workloads.experiment.gain.simulation import Division, Outcome, simulate
from workloads.experiment.gain.spreds_division import SpredsDivision

# At the higher rate so many objects are sampled at least, of the server that has the fewest.
SAMPLED_OBJECTS = 2000


class Divided(NamedTuple):
    """What a division came to; the rest is SPREDS': ``rate`` and ``salt`` (hexadecimal) of its
    samples, and whether its curves were as right as they claimed."""

    division: str
    outcome: Outcome
    rate: float | None = None
    salt: str = ""
    errors: StatedErrors | None = None


def sampling_rates(mix: Mix, seed: int) -> list[float]:
    """The default one, and the higher one unless it is the same."""
    fewest = min(len(np.unique(np.concatenate(one.cycles))) for one in record(mix, seed))
    return sorted({DEFAULT_RATE, min(1.0, max(DEFAULT_RATE, SAMPLED_OBJECTS / max(1, fewest)))})


def divided_by_spreds(mix: Mix, seed: int, rate: float, salt: int) -> list[Divided]:
    """By SPREDS, with one sample."""
    requests = record(mix, seed)
    division = SpredsDivision(rate, salt)
    outcome = simulate(mix, requests, division)
    errors = stated_errors(mix, Oracle(mix, requests), division.observations)
    text = f"{salt:016x}"
    return [Divided(f"SPREDS, R = {rate:.3g}, salt {text}", outcome, rate, text, errors)]


def divided_by_rivals(mix: Mix, seed: int) -> list[Divided]:
    """By all others."""
    requests = record(mix, seed)

    def fixed(sizes: Sequence[int] | None = None) -> Outcome:
        return simulate(mix, requests, Division(), sizes)

    oracle = Oracle(mix, requests)
    return [
        Divided("equal", fixed()),
        Divided("static oracle", fixed(oracle.best_bytes())),
        Divided("oracle of each window", oracle.best_of_each_window()),
        Divided("by demand", fixed(by_demand(mix, requests))),
        Divided("by working set", fixed(by_working_set(mix, requests))),
        Divided("one shared server", one_shared_server(mix, requests)),
        Divided("climber", simulate(mix, requests, Climber())),
    ]

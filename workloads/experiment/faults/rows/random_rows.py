"""Random faults as rows: a script each, which is told where it fails."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from workloads.experiment.faults.rows.row import Row
from workloads.experiment.faults.stage.script import Step, dumps, loads, play, random_script

SERVERS = 3


def random_row(seed: int) -> Row:
    """One generated script."""
    return _row(f"random {seed}", random_script(seed, SERVERS))


def replayed_row(file: Path) -> Row:
    """The script of a file, for a stage's servers. Raises ScriptError, OSError."""
    return _row(file.name, loads(file.read_text(), SERVERS))


def _row(name: str, steps: Sequence[Step]) -> Row:
    """How long it may be above the budget depends on what meets what: the named gaps say it."""
    text = dumps(steps)

    return Row(
        name,
        text,
        lambda stage: play(steps, stage),
        script=text,
        gap="what the script does",
        bound_seconds=math.inf,
    )

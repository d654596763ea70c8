"""The cost model's answer, by the command that anybody would use."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from workloads.experiment.harness.study import StudyError
from workloads.running_program import ROOT


def ask_cost_model(*options: str) -> dict[str, Any]:
    """What ``python -m infra.costs --json`` prints.

    Raises:
        StudyError: it cannot be asked.
    """
    done = subprocess.run(
        [sys.executable, "-m", "infra.costs", "--json", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise StudyError(f"python -m infra.costs: {done.stderr.strip() or done.returncode}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer

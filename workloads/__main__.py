"""``python -m workloads demo | replay | bench ... | experiment ...``."""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from collections.abc import Sequence
from typing import Any

from workloads.experiment.everything.results import STUDIES
from workloads.processes import unwind_when_interrupted
from workloads.table import say

# Verb, or verb and subject, and the module that has HELP, add_arguments and run; or STUDY.
VERBS: dict[tuple[str, ...], str] = {
    ("demo",): "workloads.demo.command",
    ("replay",): "workloads.replay_verb",
    ("bench", "redis"): "workloads.bench.sampling.redis_verb",
    ("bench", "look"): "workloads.bench.sampling.look_verb",
    ("bench", "solver"): "workloads.bench.solver.solver_verb",
    ("bench", "plan"): "workloads.bench.solver.plan_verb",
    ("bench", "mrc"): "workloads.bench.curves.mrc_verb",
    ("bench", "function"): "workloads.bench.solver.function_verb",
    ("bench", "engine"): "workloads.bench.curves.engine_verb",
    ("bench", "fleet"): "workloads.bench.fleet_verb",
    ("experiment", "curves"): "workloads.experiment.curves",
    ("experiment", "other-policies"): "workloads.experiment.other_policies",
    ("experiment", "all"): "workloads.experiment.everything.command",
    ("experiment", "commands"): "workloads.experiment.commands.command",
    ("experiment", "attacks"): "workloads.experiment.attacks.command",
    ("experiment", "faults"): "workloads.experiment.faults.command",
    ("experiment", "fuzz"): "workloads.experiment.fuzz.command",
    ("experiment", "gain"): "workloads.experiment.gain.command",
    ("experiment", "real-gain"): "workloads.experiment.real_gain.command",
    ("experiment", "resident"): "workloads.experiment.resident",
    ("experiment", "shrink"): "workloads.experiment.shrink.command",
    ("experiment", "soak"): "workloads.experiment.soak",
    **{("experiment", name): module for name, module in STUDIES.items()},
}

_OWN_PACKAGES = {"workloads", "sidecar", "solver_lambda", "infra"}


def main(arguments: Sequence[str]) -> int:
    """Run one verb; its exit code. Only the verb's own module is imported."""
    words = next((verb for verb in VERBS if tuple(arguments[: len(verb)]) == verb), None)
    if words is None:
        asked_for_help = bool({"-h", "--help"} & set(arguments))
        usage = "\n".join(f"  python -m workloads {' '.join(verb)}" for verb in VERBS)
        print(
            f"usage (each has --help):\n{usage}", file=sys.stdout if asked_for_help else sys.stderr
        )
        return 0 if asked_for_help else 2
    try:
        return _run(words, arguments[len(words) :])
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in _OWN_PACKAGES:
            raise
        say(
            f"python -m workloads: the Python package {package!r} is missing: run 'make setup' and "
            "use .venv/bin/python, or install the clone with its extra 'workloads'"
        )
        return 2


def _run(words: tuple[str, ...], options: Sequence[str]) -> int:
    module = verb_of(importlib.import_module(VERBS[words]))
    parser = argparse.ArgumentParser(
        prog=f"python -m workloads {' '.join(words)}", description=module.HELP
    )
    module.add_arguments(parser)
    return int(module.run(parser.parse_args(options)))


def verb_of(module: Any) -> Any:
    """Return what has HELP, add_arguments and run."""
    if not hasattr(module, "STUDY"):
        return module
    from workloads.experiment.study_verb import StudyVerb

    return StudyVerb(module.STUDY)


def _main() -> int:
    # What was started is ended, and what was written is whole.
    interrupted = unwind_when_interrupted()
    try:
        return main(sys.argv[1:])
    except KeyboardInterrupt:
        # A process of a pool passes on its own.
        return 128 + (interrupted or [signal.SIGINT])[0]


if __name__ == "__main__":
    sys.exit(_main())

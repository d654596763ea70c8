"""Answers an observation's document with a plan, wherever the two travel.

What the function logs: one JSON line for each thing, on stdout.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Mapping

from solver_lambda.documents.observation import Observation
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.documents.planning_settings import METHODS
from solver_lambda.documents.reader import DocumentError, shown
from solver_lambda.planning.planner import make_plan


def log_plan(plan: AdaptationPlan, written: bool) -> None:
    """Log what was decided; ``written`` is false where another run had written the plan before."""
    log_event("plan" if written else "plan_was_there", **plan_fields(plan))


def plan_fields(plan: AdaptationPlan, most_servers: int | None = None) -> dict[str, object]:
    """Return what the log has of a plan, with the first servers only where there are more than so
    many."""
    told = plan.servers[:most_servers]
    left_out = len(plan.servers) - len(told)
    return {
        "node": plan.node,
        "cycle": plan.cycle,
        "decision": plan.decision,
        "reason": plan.reason,
        "method": plan.method,
        "optimality_gap": plan.optimality_gap,
        "mean_access_time_before_seconds": plan.mean_access_time_before_seconds,
        "mean_access_time_seconds": plan.mean_access_time_seconds,
        "maxmemory_bytes": {
            server.name: [server.maxmemory_before_bytes, server.maxmemory_bytes] for server in told
        },
        **({"servers_left_out": left_out} if left_out else {}),
        "run_seconds": plan.run_seconds,
        "run_memory_bytes": plan.run_memory_bytes,
    }


def log_event(event: str, **fields: object) -> None:
    """Write one JSON line on stdout, where FaaS and containers collect logs."""
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


DEFAULT_MAX_AGE_SECONDS = 900.0
MAX_CLOCK_SKEW_SECONDS = 300.0


class RefusedError(RuntimeError):
    """An observation gets no plan; the message is the one-sentence reason."""


def read_observation(text: bytes, source: str, environment: Mapping[str, str]) -> Observation:
    """Return the observation, young enough to be answered and with this function's solver.

    ``environment`` may have SPREDS_MAX_AGE_SECONDS (of an observation, 900) and SPREDS_SOLVER. With
    ``dirichlet`` or ``hill_climbing`` it overrides the observation's method, so that the two
    solvers can be two functions as in the thesis. ``source`` names the document in messages.

    Raises:
        DocumentError: it is not an observation.
        RefusedError: it is too old, or from the future, or the environment is wrong.
    """
    observation = Observation.loads(text, source)
    max_age = _max_age_seconds(environment)
    age = time.time() - observation.made_at_seconds
    if not -MAX_CLOCK_SKEW_SECONDS <= age <= max_age:
        raise RefusedError(
            f"{source}: made_at_seconds is {age:.0f} seconds ago, and must be between "
            f"-{MAX_CLOCK_SKEW_SECONDS:.0f} and {max_age:.0f}"
        )
    return _with_own_solver(observation, environment)


def plan_for(text: bytes, source: str, environment: Mapping[str, str]) -> AdaptationPlan:
    """Return the plan for an observation's document; nothing is stored or logged.

    ``environment`` as in ``read_observation``.

    Raises:
        RefusedError: no plan was made, with the reason.
    """
    try:
        observation = read_observation(text, source, environment)
        return make_plan(observation, now_seconds=time.time())
    except DocumentError as error:
        raise RefusedError(str(error)) from error


def answer_document(text: bytes, source: str, environment: Mapping[str, str]) -> bytes:
    """Return the plan's document, or a refusal, each with a line in the log; otherwise as
    ``plan_for``."""
    try:
        plan = plan_for(text, source, environment)
    except RefusedError as error:
        log_event("refused", source=source, reason=str(error))
        raise
    log_plan(plan, written=True)
    return plan.dumps()


def _max_age_seconds(environment: Mapping[str, str]) -> float:
    text = environment.get("SPREDS_MAX_AGE_SECONDS") or str(DEFAULT_MAX_AGE_SECONDS)
    try:
        return float(text)
    except ValueError as error:
        raise RefusedError(
            f"the environment variable SPREDS_MAX_AGE_SECONDS must be a number, not {shown(text)}"
        ) from error


def _with_own_solver(observation: Observation, environment: Mapping[str, str]) -> Observation:
    solver = environment.get("SPREDS_SOLVER", "auto")
    if solver not in METHODS:
        raise RefusedError(
            f"the environment variable SPREDS_SOLVER must be one of {', '.join(METHODS)}, "
            f"not {solver!r}"
        )
    if solver == "auto":
        return observation
    planning = dataclasses.replace(observation.planning, method=solver)
    return dataclasses.replace(observation, planning=planning)

"""The function's entry: S3 tells of new observations, each is answered with one plan."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_plus

from solver_lambda.documents.keys import parse_observation_key, plan_key
from solver_lambda.documents.observation import MAX_OBSERVATION_BYTES, Observation
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.documents.planning_settings import METHODS
from solver_lambda.documents.reader import DocumentError, Fields, shown
from solver_lambda.function.object_store import ObjectStore, ObjectStoreError
from solver_lambda.planning.planner import make_plan

DEFAULT_MAX_AGE_SECONDS = 900.0
MAX_CLOCK_SKEW_SECONDS = 300.0


class RefusedError(RuntimeError):
    """An observation gets no plan; the message is the one-sentence reason.

    Raised out of the function, so that the event goes to the on-failure destination.
    """


def handler(event: object, context: object) -> dict[str, Any]:  # noqa: ARG001
    """Answer each observation that an S3 event tells of.

    S3 delivers at least once. A plan is written only if its key is free, so a repeated event
    changes nothing and announces nothing. S3's test event is ignored.

    Returns:
        ``{"plans": [key, ...]}``: the plans of the observations, new or there before.

    Raises:
        RefusedError: for the first observation that got no plan, after all have been tried.
    """
    if isinstance(event, dict) and event.get("Event") == "s3:TestEvent":
        _log("test_event")
        return {"plans": []}
    plans, refusals = [], []
    for bucket, key in _records(event):
        try:
            plans.append(answer(bucket, key))
        except RefusedError as error:
            refusals.append(error)
    if refusals:
        raise refusals[0]
    return {"plans": plans}


def answer(bucket: str, key: str, environment: Mapping[str, str] = os.environ) -> str:
    """Read one observation, make its plan and write it; the plan's key.

    ``environment`` has SPREDS_OBSERVATIONS_BUCKET (the only bucket to read from),
    SPREDS_PLANS_BUCKET and, optionally, SPREDS_MAX_AGE_SECONDS (of an observation, 900) and
    SPREDS_SOLVER (``dirichlet`` or ``hill_climbing`` overrides the observation's method, so that
    the two solvers can be two functions as in the thesis).

    Raises:
        RefusedError: no plan was made, with the reason.
    """
    try:
        observation = _read(bucket, key, environment)
        plan = make_plan(_with_own_solver(observation, environment), now_seconds=time.time())
        written_to = plan_key(plan.node, plan.cycle)
        written = ObjectStore(environment).put_new(
            _setting(environment, "SPREDS_PLANS_BUCKET"), written_to, plan.dumps()
        )
    except (DocumentError, ObjectStoreError, RefusedError) as error:
        _log("refused", bucket=bucket, key=key, reason=str(error))
        raise RefusedError(str(error)) from error
    log_plan(plan, written)
    return written_to


def _read(bucket: str, key: str, environment: Mapping[str, str]) -> Observation:
    """Raises DocumentError, ObjectStoreError or RefusedError."""
    source = f"s3://{bucket}/{key}"
    expected = _setting(environment, "SPREDS_OBSERVATIONS_BUCKET")
    if bucket != expected:
        raise RefusedError(f"{source}: observations are read from bucket {expected!r} only")
    node, cycle = parse_observation_key(key)
    text = ObjectStore(environment).get(bucket, key, max_bytes=MAX_OBSERVATION_BYTES)
    observation = Observation.loads(text, source)
    if (observation.node, observation.cycle) != (node, cycle):
        raise RefusedError(
            f"{source}: the document is of node {observation.node!r} and cycle "
            f"{observation.cycle}, not of those in its key"
        )
    max_age = _max_age_seconds(environment)
    age = time.time() - observation.made_at_seconds
    if not -MAX_CLOCK_SKEW_SECONDS <= age <= max_age:
        raise RefusedError(
            f"{source}: made_at_seconds is {age:.0f} seconds ago, and must be between "
            f"-{MAX_CLOCK_SKEW_SECONDS:.0f} and {max_age:.0f}"
        )
    return observation


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


def _setting(environment: Mapping[str, str], name: str) -> str:
    if not environment.get(name):
        raise RefusedError(f"the environment variable {name} is not set")
    return environment[name]


def _records(event: object) -> list[tuple[str, str]]:
    """Bucket and key of each record; S3 encodes keys as in a form."""
    try:
        return [
            (s3.table("bucket").text("name"), unquote_plus(s3.table("object").text("key")))
            for record in Fields(event, "the event").tables("Records")
            for s3 in [record.table("s3")]
        ]
    except DocumentError as error:
        _log("refused", reason=str(error))
        raise RefusedError(f"the event is not one of S3: {error}") from error


def log_plan(plan: AdaptationPlan, written: bool) -> None:
    """Log what was decided; ``written`` is false where another run had written the plan before."""
    _log(
        "plan" if written else "plan_was_there",
        node=plan.node,
        cycle=plan.cycle,
        decision=plan.decision,
        reason=plan.reason,
        method=plan.method,
        optimality_gap=plan.optimality_gap,
        mean_access_time_before_seconds=plan.mean_access_time_before_seconds,
        mean_access_time_seconds=plan.mean_access_time_seconds,
        maxmemory_bytes={
            server.name: [server.maxmemory_before_bytes, server.maxmemory_bytes]
            for server in plan.servers
        },
        run_seconds=plan.run_seconds,
        run_memory_bytes=plan.run_memory_bytes,
    )


def _log(event: str, **fields: object) -> None:
    """One JSON line on stdout, where Lambda and Fargate collect logs."""
    print(json.dumps({"event": event, **fields}), flush=True)

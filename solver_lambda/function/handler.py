"""The function begins here: S3, or SNS for it, tells of new observations; each gets one plan."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote_plus

from solver_lambda.documents.json_text import parse_json
from solver_lambda.documents.keys import parse_observation_key, plan_key
from solver_lambda.documents.observation import MAX_OBSERVATION_BYTES, Observation
from solver_lambda.documents.reader import DocumentError, Fields, shown
from solver_lambda.function.answering import RefusedError, log_event, log_plan, read_observation
from solver_lambda.function.object_store import ObjectStore, ObjectStoreError
from solver_lambda.planning.planner import make_plan

MAX_MESSAGE_BYTES = 256 << 10  # what SNS takes


def handler(event: object, context: object) -> dict[str, Any]:  # noqa: ARG001
    """Answer each observation that an event tells of, S3's own or one that SNS hands on.

    S3 delivers at least once. A plan is written only if its key is free, so a repeated event
    changes nothing and announces nothing. S3's test event is ignored.

    Returns:
        ``{"plans": [key, ...]}``: the plans of the observations, new or there before.

    Raises:
        RefusedError: for the first observation that got no plan, after all have been tried; out
            of the function, so that the event goes to the on-failure destination.
    """
    plans, refusals = [], []
    for bucket, key in _told(event):
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
    SPREDS_PLANS_BUCKET and what ``read_observation`` takes.

    Raises:
        RefusedError: no plan was made, with the reason.
    """
    try:
        observation = _read(bucket, key, environment)
        plan = make_plan(observation, now_seconds=time.time())
        written_to = plan_key(plan.node, plan.cycle)
        written = ObjectStore(environment).put_new(
            _setting(environment, "SPREDS_PLANS_BUCKET"), written_to, plan.dumps()
        )
    except (DocumentError, ObjectStoreError, RefusedError) as error:
        log_event("refused", bucket=bucket, key=key, reason=str(error))
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
    observation = read_observation(text, source, environment)
    if (observation.node, observation.cycle) != (node, cycle):
        raise RefusedError(
            f"{source}: the document is of node {observation.node!r} and cycle "
            f"{observation.cycle}, not of those in its key"
        )
    return observation


def _setting(environment: Mapping[str, str], name: str) -> str:
    if not environment.get(name):
        raise RefusedError(f"the environment variable {name} is not set")
    return environment[name]


def _told(event: object) -> list[tuple[str, str]]:
    """Return bucket and key of each record. Raises RefusedError."""
    try:
        return [found for inner in _s3_events(event) for found in _records(inner)]
    except DocumentError as error:
        log_event("refused", reason=str(error))
        raise RefusedError(f"the event is not one of S3: {error}") from error


def _s3_events(event: object) -> Iterator[Fields]:
    """Yield the event itself, or those in the messages that SNS hands on."""
    fields = Fields(event, "the event")
    messages = [
        record.table("Sns")
        for record in (fields.tables("Records") if fields.has("Records") else ())
        if record.has("Sns")
    ]
    if not messages:
        yield fields
    for message in messages:
        text = message.value("Message")
        if not isinstance(text, str):
            raise message.refuse("Message", f"must be a text, not {shown(text)}")
        yield parse_json(text, "the event's message", MAX_MESSAGE_BYTES)


def _records(event: Fields) -> list[tuple[str, str]]:
    """Return bucket and key of each record; S3 encodes keys as in a form."""
    if event.has("Event") and event.value("Event") == "s3:TestEvent":
        log_event("test_event")
        return []
    return [
        (s3.table("bucket").text("name"), unquote_plus(s3.table("object").text("key")))
        for record in event.tables("Records")
        for s3 in [record.table("s3")]
    ]

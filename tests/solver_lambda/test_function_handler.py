"""The function, from an S3 event to a plan in the bucket or a refusal with its reason."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from typing import Any

import pytest

from solver_lambda.documents.keys import observation_key, plan_key
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.function.answering import RefusedError
from solver_lambda.function.handler import handler


def s3_event(*keys: str, bucket: str = "observations") -> dict[str, Any]:
    return {
        "Records": [
            {"eventSource": "aws:s3", "s3": {"bucket": {"name": bucket}, "object": {"key": key}}}
            for key in keys
        ]
    }


@pytest.fixture(autouse=True)
def _environment(s3_environment, monkeypatch):
    for name, value in s3_environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def observation(make_observation):
    return make_observation(made_at_seconds=time.time())


def put(s3, observation, key: str | None = None) -> str:
    key = key or observation_key(observation.node, observation.cycle)
    s3.put_object(Bucket="observations", Key=key, Body=observation.dumps())
    return key


def plans_in(s3) -> list[str]:
    return [item["Key"] for item in s3.list_objects_v2(Bucket="plans").get("Contents", [])]


def test_an_observation_is_answered_with_the_plan_of_its_cycle(s3, observation, capsys):
    key = put(s3, observation)
    answer = plan_key(observation.node, observation.cycle)
    assert handler(s3_event(key.replace("-", "%2D")), None) == {"plans": [answer]}
    plan = AdaptationPlan.loads(s3.get_object(Bucket="plans", Key=answer)["Body"].read(), answer)
    assert (plan.node, plan.cycle) == (observation.node, observation.cycle)
    assert plan.observation_made_at_seconds == observation.made_at_seconds
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in lines] == ["plan"]
    assert lines[0]["decision"] == plan.decision


def test_a_repeated_event_leaves_the_plan_as_it_is(s3, observation, capsys):
    key = put(s3, observation)
    first = handler(s3_event(key), None)
    version = s3.head_object(Bucket="plans", Key=first["plans"][0])["ETag"]
    assert handler(s3_event(key), None) == first
    assert s3.head_object(Bucket="plans", Key=first["plans"][0])["ETag"] == version
    events = [json.loads(line)["event"] for line in capsys.readouterr().out.splitlines()]
    assert events == ["plan", "plan_was_there"]


def test_the_test_event_of_s3_is_ignored(s3):
    event = {"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "observations"}
    assert handler(event, None) == {"plans": []}
    assert plans_in(s3) == []


def handed_on(*events: dict[str, Any]) -> dict[str, Any]:
    """Hand on events as SNS calls a function."""
    return {
        "Records": [
            {
                "EventSource": "aws:sns",
                "Sns": {"Type": "Notification", "Message": json.dumps(event)},
            }
            for event in events
        ]
    }


def test_an_event_that_sns_hands_on_is_answered_as_one_of_s3(s3, observation):
    later = dataclasses.replace(observation, cycle=observation.cycle + 1)
    events = [s3_event(put(s3, observation)), {"Event": "s3:TestEvent"}, s3_event(put(s3, later))]
    answer = handler(handed_on(*events), None)
    expected = [plan_key(one.node, one.cycle) for one in (observation, later)]
    assert answer == {"plans": expected}
    assert plans_in(s3) == expected


@pytest.mark.parametrize(
    "message", ["{", "[]", "{}", None, "x" * 300_000, '{"Records": [{"Sns": 1}]}']
)
def test_a_message_that_is_no_event_of_s3_is_refused(message, capsys):
    said = refused({"Records": [{"Sns": {"Message": message}}]}, capsys)
    assert said.startswith("the event is not one of S3: ")
    assert len(said) < 500


def refused(event: dict[str, Any], capsys) -> str:
    """The reason of the refusal, which must also be in the log."""
    with pytest.raises(RefusedError) as error:
        handler(event, None)
    line = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert line["event"] == "refused"
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_malformed_observation_is_refused(s3, observation, capsys):
    key = observation_key(observation.node, observation.cycle)
    s3.put_object(Bucket="observations", Key=key, Body=b'{"kind": "poison"}')
    assert "kind must be one of spreds.observation, not 'poison'" in refused(s3_event(key), capsys)
    assert plans_in(s3) == []


@pytest.mark.parametrize("age_seconds", [3600, -3600])
def test_an_observation_of_another_time_is_refused(s3, observation, capsys, age_seconds):
    old = dataclasses.replace(observation, made_at_seconds=time.time() - age_seconds)
    assert "made_at_seconds" in refused(s3_event(put(s3, old)), capsys)
    assert plans_in(s3) == []


def test_the_age_that_is_too_old_can_be_set(s3, observation, monkeypatch):
    monkeypatch.setenv("SPREDS_MAX_AGE_SECONDS", "7200")
    old = dataclasses.replace(observation, made_at_seconds=time.time() - 3600)
    assert handler(s3_event(put(s3, old)), None)["plans"]


@pytest.mark.parametrize(("node", "cycle"), [("node-2", 7), ("node-1", 8)])
def test_an_observation_under_a_foreign_key_is_refused(s3, observation, capsys, node, cycle):
    key = put(s3, observation, observation_key(node, cycle))
    assert "node 'node-1' and cycle 7" in refused(s3_event(key), capsys)
    assert plans_in(s3) == []


def test_another_bucket_is_refused(capsys):
    reason = refused(s3_event(observation_key("node-1", 7), bucket="evil"), capsys)
    assert "bucket 'observations' only" in reason


@pytest.mark.parametrize("key", ["settings/node-1/a.json", "observations/../x.json", "other"])
def test_a_key_of_something_else_is_refused(capsys, key):
    assert "not the key of an observation" in refused(s3_event(key), capsys)


def test_a_missing_observation_is_refused(capsys):
    assert "404" in refused(s3_event(observation_key("node-1", 7)), capsys)


@pytest.mark.parametrize("event", [{}, {"Records": [{}]}, {"Records": 5}])
def test_an_event_that_is_not_of_s3_is_refused(event, capsys):
    assert "not one of S3" in refused(event, capsys)


@pytest.mark.parametrize("name", ["SPREDS_OBSERVATIONS_BUCKET", "SPREDS_PLANS_BUCKET"])
def test_a_function_that_is_not_told_its_buckets_says_so(
    s3, observation, capsys, monkeypatch, name
):
    monkeypatch.delenv(name)
    assert f"{name} is not set" in refused(s3_event(put(s3, observation)), capsys)
    assert plans_in(s3) == []


@pytest.mark.parametrize(
    ("own", "asked", "ran"),
    [
        ("dirichlet", "hill_climbing", "dirichlet"),
        ("hill_climbing", "dirichlet", "hill_climbing"),
        ("auto", "hill_climbing", "hill_climbing"),
        (None, "dirichlet", "dirichlet"),
    ],
)
def test_a_function_may_have_a_solver_of_its_own(
    s3, make_observation, monkeypatch, own, asked, ran
):
    if own is not None:
        monkeypatch.setenv("SPREDS_SOLVER", own)
    observation = make_observation(made_at_seconds=time.time(), method=asked, certify=False)
    (answer,) = handler(s3_event(put(s3, observation)), None)["plans"]
    plan = AdaptationPlan.loads(s3.get_object(Bucket="plans", Key=answer)["Body"].read(), answer)
    assert plan.method == ran


def test_a_solver_that_there_is_not_is_refused(s3, observation, capsys, monkeypatch):
    monkeypatch.setenv("SPREDS_SOLVER", "simplex")
    reason = refused(s3_event(put(s3, observation)), capsys)
    assert "SPREDS_SOLVER must be one of auto, dirichlet, hill_climbing, not 'simplex'" in reason
    assert plans_in(s3) == []


def test_a_refusal_does_not_keep_the_other_records_from_their_plans(s3, observation):
    good = put(s3, observation)
    with pytest.raises(RefusedError, match="404"):
        handler(s3_event(observation_key("node-1", 6), good), None)
    assert plans_in(s3) == [plan_key("node-1", 7)]


def run_once(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "solver_lambda", *arguments], capture_output=True, text=True
    )


def test_a_container_answers_one_observation_and_exits(s3, observation):
    done = run_once("observations", put(s3, observation))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["event"] == "plan"
    assert plans_in(s3) == [plan_key("node-1", 7)]


def test_a_container_exits_with_1_and_the_reason():
    done = run_once("observations", observation_key("node-1", 9))
    assert done.returncode == 1
    assert "404" in done.stderr


def test_a_container_called_wrongly_exits_with_2():
    done = run_once("observations")
    assert done.returncode == 2
    assert "Usage" in done.stderr

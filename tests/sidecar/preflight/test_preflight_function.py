"""``spreds check --connect`` looks at the function that observations start, as far as it may."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from sidecar.config.node import load_config
from sidecar.preflight.finding import Finding
from sidecar.preflight.solver_function import check_function
from solver_lambda.documents.keys import plan_key
from tests.sidecar.answering import answering
from tests.sidecar.fixtures import WriteNode
from tests.sidecar.played_function import by_queue
from tests.sidecar.signed_cloud import SignedCloud
from tests.sidecar.started_function import StartedFunction, started_function

Found = Callable[[], list[Finding]]
# The cloud is that of other tests too, and theirs may leave plans of their node.
NODE = "asks-of-its-function"


@pytest.fixture
def found(cloud: SignedCloud, write_node: WriteNode) -> Found:
    config = load_config(write_node({"a": "redis://127.0.0.1:1"}, more=by_queue(cloud)))
    chosen = config.controller.cloud
    assert chosen is not None
    return lambda: list(check_function(NODE, chosen))


@pytest.fixture
def function(cloud: SignedCloud) -> Iterator[StartedFunction]:
    with started_function(cloud) as started:
        yield started


def test_a_function_that_runs_is_told_with_its_runs(
    cloud: SignedCloud, found: Found, function: StartedFunction
) -> None:
    (ok,) = found()
    assert (ok.level, ok.where) == ("advice", "controller, function")
    assert ok.what == f"{function.name} may run; no run of it is counted in the last hour"
    assert f"read its log: aws logs tail /aws/lambda/{function.name}" in ok.remedy
    function.started_by_topic(cloud.sns.create_topic(Name="observed")["TopicArn"], "observations/")
    assert found() == [ok]


def test_where_no_runs_are_counted_its_plans_are(
    cloud: SignedCloud, found: Found, function: StartedFunction
) -> None:
    now = int(time.time())
    keys = [plan_key(NODE, cycle) for cycle in (now - 7200, now - 60, now - 3)]
    for key in (*keys, plan_key("n2", now)):
        cloud.s3.put_object(Bucket="plans", Key=key, Body=b"{}")
    (ok,) = found()
    for key in keys:
        cloud.s3.delete_object(Bucket="plans", Key=key)
    assert ok.level == "ok"
    assert ok.what == f"{function.name} may run; plans of {NODE} in the last hour: 2"


def test_observations_that_start_nothing_are_a_problem(
    found: Found, function: StartedFunction
) -> None:
    for told in (function.notify, lambda: function.started_by("observations/another")):
        told()
        (problem,) = found()
        assert problem.level == "problem"
        assert f"observations of {NODE} in observations start no function" in problem.what
        assert "a deployment alone leaves what was changed by hand" in problem.remedy


def test_a_task_is_started_by_another_service_and_named(
    cloud: SignedCloud, write_node: WriteNode
) -> None:
    body = b"<NotificationConfiguration><EventBridgeConfiguration/></NotificationConfiguration>"
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with answering(head + body) as url:
        more = by_queue(cloud).replace(cloud.endpoint_url, url.partition("/plans")[0])
        config = load_config(write_node({"a": "redis://127.0.0.1:1"}, more=more))
        assert config.controller.cloud is not None
        (ok,) = check_function(NODE, config.controller.cloud)
    assert (ok.level, "starts a task by EventBridge" in ok.what) == ("ok", True)


def test_a_function_that_is_gone_stopped_or_failing_is_a_problem(
    found: Found, function: StartedFunction
) -> None:
    name = function.name
    function.client.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=0)
    (problem,) = found()
    assert f"{name} may not run: its reserved concurrency is 0" in problem.what
    function.client.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=2)
    for metric, value in (("Invocations", 5), ("Errors", 3), ("Throttles", 1)):
        function.count(metric, value)
    (problem,) = found()
    assert problem.what == (
        f"{name}: of 5 runs in the last hour 3 failed, and 1 were refused for want of concurrency"
    )
    assert f"aws logs tail /aws/lambda/{name}" in problem.remedy
    function.started_by("observations/", function.arn.replace(name, "gone"))
    (problem,) = found()
    assert problem.what == "gone does not exist, so no plan will come"


def test_what_failed_before_it_was_mended_is_told_and_no_problem(
    found: Found, function: StartedFunction
) -> None:
    function.count("Invocations", 4, minutes_ago=30)
    function.count("Throttles", 4, minutes_ago=30)
    assert [one.level for one in found()] == ["problem"]
    function.count("Invocations", 2, minutes_ago=10)
    (ok,) = found()
    assert ok.level == "ok"
    assert "of 6 runs in the last hour 0 failed, and 4 were refused for want of conc" in ok.what
    assert "; none since " in ok.what


def test_plans_since_then_tell_that_it_is_over_too(
    cloud: SignedCloud, found: Found, function: StartedFunction
) -> None:
    """An emulator counted no run that went well, and the problem stayed for an hour."""
    function.count("Invocations", 2, minutes_ago=30)
    function.count("Throttles", 2, minutes_ago=30)
    key = plan_key(NODE, int(time.time()) - 60)
    cloud.s3.put_object(Bucket="plans", Key=key, Body=b"{}")
    assert [one.level for one in found()] == ["ok"]
    cloud.s3.delete_object(Bucket="plans", Key=key)
    assert [one.level for one in found()] == ["problem"]


def test_observations_that_were_refused_are_counted(
    cloud: SignedCloud, found: Found, function: StartedFunction
) -> None:
    url = cloud.sqs.create_queue(QueueName="refused")["QueueUrl"]
    told = cloud.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    function.client.update_function_event_invoke_config(
        FunctionName=function.name,
        DestinationConfig={"OnFailure": {"Destination": told["Attributes"]["QueueArn"]}},
    )
    assert [one.level for one in found()] == ["advice", "ok"]
    cloud.sqs.send_message(QueueUrl=url, MessageBody="an observation")
    (problem,) = [one for one in found() if one.level == "problem"]
    assert "1 observations of this installation were refused, and wait in refused" in problem.what


def test_what_may_not_be_seen_is_named(
    cloud: SignedCloud, found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloud, "forbidden", ("/observations",))
    (ok,) = found()
    assert ok.level == "ok"
    assert "what observations start, and how it fares, may not be seen with these righ" in ok.what

"""Checks the function that a node's observations start: whether there is one, may run, and fared
well.

A node's own rights do not reach so far, an operator's do: what may not be seen is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from sidecar.config.controller_config import CloudConfig
from sidecar.preflight.finding import Finding
from solver_lambda.documents.keys import OBSERVATIONS_PREFIX, PLANS_PREFIX, plan_key

_WHERE = "controller, function"
# Each question may take so long.
LIMIT_SECONDS = 5.0
_FORBIDDEN = ("AccessDenied", "AccessDeniedException", "AuthorizationError", "403")
_ABSENT = ("ResourceNotFoundException", "404", "NotFound")
_LOOKED_BACK, _PERIOD = timedelta(hours=1), timedelta(minutes=5)
# Times are told in whole seconds.
_UNDER_WAY = timedelta(seconds=60)
DEPLOY = (
    "put back what 'cdk diff --all' and 'cdk drift' show: a deployment alone leaves what was "
    "changed by hand as it is"
)
UNSEEN = "may not be seen with these rights: ask again as an operator of the account"


def check_function(node: str, cloud: CloudConfig) -> Iterator[Finding]:
    """Yield what an observation of this node would start, and what came of the last hour's runs.

    Raises:
        DocumentError: there is no such region.
    """
    from sidecar.storage.aws import aws_errors

    try:
        yield from _functions(node, cloud)
    except aws_errors() as error:
        if code_of(error) in _FORBIDDEN:
            yield Finding("ok", _WHERE, f"what observations start, and how it fares, {UNSEEN}")
        else:
            yield Finding("advice", _WHERE, f"what observations start is not known: {error}")


def _functions(node: str, cloud: CloudConfig) -> Iterator[Finding]:
    bucket = cloud.observations_bucket
    owner = {"ExpectedBucketOwner": cloud.account_id} if cloud.account_id else {}
    told = _client("s3", cloud).get_bucket_notification_configuration(Bucket=bucket, **owner)
    if "EventBridgeConfiguration" in told:
        yield Finding("ok", _WHERE, f"{bucket} starts a task by EventBridge, not looked at")
        return
    functions = _functions_of(node, told, cloud)
    if not functions:
        what = f"observations of {node} in {bucket} start no function: no plan will come"
        yield Finding("problem", _WHERE, what, DEPLOY)
    for function in functions:
        yield from _state(function, node, cloud)


def _functions_of(node: str, told: Mapping[str, Any], cloud: CloudConfig) -> list[str]:
    """Name the functions that S3 starts, and those that subscribe to the topics that it tells."""
    own = f"{OBSERVATIONS_PREFIX}/{node}/"
    found = [
        one["LambdaFunctionArn"]
        for one in told.get("LambdaFunctionConfigurations", ())
        if is_of(own, one)
    ]
    topics = [one["TopicArn"] for one in told.get("TopicConfigurations", ()) if is_of(own, one)]
    for topic in topics:
        page = _client("sns", cloud).list_subscriptions_by_topic(TopicArn=topic)
        found += [one["Endpoint"] for one in page["Subscriptions"] if one["Protocol"] == "lambda"]
    return [arn.partition(":function:")[2].partition(":")[0] for arn in found]


def is_of(folder: str, notification: Mapping[str, Any]) -> bool:
    """Whether a document in this folder of a bucket is told."""
    rules = notification.get("Filter", {}).get("Key", {}).get("FilterRules", ())
    prefixes = [rule["Value"] for rule in rules if rule["Name"].lower() == "prefix"]
    return all(folder.startswith(prefix) for prefix in prefixes)


def _state(name: str, node: str, cloud: CloudConfig) -> Iterator[Finding]:
    """Whether it may run, and how its runs ended."""
    from sidecar.storage.aws import aws_errors

    functions = _client("lambda", cloud)
    try:
        state = functions.get_function_configuration(FunctionName=name)
    except aws_errors() as error:
        if code_of(error) not in _ABSENT:
            raise
        yield Finding("problem", _WHERE, f"{name} does not exist, so no plan will come", DEPLOY)
        return
    if state.get("State", "Active") not in ("Active", "Inactive"):  # the latter sleeps
        why = state.get("StateReason", "AWS says no reason")
        yield Finding("problem", _WHERE, f"{name} is in state {state['State']}: {why}", DEPLOY)
        return
    concurrency = functions.get_function_concurrency(FunctionName=name)
    if concurrency.get("ReservedConcurrentExecutions") == 0:
        what = f"{name} may not run: its reserved concurrency is 0"
        yield Finding("problem", _WHERE, what, "somebody stopped it: give it its concurrency back")
        return
    yield _runs(name, node, cloud)
    yield from _refused(name, functions, cloud)


def _runs(name: str, node: str, cloud: CloudConfig) -> Finding:
    """Judge the function by its metrics of the last hour, or by what it planned. What is over for a
    while is none of the present."""
    metrics = _client("cloudwatch", cloud)
    runs, errors, throttles = (
        _counts(name, metric, metrics) for metric in ("Invocations", "Errors", "Throttles")
    )
    if not runs:
        if plans := _plans(node, cloud, datetime.now(UTC) - _LOOKED_BACK):  # of an emulator
            what = f"{name} may run; plans of {node} in the last hour: {plans}"
            return Finding("ok", _WHERE, what)
        what = f"{name} may run; no run of it is counted in the last hour"
        read = f"if observations were put since, read its log: aws logs tail /aws/lambda/{name}"
        return Finding("advice", _WHERE, what, read)
    count = f"{sum(runs.values()):.0f} runs in the last hour"
    bad = {at for counts in (errors, throttles) for at, number in counts.items() if number}
    if not bad:
        return Finding("ok", _WHERE, f"{name} may run; {count}, none failed")
    what = (
        f"{name}: of {count} {sum(errors.values()):.0f} failed, and "
        f"{sum(throttles.values()):.0f} were refused for want of concurrency"
    )
    if max(runs) > max(bad) or _plans(node, cloud, max(bad) + _PERIOD):
        since = max(bad).astimezone()
        return Finding("ok", _WHERE, f"{what}; none since {since:%H:%M}")
    log = f"read its log: aws logs tail /aws/lambda/{name} --since 1h"
    return Finding("problem", _WHERE, what, log)


def _plans(node: str, cloud: CloudConfig, since: datetime) -> int:
    """Count the plans since then in their bucket, as far as they may be seen."""
    from sidecar.storage.aws import aws_errors

    owner = {"ExpectedBucketOwner": cloud.account_id} if cloud.account_id else {}
    try:
        told = _client("s3", cloud).list_objects_v2(
            Bucket=cloud.plans_bucket,
            Prefix=f"{PLANS_PREFIX}/{node}/",
            StartAfter=plan_key(node, int(since.timestamp())),
            **owner,
        )
    except aws_errors() as error:
        if code_of(error) in _FORBIDDEN:
            return 0
        raise
    return int(told["KeyCount"])


def _refused(name: str, functions: Any, cloud: CloudConfig) -> Iterator[Finding]:
    """Observations that it refused, or could not answer, wait in a queue."""
    from sidecar.storage.aws import aws_errors

    told = {}
    for qualifier in ({}, {"Qualifier": "$LATEST"}):  # emulators know the second one alone
        try:
            told = functions.get_function_event_invoke_config(FunctionName=name, **qualifier)
            break
        except aws_errors() as error:
            if code_of(error) not in _ABSENT:
                raise
    arn = told.get("DestinationConfig", {}).get("OnFailure", {}).get("Destination", "")
    if ":sqs:" not in arn:
        return
    sqs, queue = _client("sqs", cloud), arn.rpartition(":")[2]
    url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
    names = ["ApproximateNumberOfMessages"]
    count = int(
        sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"][names[0]]
    )
    if count:
        what = f"{count} observations of this installation were refused, and wait in {queue}"
        yield Finding("problem", _WHERE, what, "read why in one of them, then purge the queue")
    else:
        yield Finding("ok", _WHERE, f"no observation was refused: {queue} is empty")


def _counts(name: str, metric: str, metrics: Any) -> dict[datetime, float]:
    """Return a metric's counts that were told, by the five minutes in which they were."""
    now = datetime.now(UTC)
    told = metrics.get_metric_statistics(
        Namespace="AWS/Lambda",
        MetricName=metric,
        Dimensions=[{"Name": "FunctionName", "Value": name}],
        StartTime=now - _LOOKED_BACK,
        EndTime=now + _UNDER_WAY,
        Period=int(_PERIOD.total_seconds()),
        Statistics=["Sum"],
    )
    return {point["Timestamp"]: float(point["Sum"]) for point in told["Datapoints"]}


def _client(service: str, cloud: CloudConfig) -> Any:
    from sidecar.storage.aws import client

    return client(service, cloud.region, cloud.endpoint_url, LIMIT_SECONDS)


def code_of(error: BaseException | None) -> str:
    """Return the code in AWS' answer; empty if there was none."""
    from sidecar.storage.store_s3 import error_code

    return error_code(error) if isinstance(error, Exception) else ""

"""Alarms of one cell's functions, for who wants them: each costs as much as half a node.

What all installations have are the alarms of the two dead-letter queues. These tell sooner, and of
what ends in no queue.
"""

from __future__ import annotations

from aws_cdk import Duration, aws_lambda, aws_sns
from constructs import Construct

from infra.alarms import ALARM_PERIOD, raise_alarm
from infra.costs.workload import FUNCTION_TIMEOUT_SECONDS

SLOW_SHARE = 0.8  # of the function's time limit
QUIET_HOURS = 3


def add_alarms(
    scope: Construct, *, name: str, function: aws_lambda.Function, topic: aws_sns.ITopic
) -> None:
    """Tell ``topic`` of failures, of throttling, of runs that come near the time limit, and of
    hours in which nothing was planned; ``name`` begins the alarms' names."""
    for construct_id, what, meaning, metric in (
        (
            "Errors",
            "errors",
            "The function failed: its log has a line with the reason",
            function.metric_errors(period=ALARM_PERIOD),
        ),
        (
            "Throttles",
            "throttles",
            "Lambda did not start the function: the account's concurrency is used up",
            function.metric_throttles(period=ALARM_PERIOD),
        ),
    ):
        raise_alarm(
            scope, construct_id, name=f"{name}-{what}", meaning=meaning, metric=metric, topic=topic
        )
    slow_milliseconds = 1000 * SLOW_SHARE * FUNCTION_TIMEOUT_SECONDS
    raise_alarm(
        scope,
        "Slow",
        name=f"{name}-slow",
        meaning=f"A plan took more than {slow_milliseconds / 1000:g} s, and is given up after "
        f"{FUNCTION_TIMEOUT_SECONDS} s",
        metric=function.metric_duration(period=ALARM_PERIOD, statistic="Maximum"),
        topic=topic,
        threshold=slow_milliseconds,
    )
    raise_alarm(
        scope,
        "Quiet",
        name=f"{name}-no-plans",
        meaning=f"No plan was asked for in {QUIET_HOURS} hours: no node of the cell puts "
        "observations, or S3 does not call the function",
        metric=function.metric_invocations(period=Duration.hours(1)),
        topic=topic,
        threshold=1,
        is_least=True,
        periods=QUIET_HOURS,
    )

"""Makes CloudWatch alarms, of all installations and of cells, and the topic that receives them."""

from __future__ import annotations

from aws_cdk import (
    Aws,
    Duration,
    aws_cloudwatch,
    aws_cloudwatch_actions,
    aws_iam,
    aws_lambda,
    aws_sns,
)
from constructs import Construct

from infra.costs.workload import FUNCTION_TIMEOUT_SECONDS

ALARM_PERIOD = Duration.minutes(5)
SLOW_SHARE = 0.8  # of the function's time limit
QUIET_HOURS = 3


class AlarmTopic(Construct):
    """Receives alarms; the operator subscribes an address or a pager to it."""

    def __init__(self, scope: Construct, construct_id: str, *, name: str) -> None:
        super().__init__(scope, construct_id)
        self.topic = aws_sns.Topic(
            self, "Topic", topic_name=name, signature_version="2", enforce_ssl=True
        )
        self.topic.add_to_resource_policy(
            aws_iam.PolicyStatement(
                sid="AlarmsPublish",
                actions=["sns:Publish"],
                resources=[self.topic.topic_arn],
                principals=[aws_iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
            )
        )


def raise_alarm(
    scope: Construct,
    construct_id: str,
    *,
    name: str,
    meaning: str,
    metric: aws_cloudwatch.IMetric,
    topic: aws_sns.ITopic,
    threshold: float = 0,
    is_least: bool = False,
    periods: int = 1,
) -> None:
    """Tell ``topic`` when ``metric`` is above ``threshold`` for so many of its periods; with
    ``is_least`` when it is below it, or is not there at all."""
    above = aws_cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD
    below = aws_cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD
    is_missing = aws_cloudwatch.TreatMissingData
    alarm = aws_cloudwatch.Alarm(
        scope,
        construct_id,
        alarm_name=name,
        alarm_description=meaning,
        metric=metric,
        threshold=threshold,
        comparison_operator=below if is_least else above,
        evaluation_periods=periods,
        treat_missing_data=is_missing.BREACHING if is_least else is_missing.NOT_BREACHING,
    )
    alarm.add_alarm_action(aws_cloudwatch_actions.SnsAction(topic))


def add_cell_alarms(
    scope: Construct, *, name: str, function: aws_lambda.Function, topic: aws_sns.ITopic
) -> None:
    """Add alarms of one cell's functions, which are optional: each costs as much as half a node.
    What all installations have are those of the two dead-letter queues.

    These tell ``topic`` sooner, and of what ends in no queue: of failures, of throttling, of runs
    that come near the time limit, and of hours in which nothing was planned; ``name`` begins the
    alarms' names."""
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

"""An alarm, and where alarms go."""

from __future__ import annotations

from aws_cdk import Aws, Duration, aws_cloudwatch, aws_cloudwatch_actions, aws_iam, aws_sns
from constructs import Construct

ALARM_PERIOD = Duration.minutes(5)


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

"""Dead-letter queues, the alarms that say that something is lost or late, and where they go."""

from __future__ import annotations

from aws_cdk import (
    Aws,
    Duration,
    aws_cloudwatch,
    aws_cloudwatch_actions,
    aws_iam,
    aws_sns,
    aws_sqs,
)
from constructs import Construct

ALARM_PERIOD = Duration.minutes(5)


class AlarmTopic(Construct):
    """Where alarms go: the operator subscribes an address or a pager to it."""

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
) -> None:
    """Tell ``topic`` of each five minutes in which ``metric`` is above zero."""
    alarm = aws_cloudwatch.Alarm(
        scope,
        construct_id,
        alarm_name=name,
        alarm_description=meaning,
        metric=metric,
        threshold=0,
        comparison_operator=aws_cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
        evaluation_periods=1,
        treat_missing_data=aws_cloudwatch.TreatMissingData.NOT_BREACHING,
    )
    alarm.add_alarm_action(aws_cloudwatch_actions.SnsAction(topic))


class DeadLetters(Construct):
    """Keeps what could not be handled for fourteen days; the alarm goes to ``alarm_topic``."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        meaning: str,
        alarm_topic: aws_sns.ITopic,
    ) -> None:
        super().__init__(scope, construct_id)
        self.queue = aws_sqs.Queue(
            self,
            "Queue",
            queue_name=name,
            encryption=aws_sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=Duration.days(14),
        )
        raise_alarm(
            self,
            "Alarm",
            name=name,
            meaning=meaning,
            metric=self.queue.metric_approximate_number_of_messages_visible(
                period=ALARM_PERIOD, statistic="Maximum"
            ),
            topic=alarm_topic,
        )

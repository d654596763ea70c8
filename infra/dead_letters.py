"""Dead-letter queues, the alarm that says that one is not empty, and where alarms go."""

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


class AlarmTopic(Construct):
    """Whom to tell: the operator subscribes an address or a pager to it."""

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
        alarm = aws_cloudwatch.Alarm(
            self,
            "Alarm",
            alarm_name=name,
            alarm_description=meaning,
            metric=self.queue.metric_approximate_number_of_messages_visible(
                period=Duration.minutes(5), statistic="Maximum"
            ),
            threshold=0,
            comparison_operator=aws_cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            evaluation_periods=1,
            treat_missing_data=aws_cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        alarm.add_alarm_action(aws_cloudwatch_actions.SnsAction(alarm_topic))

"""What all cells share: where alarms go, dead letters with their alarms, and the two policies.

Alarms cost by the piece, so a cell has some only where that is asked for. The observation of a
failed or throttled function ends in the queue of the refused ones. A plan that no node takes ends
in the queue of the undelivered ones. What ends in neither, because the queue itself did not take
it, has no alarm. The node says so: its sidecar counts each plan that does not come by its deadline.
"""

from __future__ import annotations

from aws_cdk import Aws, CfnOutput, Duration, Stack, aws_iam, aws_sns, aws_sqs
from constructs import Construct

from infra.stack_file import names
from infra.stack_file.configuration import Configuration
from infra.stacks.alarms import ALARM_PERIOD, AlarmTopic, raise_alarm
from infra.stacks.fleet_tables import FleetDatabase
from infra.stacks.review_exceptions import IS_A_DEAD_LETTER_QUEUE, accept
from infra.stacks.stack_environment import HERE
from infra.stacks.tagged_access import TaggedAccess


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


class SharedStack(Stack):
    """Deployed before the cells, whose nodes' queues and functions name its queues."""

    def __init__(
        self, scope: Construct, construct_id: str, *, configuration: Configuration, controller: str
    ) -> None:
        super().__init__(scope, construct_id, description="SPREDS: what its cells share")
        name = configuration.name
        self._alarms = AlarmTopic(self, "Alarms", name=names.alarms_topic(name)).topic
        TaggedAccess(
            self, "Access", name=name, documents_key_arn=configuration.account.documents_key_arn
        )
        any_cell = names.any_cell(name)
        undelivered = self._dead_letters(
            "Undelivered",
            names.undelivered_queue(name),
            "A node was not told of a plan, or refused to hear",
        )
        topics = HERE.regional_arn("sns", names.plans_topic(any_cell))
        undelivered.add_to_resource_policy(
            _may_send(undelivered, "PlanTopicsSend", "sns.amazonaws.com", topics)
        )
        if controller != "embedded":
            refused = self._dead_letters(
                "Refused", names.refused_queue(name), "The solver gave up on an observation"
            )
            if controller == "fargate":
                rules = HERE.regional_arn("events", f"rule/{any_cell}")
                refused.add_to_resource_policy(
                    _may_send(refused, "RulesSend", "events.amazonaws.com", rules)
                )
            if configuration.topics == "two":
                topics = HERE.regional_arn("sns", f"{names.observations_topic(any_cell)}*")
                refused.add_to_resource_policy(
                    _may_send(refused, "ObservationTopicsSend", "sns.amazonaws.com", topics)
                )
        if configuration.analytics:
            FleetDatabase(self, "Fleet", name=name)
        CfnOutput(self, "AlarmsTopicArn", value=self._alarms.topic_arn)

    def _dead_letters(self, construct_id: str, name: str, meaning: str) -> aws_sqs.Queue:
        queue = DeadLetters(
            self, construct_id, name=name, meaning=meaning, alarm_topic=self._alarms
        ).queue
        accept(queue, "SQS3", IS_A_DEAD_LETTER_QUEUE)
        return queue


def _may_send(
    queue: aws_sqs.IQueue, sid: str, service: str, sources: str
) -> aws_iam.PolicyStatement:
    """The cells' own senders, and nobody else through ``service``, may send to the queue."""
    return aws_iam.PolicyStatement(
        sid=sid,
        actions=["sqs:SendMessage"],
        resources=[queue.queue_arn],
        principals=[aws_iam.ServicePrincipal(service)],
        conditions={
            "ArnLike": {"aws:SourceArn": sources},
            "StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID},
        },
    )

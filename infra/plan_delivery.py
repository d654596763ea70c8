"""How plans reach one node: through its queue, or at its own listener."""

from __future__ import annotations

from aws_cdk import Aws, Duration, aws_iam, aws_sns, aws_sqs
from constructs import Construct

from infra.configuration import Node
from solver_lambda.documents.keys import PLANS_PREFIX

RECEIVES_BEFORE_DEAD_LETTER = 5


class PlanDelivery(Construct):
    """Subscribes the node to its own plans, and to no others.

    The whole signed message travels, not just its body, so that the sidecar can check who sent it
    whichever way it came. What cannot be delivered, or is received too often, goes to
    ``undelivered``. ``queue`` is ``None`` for a node that is told over HTTP.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        node: Node,
        name: str,
        topic: aws_sns.ITopic,
        undelivered: aws_sqs.IQueue,
    ) -> None:
        super().__init__(scope, construct_id)
        self.queue = None
        if node.delivery == "sqs":
            self.queue = self._queue(name, topic, undelivered)
            protocol, endpoint = "sqs", self.queue.queue_arn
        else:
            protocol, endpoint = node.public_url.partition(":")[0], node.public_url
        self.subscription = aws_sns.CfnSubscription(
            self,
            "Subscription",
            topic_arn=topic.topic_arn,
            protocol=protocol,
            endpoint=endpoint,
            filter_policy_scope="MessageBody",
            filter_policy=own_plans(node.name),
            redrive_policy={"deadLetterTargetArn": undelivered.queue_arn},
        )

    def _queue(
        self, name: str, topic: aws_sns.ITopic, undelivered: aws_sqs.IQueue
    ) -> aws_sqs.Queue:
        queue = aws_sqs.Queue(
            self,
            "Queue",
            queue_name=name,
            encryption=aws_sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            receive_message_wait_time=Duration.seconds(20),
            # An older plan is refused by the sidecar anyway: a newer one will have come.
            retention_period=Duration.days(4),
            visibility_timeout=Duration.seconds(30),
            dead_letter_queue=aws_sqs.DeadLetterQueue(
                queue=undelivered, max_receive_count=RECEIVES_BEFORE_DEAD_LETTER
            ),
        )
        queue.add_to_resource_policy(may_send(queue, topic))
        return queue


def own_plans(node: str) -> dict[str, object]:
    """Filter policy on the body of an S3 event: only the plans of ``node``."""
    return {"Records": {"s3": {"object": {"key": [{"prefix": f"{PLANS_PREFIX}/{node}/"}]}}}}


def may_send(queue: aws_sqs.IQueue, topic: aws_sns.ITopic) -> aws_iam.PolicyStatement:
    """The topic, and nobody else through SNS, may send to the queue."""
    return aws_iam.PolicyStatement(
        sid="PlanTopicSends",
        actions=["sqs:SendMessage"],
        resources=[queue.queue_arn],
        principals=[aws_iam.ServicePrincipal("sns.amazonaws.com")],
        conditions={
            "ArnEquals": {"aws:SourceArn": topic.topic_arn},
            "StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID},
        },
    )

"""How plans reach one node: through its queue, or at its own listener."""

from __future__ import annotations

from typing import Any

from aws_cdk import aws_sns, aws_sqs
from constructs import Construct

from infra.stack_file.configured_nodes import Node
from infra.stacks.stack_environment import HERE
from solver_lambda.documents.keys import PLANS_PREFIX

RECEIVES_BEFORE_DEAD_LETTER = 5
LONG_POLL_SECONDS = 20
VISIBILITY_SECONDS = 30
# An older plan is refused by the sidecar anyway: a newer one will have come.
RETENTION_SECONDS = 4 * 86_400


class PlanDelivery(Construct):
    """Subscribes the node to its own plans, and to no others.

    The whole signed message travels, not just its body, so that the sidecar can check who sent it
    whichever way it came. What cannot be delivered, or is received too often, goes to the queue
    ``undelivered_arn``. A node that is told over HTTP has no queue.

    The resources are CloudFormation's own: there may be a thousand nodes, and the library's
    constructs take several times as long.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        node: Node,
        queue_name: str,
        topic: aws_sns.ITopic,
        undelivered_arn: str,
    ) -> None:
        super().__init__(scope, construct_id)
        policy = None
        if node.delivery == "sqs":
            queue = self._queue(queue_name, undelivered_arn)
            policy = aws_sqs.CfnQueuePolicy(
                self,
                "QueuePolicy",
                queues=[queue.ref],
                policy_document=_only_from(queue.attr_arn, topic.topic_arn),
            )
            protocol, endpoint = "sqs", queue.attr_arn
        else:
            protocol, endpoint = node.public_url.partition(":")[0], node.public_url
        subscription = aws_sns.CfnSubscription(
            self,
            "Subscription",
            topic_arn=topic.topic_arn,
            protocol=protocol,
            endpoint=endpoint,
            filter_policy_scope="MessageBody",
            filter_policy=own_plans(node.name),
            redrive_policy={"deadLetterTargetArn": undelivered_arn},
        )
        if policy is not None:
            # Messages that come before the queue may take them would be lost.
            subscription.add_resource_dependency(policy)

    def _queue(self, name: str, undelivered_arn: str) -> aws_sqs.CfnQueue:
        return aws_sqs.CfnQueue(
            self,
            "Queue",
            queue_name=name,
            sqs_managed_sse_enabled=True,
            receive_message_wait_time_seconds=LONG_POLL_SECONDS,
            message_retention_period=RETENTION_SECONDS,
            visibility_timeout=VISIBILITY_SECONDS,
            redrive_policy={
                "deadLetterTargetArn": undelivered_arn,
                "maxReceiveCount": RECEIVES_BEFORE_DEAD_LETTER,
            },
        )


def own_plans(node: str) -> dict[str, object]:
    """Filter policy on the body of an S3 event: only the plans of ``node``."""
    return {"Records": {"s3": {"object": {"key": [{"prefix": f"{PLANS_PREFIX}/{node}/"}]}}}}


def _only_from(queue_arn: str, topic_arn: str) -> dict[str, Any]:
    """The topic, and nobody else through SNS, may send to the queue; nobody without TLS."""
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "PlanTopicSends",
                "Effect": "Allow",
                "Principal": {"Service": "sns.amazonaws.com"},
                "Action": "sqs:SendMessage",
                "Resource": queue_arn,
                "Condition": {
                    "ArnEquals": {"aws:SourceArn": topic_arn},
                    "StringEquals": {"aws:SourceAccount": HERE.account},
                },
            },
            {
                "Sid": "OverTlsOnly",
                "Effect": "Deny",
                "Principal": "*",
                "Action": "sqs:*",
                "Resource": queue_arn,
                "Condition": {"Bool": {"aws:SecureTransport": "false"}},
            },
        ],
    }

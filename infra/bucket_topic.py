"""A topic that S3 feeds: it tells of each new document in a bucket."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Aws, aws_iam, aws_s3, aws_sns
from constructs import Construct

from infra.notifications import key_filter
from infra.stack_environment import HERE


class BucketTopic(Construct):
    """Signs its messages with version 2; only the bucket named ``bucket`` may publish to it.

    Its messages name documents and carry none, and are not encrypted at rest: S3 may not use AWS'
    own key for SNS, and a key of one's own costs $1 a month, more than the rest of the stack
    (https://docs.aws.amazon.com/AmazonS3/latest/userguide/grant-destinations-permissions-to-s3.html).
    """

    def __init__(self, scope: Construct, construct_id: str, *, name: str, bucket: str) -> None:
        super().__init__(scope, construct_id)
        self.topic = aws_sns.Topic(
            self, "Topic", topic_name=name, signature_version="2", enforce_ssl=True
        )
        publish = self.topic.add_to_resource_policy(
            aws_iam.PolicyStatement(
                sid="BucketPublishes",
                actions=["sns:Publish"],
                resources=[self.topic.topic_arn],
                principals=[aws_iam.ServicePrincipal("s3.amazonaws.com")],
                conditions={
                    "ArnEquals": {"aws:SourceArn": HERE.bucket_arn(bucket)},
                    "StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID},
                },
            )
        )
        assert publish.policy_dependable is not None
        self.policy = publish.policy_dependable


def topic_notification(
    topics: Mapping[str, str],
) -> aws_s3.CfnBucket.NotificationConfigurationProperty:
    """S3 publishes each new document: by the key's prefix, the topic's name."""
    return aws_s3.CfnBucket.NotificationConfigurationProperty(
        topic_configurations=[
            aws_s3.CfnBucket.TopicConfigurationProperty(
                event="s3:ObjectCreated:*",
                topic=HERE.regional_arn("sns", name),
                filter=key_filter(prefix),
            )
            for prefix, name in topics.items()
        ]
    )

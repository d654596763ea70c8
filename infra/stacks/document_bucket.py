"""A bucket for documents: private, encrypted, versioned, used over TLS only, with an expiry.

A topic that S3 feeds: it tells of each new document in a bucket.
"""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Aws, Duration, RemovalPolicy, aws_iam, aws_kms, aws_s3, aws_sns
from constructs import Construct

from infra.stacks.notifications import key_filter
from infra.stacks.review_exceptions import NO_ACCESS_LOGS, accept
from infra.stacks.stack_environment import HERE


class BucketTopic(Construct):
    """Signs its messages with version 2; only the bucket named ``bucket`` may publish to it.

    Its messages name documents and carry none, and are not encrypted at rest: S3 may not use AWS'
    own key for SNS. A key of one's own costs $1 a month, more than the rest of the stack
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


class DocumentBucket(Construct):
    """Documents under ``documents_prefix`` expire after ``retention_days`` and are erased a day
    later; an old version under ``settings_prefix`` is erased ``retention_days`` after it was
    replaced.

    A first deployment that fails removes the bucket, so that it can be repeated; nothing else does.
    ``notification`` is set on the CloudFormation resource itself: the library's own helper would
    add a function of its own to set it. ``key_arn``: of the key in KMS that encrypts documents;
    S3's own without one.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        documents_prefix: str,
        settings_prefix: str | None = None,
        retention_days: int,
        notification: aws_s3.CfnBucket.NotificationConfigurationProperty | None,
        key_arn: str | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.bucket = aws_s3.Bucket(
            self,
            "Bucket",
            bucket_name=name,
            block_public_access=aws_s3.BlockPublicAccess.BLOCK_ALL,
            encryption=(
                aws_s3.BucketEncryption.KMS if key_arn else aws_s3.BucketEncryption.S3_MANAGED
            ),
            encryption_key=aws_kms.Key.from_key_arn(self, "Key", key_arn) if key_arn else None,
            bucket_key_enabled=bool(key_arn) or None,  # a request to KMS for many documents
            enforce_ssl=True,
            object_ownership=aws_s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
            versioned=True,
            lifecycle_rules=_lifecycle_rules(
                documents_prefix, settings_prefix, Duration.days(retention_days)
            ),
        )
        resource = self.bucket.node.default_child
        assert isinstance(resource, aws_s3.CfnBucket)
        resource.notification_configuration = notification
        accept(self.bucket, "S1", NO_ACCESS_LOGS)


def _lifecycle_rules(
    documents_prefix: str, settings_prefix: str | None, retention: Duration
) -> list[aws_s3.LifecycleRule]:
    documents = aws_s3.LifecycleRule(
        id="expire-documents",
        prefix=f"{documents_prefix}/",
        expiration=retention,
        # Otherwise an expired document would be kept for as long again, as an old version.
        noncurrent_version_expiration=Duration.days(1),
    )
    old_settings = aws_s3.LifecycleRule(
        id="expire-old-settings",
        prefix=f"{settings_prefix}/",
        noncurrent_version_expiration=retention,
    )
    clean_up = aws_s3.LifecycleRule(
        id="clean-up",
        abort_incomplete_multipart_upload_after=Duration.days(1),
        expired_object_delete_marker=True,
    )
    return [documents, *([old_settings] if settings_prefix else []), clean_up]

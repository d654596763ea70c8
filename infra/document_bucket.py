"""A bucket for documents: private, encrypted, versioned, used over TLS only, with an expiry."""

from __future__ import annotations

from aws_cdk import Duration, RemovalPolicy, aws_s3
from constructs import Construct

from infra.review_exceptions import NO_ACCESS_LOGS, accept


class DocumentBucket(Construct):
    """Documents under ``documents_prefix`` expire after ``retention_days`` and are erased a day
    later; an old version under ``settings_prefix`` is erased ``retention_days`` after it was
    replaced.

    A first deployment that fails removes the bucket, so that it can be repeated; nothing else does.
    ``notification`` is set on the CloudFormation resource itself: the library's own helper would
    add a function of its own to set it.
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
    ) -> None:
        super().__init__(scope, construct_id)
        self.bucket = aws_s3.Bucket(
            self,
            "Bucket",
            bucket_name=name,
            block_public_access=aws_s3.BlockPublicAccess.BLOCK_ALL,
            encryption=aws_s3.BucketEncryption.S3_MANAGED,
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

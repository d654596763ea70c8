"""Which objects S3 sends notifications about."""

from __future__ import annotations

from aws_cdk import aws_s3


def key_filter(prefix: str) -> aws_s3.CfnBucket.NotificationFilterProperty:
    """The filter for JSON documents under ``prefix``."""
    rule = aws_s3.CfnBucket.FilterRuleProperty
    return aws_s3.CfnBucket.NotificationFilterProperty(
        s3_key=aws_s3.CfnBucket.S3KeyFilterProperty(
            rules=[rule(name="prefix", value=f"{prefix}/"), rule(name="suffix", value=".json")]
        )
    )

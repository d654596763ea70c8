"""Names and literal ARNs: nothing has to be looked up, so the stack has no cycle of references."""

from __future__ import annotations

from aws_cdk import Aws


def bucket_name(stack: str, documents: str) -> str:
    """Name of a bucket; the account and region make it unique in the world."""
    return f"{stack}-{documents}-{Aws.ACCOUNT_ID}-{Aws.REGION}"


def bucket_arn(name: str) -> str:
    return f"arn:aws:s3:::{name}"


def objects_arn(bucket: str, *path: str) -> str:
    """ARN of all objects under ``path`` of the bucket named ``bucket``."""
    return "/".join((bucket_arn(bucket), *path, "*"))


def regional_arn(service: str, resource: str) -> str:
    """ARN of a resource of this account and region."""
    return f"arn:aws:{service}:{Aws.REGION}:{Aws.ACCOUNT_ID}:{resource}"

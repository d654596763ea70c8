"""What a solver may do, wherever it runs: read observations, write plans, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aws_cdk import aws_iam

from infra.stacks.review_exceptions import OWN_PREFIX, accept_wildcards
from infra.stacks.stack_environment import HERE
from solver_lambda.documents.keys import OBSERVATIONS_PREFIX, PLANS_PREFIX


def use_of_key(
    key_arn: str, conditions: Mapping[str, Any] | None = None
) -> aws_iam.PolicyStatement:
    """Allow reading and writing, through S3 alone, what the key encrypts."""
    by_s3 = {"StringEquals": {"kms:ViaService": f"s3.{HERE.region}.{HERE.url_suffix}"}}
    return aws_iam.PolicyStatement(
        sid="UseDocumentsKey",
        actions=["kms:Decrypt", "kms:GenerateDataKey"],
        resources=[key_arn],
        conditions={**by_s3, **(conditions or {})},
    )


def grant_documents(
    role: aws_iam.Role, *, observations_bucket: str, plans_bucket: str, key_arn: str | None
) -> None:
    """Let ``role`` read every node's observations and write every node's plans, which the key of
    ``key_arn`` encrypts, if there is one."""
    if key_arn:
        role.add_to_policy(use_of_key(key_arn))
    for statement in (
        aws_iam.PolicyStatement(
            sid="GetObservations",
            actions=["s3:GetObject"],
            resources=[HERE.objects_arn(observations_bucket, OBSERVATIONS_PREFIX)],
        ),
        aws_iam.PolicyStatement(
            sid="PutPlans",
            actions=["s3:PutObject"],
            resources=[HERE.objects_arn(plans_bucket, PLANS_PREFIX)],
        ),
    ):
        role.add_to_policy(statement)
        accept_wildcards(role, statement, OWN_PREFIX)


def solver_environment(*, observations_bucket: str, plans_bucket: str) -> dict[str, str]:
    """Environment variables that tell the solver its buckets, and whose they are."""
    return {
        "SPREDS_OBSERVATIONS_BUCKET": observations_bucket,
        "SPREDS_PLANS_BUCKET": plans_bucket,
        # S3 refuses whoever else has a bucket of that name.
        "SPREDS_ACCOUNT_ID": HERE.account,
    }

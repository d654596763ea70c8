"""What a solver may do, wherever it runs: read observations, write plans, and nothing else."""

from __future__ import annotations

from aws_cdk import aws_iam

from infra.review_exceptions import OWN_PREFIX, accept_wildcards
from infra.stack_environment import HERE
from solver_lambda.documents.keys import OBSERVATIONS_PREFIX, PLANS_PREFIX


def grant_documents(role: aws_iam.Role, *, observations_bucket: str, plans_bucket: str) -> None:
    """Let ``role`` read every node's observations and write every node's plans."""
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

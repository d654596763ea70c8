"""What one node may access, and what the teams of its servers may access."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_iam, aws_s3, aws_sqs
from constructs import Construct

from infra.configuration import Node
from infra.naming import bucket_arn, objects_arn
from infra.review_exceptions import OWN_PREFIX, accept_wildcards
from solver_lambda.documents.keys import OBSERVATIONS_PREFIX, PLANS_PREFIX, SETTINGS_PREFIX

Statement = aws_iam.PolicyStatement


class NodeAccess(Construct):
    """The role of a node: for an EC2 instance by its profile, for others by assuming it."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        node: Node,
        role_name: str,
        observations_bucket: str,
        plans_bucket: str,
        topic_arn: str,
        queue: aws_sqs.IQueue | None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.role = aws_iam.Role(
            self,
            "Role",
            role_name=role_name,
            description=f"SPREDS' sidecar on {node.name}",
            assumed_by=aws_iam.CompositePrincipal(
                aws_iam.ServicePrincipal("ec2.amazonaws.com"), aws_iam.AccountRootPrincipal()
            ),
        )
        for statement in (
            *_own_documents(node.name, observations_bucket, plans_bucket),
            _notified(topic_arn, queue),
        ):
            self.role.add_to_policy(statement)
            accept_wildcards(self.role, statement, OWN_PREFIX)
        aws_iam.CfnInstanceProfile(
            self, "Profile", instance_profile_name=role_name, roles=[self.role.role_name]
        )


def _own_documents(node: str, observations_bucket: str, plans_bucket: str) -> list[Statement]:
    settings = f"{SETTINGS_PREFIX}/{node}"
    return [
        Statement(
            sid="PutOwnObservations",
            actions=["s3:PutObject"],
            resources=[objects_arn(observations_bucket, OBSERVATIONS_PREFIX, node)],
        ),
        Statement(
            sid="GetOwnSettings",
            actions=["s3:GetObject"],
            resources=[objects_arn(observations_bucket, settings)],
        ),
        Statement(
            sid="ListOwnSettings",
            actions=["s3:ListBucket"],
            resources=[bucket_arn(observations_bucket)],
            conditions={"StringLike": {"s3:prefix": f"{settings}/*"}},
        ),
        Statement(
            sid="GetOwnPlans",
            actions=["s3:GetObject"],
            resources=[objects_arn(plans_bucket, PLANS_PREFIX, node)],
        ),
    ]


def _notified(topic_arn: str, queue: aws_sqs.IQueue | None) -> Statement:
    if queue is None:
        return Statement(
            sid="ConfirmSubscription",
            actions=["sns:ConfirmSubscription"],
            resources=[topic_arn],
        )
    return Statement(
        sid="ReceiveOwnPlans",
        actions=["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"],
        resources=[queue.queue_arn],
    )


class TeamAccess(Construct):
    """A role for the team of one server, which may write that server's settings."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        node: str,
        server: str,
        role_path: str,
        observations_bucket: str,
    ) -> None:
        super().__init__(scope, construct_id)
        self.role = aws_iam.Role(
            self,
            "Role",
            path=role_path,
            description=f"The team of the server {server} on {node}",
            # Who may assume it is for the account's own policies to say.
            assumed_by=aws_iam.AccountRootPrincipal(),
        )
        bucket, key = bucket_arn(observations_bucket), f"{SETTINGS_PREFIX}/{node}/{server}.json"
        self.role.add_to_policy(
            Statement(
                sid="OwnSettings",
                actions=["s3:GetObject", "s3:PutObject", "s3:DeleteObject"],
                resources=[f"{bucket}/{key}"],
            )
        )
        self.role.add_to_policy(
            Statement(
                sid="SeeWhetherThereAreAny",
                actions=["s3:ListBucket"],
                resources=[bucket],
                conditions={"StringEquals": {"s3:prefix": key}},
            )
        )


def only_teams_write_settings(bucket: aws_s3.Bucket, team_roles: Sequence[str]) -> None:
    """Refuse everyone but roles whose ARN matches ``team_roles`` to change settings.

    Administrators too: they assume the team's role, so that the trail says for whom they did it.
    """
    bucket.add_to_resource_policy(
        Statement(
            sid="OnlyTeamsWriteSettings",
            effect=aws_iam.Effect.DENY,
            actions=["s3:PutObject", "s3:DeleteObject", "s3:DeleteObjectVersion"],
            resources=[objects_arn(bucket.bucket_name, SETTINGS_PREFIX)],
            principals=[aws_iam.AnyPrincipal()],
            conditions={"ArnNotLike": {"aws:PrincipalArn": list(team_roles)}},
        )
    )

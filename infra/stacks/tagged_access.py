"""What nodes and teams may do: two policies for all of them, which the caller's own tags fill in.

A role with the tag ``spreds-node`` reaches that node's documents and queue, and one that also has
``spreds-server`` that server's settings; `infra.roles` prints how such roles are made. Without the
tag a statement means nothing: AWS leaves out one whose variable has no value
(https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_variables.html), and the
``Null`` conditions say it once more. Whoever may tag roles, or sessions, decides who is which node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aws_cdk import aws_iam, aws_s3
from constructs import Construct

from infra.stack_file import names
from infra.stack_file.names import NODE_TAG, SERVER_TAG
from infra.stacks.review_exceptions import OWN_BY_TAG, accept_wildcards
from infra.stacks.solver_access import use_of_key
from infra.stacks.stack_environment import HERE
from solver_lambda.documents.keys import (
    OBSERVATIONS_PREFIX,
    PLANS_PREFIX,
    REPORTS_PREFIX,
    SETTINGS_PREFIX,
    report_key,
    settings_key,
    settings_marker_key,
)

Statement = aws_iam.PolicyStatement
NODE_KEY, SERVER_KEY = f"aws:PrincipalTag/{NODE_TAG}", f"aws:PrincipalTag/{SERVER_TAG}"
NODE, SERVER = f"${{{NODE_KEY}}}", f"${{{SERVER_KEY}}}"
# A bucket that fits the names by rule can be anybody's: only the account's own are meant.
_OWN_ACCOUNT = {"StringEquals": {"aws:ResourceAccount": HERE.account}}
_IS_NODE = {"Null": {NODE_KEY: "false"}}
_IS_TEAM = {"Null": {NODE_KEY: "false", SERVER_KEY: "false"}}


class TaggedAccess(Construct):
    """Makes both managed policies of the installation called ``name``; ``documents_key_arn``: of
    the key that encrypts documents, if there is one."""

    def __init__(
        self, scope: Construct, construct_id: str, *, name: str, documents_key_arn: str | None
    ) -> None:
        super().__init__(scope, construct_id)
        cell = names.any_cell(name)
        observations, plans = HERE.bucket(cell, "observations"), HERE.bucket(cell, "plans")
        self._policy(
            "Nodes",
            names.nodes_policy(name, HERE.region),
            f"SPREDS: what the node named by the caller's tag {NODE_TAG} may do",
            [
                *_documents(observations, plans),
                *_notified(name, cell),
                *([use_of_key(documents_key_arn, _IS_NODE)] if documents_key_arn else []),
            ],
        )
        self._policy(
            "Teams",
            names.teams_policy(name, HERE.region),
            f"SPREDS: the settings of the server named by the tags {NODE_TAG} and {SERVER_TAG}",
            [
                *_settings(observations),
                *([use_of_key(documents_key_arn, _IS_TEAM)] if documents_key_arn else []),
            ],
        )

    def _policy(
        self, construct_id: str, name: str, description: str, statements: Sequence[Statement]
    ) -> None:
        policy = aws_iam.ManagedPolicy(
            self,
            construct_id,
            managed_policy_name=name,
            description=description,
            statements=statements,
        )
        for statement in statements:
            accept_wildcards(policy, statement, OWN_BY_TAG)


def _documents(observations: str, plans: str) -> list[Statement]:
    settings = f"{SETTINGS_PREFIX}/{NODE}"
    conditions = {**_OWN_ACCOUNT, **_IS_NODE}
    return [
        Statement(
            sid="PutOwnObservations",
            actions=["s3:PutObject"],
            resources=[HERE.objects_arn(observations, OBSERVATIONS_PREFIX, NODE)],
            conditions=conditions,
        ),
        Statement(
            sid="PutOwnReports",
            actions=["s3:PutObject"],
            resources=[HERE.objects_arn(observations, REPORTS_PREFIX, NODE)],
            conditions=conditions,
        ),
        Statement(
            sid="GetOwnSettings",
            actions=["s3:GetObject"],
            resources=[HERE.objects_arn(observations, settings)],
            conditions=conditions,
        ),
        Statement(
            sid="ListOwnSettings",
            actions=["s3:ListBucket"],
            resources=[HERE.bucket_arn(observations)],
            conditions={**conditions, "StringLike": {"s3:prefix": f"{settings}/*"}},
        ),
        Statement(
            sid="GetOwnPlans",
            actions=["s3:GetObject"],
            resources=[HERE.objects_arn(plans, PLANS_PREFIX, NODE)],
            conditions=conditions,
        ),
    ]


def _notified(name: str, cell: str) -> list[Statement]:
    return [
        Statement(
            sid="ReceiveOwnPlans",
            actions=["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"],
            resources=[HERE.regional_arn("sqs", names.node_queue(name, NODE))],
            conditions=_IS_NODE,
        ),
        Statement(
            sid="ConfirmSubscription",
            actions=["sns:ConfirmSubscription"],
            resources=[HERE.regional_arn("sns", names.plans_topic(cell))],
            conditions=_IS_NODE,
        ),
    ]


def _settings(observations: str) -> list[Statement]:
    bucket, own = HERE.bucket_arn(observations), settings_key(NODE, SERVER)
    conditions: dict[str, Any] = {**_OWN_ACCOUNT, **_IS_TEAM}
    return [
        Statement(
            sid="OwnSettings",
            actions=["s3:GetObject", "s3:PutObject", "s3:DeleteObject"],
            resources=[f"{bucket}/{own}"],
            conditions=conditions,
        ),
        Statement(
            sid="SeeWhatBecameOfThem",
            actions=["s3:GetObject"],
            resources=[f"{bucket}/{report_key(NODE, SERVER)}"],
            conditions=conditions,
        ),
        Statement(
            sid="TellTheNode",
            actions=["s3:PutObject"],
            resources=[f"{bucket}/{settings_marker_key(NODE)}"],
            conditions=conditions,
        ),
        Statement(
            sid="SeeWhetherThereAreAny",
            actions=["s3:ListBucket"],
            resources=[bucket],
            conditions={
                **conditions,
                "StringEquals": {**_OWN_ACCOUNT["StringEquals"], "s3:prefix": own},
            },
        ),
    ]


def only_teams_write_settings(bucket: aws_s3.Bucket) -> None:
    """Refuse whoever carries no tag ``spreds-server`` to change settings.

    Administrators too: they assume a team's role, so that the trail says for whom they did it.
    """
    bucket.add_to_resource_policy(
        Statement(
            sid="OnlyTeamsWriteSettings",
            effect=aws_iam.Effect.DENY,
            actions=["s3:PutObject", "s3:DeleteObject", "s3:DeleteObjectVersion"],
            resources=[HERE.objects_arn(bucket.bucket_name, SETTINGS_PREFIX)],
            principals=[aws_iam.AnyPrincipal()],
            conditions={"Null": {SERVER_KEY: "true"}},
        )
    )

"""The smallest IAM policy for a node's sidecar: what the installation gives all."""

from __future__ import annotations

from typing import Any

from sidecar.config.controller_config import CloudConfig
from solver_lambda.documents.keys import OBSERVATIONS_PREFIX, PLANS_PREFIX, SETTINGS_PREFIX


def iam_policy(node: str, cloud: CloudConfig) -> dict[str, Any]:
    """A policy document; ``cloud`` is the cell that the node's file names."""
    partition, region, account = (cloud.topic_arn.split(":")[place] for place in (1, 3, 4))
    observations = f"arn:{partition}:s3:::{cloud.observations_bucket}"
    plans = f"arn:{partition}:s3:::{cloud.plans_bucket}"
    own = f"{node}/*"
    statements = [
        _allow(
            "PutOwnObservations", ["s3:PutObject"], f"{observations}/{OBSERVATIONS_PREFIX}/{own}"
        ),
        _allow("GetOwnSettings", ["s3:GetObject"], f"{observations}/{SETTINGS_PREFIX}/{own}"),
        {
            **_allow("ListOwnSettings", ["s3:ListBucket"], observations),
            "Condition": {"StringLike": {"s3:prefix": f"{SETTINGS_PREFIX}/{own}"}},
        },
        _allow("GetOwnPlans", ["s3:GetObject"], f"{plans}/{PLANS_PREFIX}/{own}"),
    ]
    if cloud.queue_url is None:
        statements.append(
            _allow("ConfirmSubscription", ["sns:ConfirmSubscription"], cloud.topic_arn)
        )
    else:
        name = cloud.queue_url.rstrip("/").rpartition("/")[2]
        statements.append(
            _allow(
                "ReceiveOwnPlans",
                ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"],
                f"arn:{partition}:sqs:{region}:{account}:{name}",
            )
        )
    return {"Version": "2012-10-17", "Statement": statements}


def _allow(sid: str, actions: list[str], resource: str) -> dict[str, Any]:
    return {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resource}

"""What the deployed roles may do, judged by an IAM evaluator over the policies that IAM has."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ministack.core import iam_evaluator

from infra.outputs import output_name
from solver_lambda.documents.keys import observation_key, plan_key, settings_key

ACCOUNT = "123456789012"


class Judge:
    """Says whether a role may do something, by its own policies and the bucket's."""

    def __init__(self, deployed: Any) -> None:
        self._deployed = deployed
        s3 = deployed.emulator.client("s3")
        self._buckets = {
            output: deployed.outputs[output] for output in ("ObservationsBucket", "PlansBucket")
        }
        self._bucket_policies = {
            f"arn:aws:s3:::{bucket}": json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"])
            for bucket in self._buckets.values()
        }

    def object(self, bucket: str, key: str) -> str:
        return f"arn:aws:s3:::{self._buckets[bucket]}/{key}"

    def allows(
        self, role: str, action: str, resource: str, *, tls: bool = True, **context: str
    ) -> bool:
        """``role`` is the name of the output with its ARN."""
        return self.allows_arn(
            self._deployed.outputs[role],
            [
                iam_evaluator.parse_policy_document(document)
                for document in self._deployed.role_policies(role)
            ],
            action,
            resource,
            tls=tls,
            **context,
        )

    def allows_arn(
        self,
        arn: str,
        policies: list[Any],
        action: str,
        resource: str,
        *,
        tls: bool = True,
        **context: str,
    ) -> bool:
        request = iam_evaluator.EvalContext(
            principal_arn=arn,
            principal_type="AssumedRole",
            principal_account=ACCOUNT,
            action=action,
            resource_arn=resource,
            region="us-east-1",
            secure_transport=tls,
            service_context={**context, "aws:principalarn": arn},
        )
        result = iam_evaluator.evaluate(request, policies)
        policy = self._bucket_policies.get(resource.partition("/")[0])
        if policy is not None:
            result = iam_evaluator.combine_resource_policy(result, request, policy, ACCOUNT)
        return bool(result.decision == "Allow")


@pytest.fixture(scope="module")
def judge(deployed: Any) -> Judge:
    return Judge(deployed)


ALPHA = output_name("alpha", "RoleArn")
TEAM = output_name("alpha", "TeamRoleArn", "modest")


def test_a_node_may_do_its_work(judge: Judge, deployed: Any) -> None:
    observations, plans = "ObservationsBucket", "PlansBucket"
    for action, resource in (
        ("s3:PutObject", judge.object(observations, observation_key("alpha", 1))),
        ("s3:GetObject", judge.object(observations, settings_key("alpha", "modest"))),
        ("s3:GetObject", judge.object(plans, plan_key("alpha", 1))),
        ("sqs:ReceiveMessage", f"arn:aws:sqs:us-east-1:{ACCOUNT}:spreds_alpha"),
        ("sqs:DeleteMessage", f"arn:aws:sqs:us-east-1:{ACCOUNT}:spreds_alpha"),
    ):
        assert judge.allows(ALPHA, action, resource), (action, resource)
    posted = output_name("gamma", "RoleArn")
    topic = deployed.outputs["PlansTopicArn"]
    assert judge.allows(posted, "sns:ConfirmSubscription", topic)
    assert not judge.allows(ALPHA, "sns:ConfirmSubscription", topic)


@pytest.mark.parametrize("other", ["beta", "alphabet", "alpha2"])
def test_a_node_cannot_touch_what_is_another_nodes(judge: Judge, other: str) -> None:
    observations, plans = "ObservationsBucket", "PlansBucket"
    for action, resource in (
        ("s3:GetObject", judge.object(plans, f"plans/{other}/000000000001.json")),
        ("s3:PutObject", judge.object(observations, f"observations/{other}/000000000001.json")),
        ("s3:GetObject", judge.object(observations, f"settings/{other}/modest.json")),
        ("sqs:ReceiveMessage", f"arn:aws:sqs:us-east-1:{ACCOUNT}:spreds_{other}"),
    ):
        assert not judge.allows(ALPHA, action, resource), (action, resource)


@pytest.mark.parametrize("action", ["s3:PutObject", "s3:DeleteObject"])
def test_a_node_cannot_write_plans_or_settings(judge: Judge, action: str) -> None:
    assert not judge.allows(ALPHA, action, judge.object("PlansBucket", plan_key("alpha", 1)))
    own = judge.object("ObservationsBucket", settings_key("alpha", "modest"))
    assert not judge.allows(ALPHA, action, own)
    assert not judge.allows(
        ALPHA, "s3:DeleteObject", judge.object("ObservationsBucket", observation_key("alpha", 1))
    )


def test_a_node_lists_its_own_settings_only(judge: Judge) -> None:
    bucket = judge.object("ObservationsBucket", "")[:-1]
    for prefix, allowed in (
        ("settings/alpha/", True),
        ("settings/beta/", False),
        ("settings/", False),
        ("", False),
    ):
        may = judge.allows(ALPHA, "s3:ListBucket", bucket, **{"s3:prefix": prefix})
        assert may is allowed, prefix


@pytest.mark.parametrize("action", ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"])
def test_a_team_sets_its_own_server_and_no_other(judge: Judge, action: str) -> None:
    def may(key: str) -> bool:
        return judge.allows(TEAM, action, judge.object("ObservationsBucket", key))

    assert may(settings_key("alpha", "modest"))
    assert not may(settings_key("alpha", "hungry"))
    assert not may(settings_key("beta", "modest"))
    assert not may("settings/alpha/modest.json.bak")
    assert not may(observation_key("alpha", 1))
    assert not judge.allows(TEAM, action, judge.object("PlansBucket", plan_key("alpha", 1)))


def test_a_team_sees_whether_its_own_settings_are_there(judge: Judge) -> None:
    bucket = judge.object("ObservationsBucket", "")[:-1]
    for prefix, allowed in (
        (settings_key("alpha", "modest"), True),
        (settings_key("alpha", "hungry"), False),
        ("settings/alpha/", False),
        ("", False),
    ):
        may = judge.allows(TEAM, "s3:ListBucket", bucket, **{"s3:prefix": prefix})
        assert may is allowed, prefix


def test_only_teams_roles_write_settings_even_if_a_policy_would_let_others(judge: Judge) -> None:
    everything = iam_evaluator.parse_policy_document(
        {"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    )
    key = judge.object("ObservationsBucket", settings_key("alpha", "modest"))
    administrator = f"arn:aws:iam::{ACCOUNT}:role/Administrator"
    foreign = f"arn:aws:iam::{ACCOUNT}:role/other/teams/modest"
    for arn, allowed in (
        (administrator, False),
        (foreign, False),
        (f"arn:aws:iam::{ACCOUNT}:role/spreds/teams/anything", True),
    ):
        assert judge.allows_arn(arn, [everything], "s3:PutObject", key) is allowed, arn
    assert judge.allows_arn(administrator, [everything], "s3:GetObject", key)


def test_plain_http_is_refused_to_everyone(judge: Judge) -> None:
    own = judge.object("PlansBucket", plan_key("alpha", 1))
    assert judge.allows(ALPHA, "s3:GetObject", own)
    assert not judge.allows(ALPHA, "s3:GetObject", own, tls=False)

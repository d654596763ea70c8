"""What roles with the tags may do, judged by an IAM evaluator over the policies that IAM has."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from ministack.core import iam_evaluator

from infra.emulator.process import ACCOUNT, REGION
from solver_lambda.documents.keys import (
    observation_key,
    plan_key,
    report_key,
    settings_key,
)
from tests.end_to_end.printed_commands import carry_out, filled_in

NODES = f"arn:aws:iam::{ACCOUNT}:policy/spreds-nodes-{REGION}"
TEAMS = f"arn:aws:iam::{ACCOUNT}:policy/spreds-teams-{REGION}"
ALPHA = {"spreds-node": "alpha"}
TEAM = {"spreds-node": "alpha", "spreds-server": "modest"}


class Judge:
    """Says whether somebody with tags may do something, by a policy and the bucket's own."""

    def __init__(self, deployed: Any) -> None:
        self._iam = deployed.emulator.client("iam")
        s3 = deployed.emulator.client("s3")
        self._buckets = [
            outputs[output]
            for outputs in deployed.stacks.values()
            for output in ("ObservationsBucket", "PlansBucket")
            if output in outputs
        ]
        self._bucket_policies = {
            f"arn:aws:s3:::{bucket}": json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"])
            for bucket in self._buckets
        }

    def document(self, arn: str) -> dict[str, Any]:
        version = self._iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
        found = self._iam.get_policy_version(PolicyArn=arn, VersionId=version)
        document = found["PolicyVersion"]["Document"]
        assert isinstance(document, dict)
        return document

    def allows(
        self,
        policy: str | dict[str, Any],
        tags: dict[str, str],
        action: str,
        resource: str,
        *,
        tls: bool = True,
        resource_account: str = ACCOUNT,
        **context: str,
    ) -> bool:
        """``policy`` is a document or the ARN of one."""
        document = policy if isinstance(policy, dict) else self.document(policy)
        arn = f"arn:aws:iam::{ACCOUNT}:role/somebody"
        request = iam_evaluator.EvalContext(
            principal_arn=arn,
            principal_type="AssumedRole",
            # The evaluator takes it for the account that the bucket belongs to.
            principal_account=resource_account,
            action=action,
            resource_arn=resource,
            region=REGION,
            secure_transport=tls,
            service_context={**context, "aws:principalarn": arn},
            principal_keys={f"aws:principaltag/{key}": value for key, value in tags.items()},
        )
        parsed = iam_evaluator.parse_policy_document(filled_in(document, tags))
        result = iam_evaluator.evaluate(request, [parsed])
        bucket_policy = self._bucket_policies.get(resource.partition("/")[0])
        if bucket_policy is not None:
            result = iam_evaluator.combine_resource_policy(result, request, bucket_policy, ACCOUNT)
        return bool(result.decision == "Allow")


@pytest.fixture(scope="module")
def judge(deployed: Any) -> Judge:
    return Judge(deployed)


@pytest.fixture(scope="module")
def buckets(deployed: Any) -> tuple[str, str]:
    """ARNs of the buckets for observations and plans of alpha's cell."""
    outputs = deployed.of_node("alpha")
    return tuple(f"arn:aws:s3:::{outputs[name]}" for name in ("ObservationsBucket", "PlansBucket"))


def test_a_node_may_do_its_work(judge: Judge, buckets: Any, deployed: Any) -> None:
    observations, plans = buckets
    for action, resource in (
        ("s3:PutObject", f"{observations}/{observation_key('alpha', 1)}"),
        ("s3:GetObject", f"{observations}/{settings_key('alpha', 'modest')}"),
        ("s3:GetObject", f"{observations}/settings/alpha/changed"),
        ("s3:PutObject", f"{observations}/{report_key('alpha', 'modest')}"),
        ("s3:GetObject", f"{plans}/{plan_key('alpha', 1)}"),
        ("sqs:ReceiveMessage", f"arn:aws:sqs:{REGION}:{ACCOUNT}:spreds_alpha"),
        ("sqs:DeleteMessage", f"arn:aws:sqs:{REGION}:{ACCOUNT}:spreds_alpha"),
        ("sns:ConfirmSubscription", deployed.outputs["PlansTopicArn"]),
    ):
        assert judge.allows(NODES, ALPHA, action, resource), (action, resource)
        # Who has no tag is no node, and nobody is one of another installation.
        assert not judge.allows(NODES, {}, action, resource), (action, resource)
        assert not judge.allows(NODES, {"spreds-server": "modest"}, action, resource)
        other = resource.replace(":spreds", ":other")
        assert not judge.allows(NODES, ALPHA, action, other), other


@pytest.mark.parametrize("other", ["beta", "alphabet", "alpha2", "far-1"])
def test_a_node_cannot_touch_what_is_another_nodes(judge: Judge, buckets: Any, other: str) -> None:
    observations, plans = buckets
    for action, resource in (
        ("s3:GetObject", f"{plans}/plans/{other}/000000000001.json"),
        ("s3:PutObject", f"{observations}/observations/{other}/000000000001.json"),
        ("s3:GetObject", f"{observations}/settings/{other}/modest.json"),
        ("s3:PutObject", f"{observations}/reports/{other}/modest.json"),
        ("sqs:ReceiveMessage", f"arn:aws:sqs:{REGION}:{ACCOUNT}:spreds_{other}"),
    ):
        assert not judge.allows(NODES, ALPHA, action, resource), (action, resource)


@pytest.mark.parametrize("value", ["", "/", "..", "alpha/..", "beta/../alpha", "a b", "=", "@"])
def test_no_value_that_a_tag_can_have_reaches_another_node(
    judge: Judge, buckets: Any, value: str
) -> None:
    """Tags have no ``*`` and no ``?``
    (https://docs.aws.amazon.com/IAM/latest/UserGuide/id_tags.html), and S3 takes keys literally.
    """
    tags = {"spreds-node": value, "spreds-server": value}
    observations, plans = buckets
    for policy, action, resource in (
        (NODES, "s3:GetObject", f"{plans}/{plan_key('alpha', 1)}"),
        (NODES, "s3:PutObject", f"{observations}/{observation_key('alpha', 1)}"),
        (NODES, "sqs:ReceiveMessage", f"arn:aws:sqs:{REGION}:{ACCOUNT}:spreds_alpha"),
        (TEAMS, "s3:PutObject", f"{observations}/{settings_key('alpha', 'modest')}"),
        (TEAMS, "s3:PutObject", f"{observations}/settings/alpha/changed"),
    ):
        assert not judge.allows(policy, tags, action, resource), (value, resource)


@pytest.mark.parametrize("action", ["s3:PutObject", "s3:DeleteObject"])
def test_a_node_cannot_write_plans_or_settings(judge: Judge, buckets: Any, action: str) -> None:
    observations, plans = buckets
    for resource in (
        f"{plans}/{plan_key('alpha', 1)}",
        f"{observations}/{settings_key('alpha', 'modest')}",
        f"{observations}/settings/alpha/changed",
    ):
        assert not judge.allows(NODES, ALPHA, action, resource), resource
    own = f"{observations}/{observation_key('alpha', 1)}"
    assert not judge.allows(NODES, ALPHA, "s3:DeleteObject", own)


def test_a_bucket_of_another_account_is_nobodys_business(judge: Judge) -> None:
    """Its name can be like ours: names of buckets are the world's."""
    own = f"arn:aws:s3:::spreds-theirs-observations-{ACCOUNT}-{REGION}"
    key = f"{own}/{observation_key('alpha', 1)}"
    assert judge.allows(NODES, ALPHA, "s3:PutObject", key)
    assert not judge.allows(NODES, ALPHA, "s3:PutObject", key, resource_account="999999999999")
    settings = f"{own}/{settings_key('alpha', 'modest')}"
    assert judge.allows(TEAMS, TEAM, "s3:PutObject", settings)
    assert not judge.allows(TEAMS, TEAM, "s3:PutObject", settings, resource_account="999999999999")


def test_a_node_lists_its_own_settings_only(judge: Judge, buckets: Any) -> None:
    for prefix, allowed in (
        ("settings/alpha/", True),
        ("settings/beta/", False),
        ("settings/", False),
        ("", False),
    ):
        context = {"s3:prefix": prefix}
        may = judge.allows(NODES, ALPHA, "s3:ListBucket", buckets[0], **context)
        assert may is allowed, prefix


@pytest.mark.parametrize("action", ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"])
def test_a_team_sets_its_own_server_and_no_other(judge: Judge, buckets: Any, action: str) -> None:
    observations, plans = buckets

    def may(key: str, tags: dict[str, str] = TEAM) -> bool:
        return judge.allows(TEAMS, tags, action, f"{observations}/{key}")

    assert may(settings_key("alpha", "modest"))
    assert not may(settings_key("alpha", "modest"), ALPHA)
    assert not may(settings_key("alpha", "modest"), {"spreds-server": "modest"})
    assert not may(settings_key("alpha", "hungry"))
    assert not may(settings_key("beta", "modest"))
    assert not may("settings/alpha/modest.json.bak")
    assert not may(observation_key("alpha", 1))
    # What became of its settings it may read, and nobody else's.
    assert may(report_key("alpha", "modest")) is (action == "s3:GetObject")
    assert not may(report_key("alpha", "hungry"))
    assert not may(report_key("alpha", "modest"), ALPHA)
    assert may("settings/alpha/changed") is (action == "s3:PutObject")
    assert not may("settings/beta/changed")
    assert not judge.allows(TEAMS, TEAM, action, f"{plans}/{plan_key('alpha', 1)}")


def test_a_team_sees_whether_its_own_settings_are_there(judge: Judge, buckets: Any) -> None:
    for prefix, allowed in (
        (settings_key("alpha", "modest"), True),
        (settings_key("alpha", "hungry"), False),
        ("settings/alpha/", False),
        ("", False),
    ):
        context = {"s3:prefix": prefix}
        may = judge.allows(TEAMS, TEAM, "s3:ListBucket", buckets[0], **context)
        assert may is allowed, prefix


def test_only_who_is_a_team_writes_settings_even_if_a_policy_would_let_others(
    judge: Judge, buckets: Any
) -> None:
    everything = {"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    key = f"{buckets[0]}/{settings_key('alpha', 'modest')}"
    for tags, allowed in (({}, False), (ALPHA, False), (TEAM, True)):
        assert judge.allows(everything, tags, "s3:PutObject", key) is allowed, tags
    assert judge.allows(everything, {}, "s3:GetObject", key)


def test_plain_http_is_refused_to_everyone(judge: Judge, buckets: Any) -> None:
    own = f"{buckets[1]}/{plan_key('alpha', 1)}"
    assert judge.allows(NODES, ALPHA, "s3:GetObject", own)
    assert not judge.allows(NODES, ALPHA, "s3:GetObject", own, tls=False)


def test_the_printed_commands_make_a_role_with_tags_and_policy(
    deployed: Any, tmp_path: Any
) -> None:
    iam = deployed.emulator.client("iam")
    stack = tmp_path / "stack.toml"
    stack.write_text("[nodes]\nalpha = {}\n")
    for whose, role, tags, policy in (
        (["--node", "alpha"], f"spreds.alpha.{REGION}", ALPHA, NODES),
        (["--team", "alpha/modest"], f"spreds.alpha.modest.{REGION}", TEAM, TEAMS),
    ):
        command = [sys.executable, "-m", "infra.roles", "--stack", str(stack), *whose]
        command += ["--account", ACCOUNT, "--region", REGION]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        carry_out(printed, iam)
        made = iam.list_role_tags(RoleName=role)["Tags"]
        assert {tag["Key"]: tag["Value"] for tag in made} == tags
        (attached,) = iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]
        assert attached["PolicyArn"] == policy
    profile = iam.get_instance_profile(InstanceProfileName=f"spreds.alpha.{REGION}")
    (role,) = profile["InstanceProfile"]["Roles"]
    assert role["RoleName"] == f"spreds.alpha.{REGION}"

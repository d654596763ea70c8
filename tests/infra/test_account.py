"""What an organisation demands is in every stack, and in the roles that are made beside them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra.stack_file.account import Account, read_account
from infra.stack_file.configuration import ALARMS_OF_A_FUNCTION, read_configuration
from infra.stack_file.names import place
from infra.stacks.alarms import QUIET_HOURS
from solver_lambda.documents.reader import Fields
from tests.infra.forms import FORMS, KEY_ARN
from tests.infra.test_stack_properties import role_statements, spelt

DEMANDED = "what an organisation demands"
# What CloudFormation gives tags to, of what is in the stacks.
TAGGED = ("S3::Bucket", "SQS::Queue", "SNS::Topic", "Lambda::Function", "Logs::LogGroup")


def test_every_resource_that_takes_tags_has_them(synthesise: Callable) -> None:
    made = synthesise(**FORMS[DEMANDED])
    wanted = [{"Key": "cost-center", "Value": "4711"}, {"Key": "owner", "Value": "caches"}]
    found = [
        properties.get("Tags")
        for stack in made.stacks.values()
        for kind in TAGGED
        for properties in stack.of_type(kind).values()
    ]
    assert len(found) >= 8
    assert all(tags == wanted for tags in found)


def test_every_role_has_the_boundary(synthesise: Callable) -> None:
    for form in (DEMANDED, "fargate"):
        made = synthesise(**{**FORMS[form], "account": FORMS[DEMANDED]["account"]})
        roles = [
            role for stack in made.stacks.values() for role in stack.of_type("IAM::Role").values()
        ]
        assert roles
        for role in roles:
            assert spelt(role["PermissionsBoundary"]) == (
                "arn:<AWS::Partition>:iam::<AWS::AccountId>:policy/developers"
            )


@pytest.mark.parametrize("form", [DEMANDED, "its key, with a task"])
def test_documents_are_encrypted_by_the_own_key_which_s3_alone_uses(
    form: str, synthesise: Callable
) -> None:
    made = synthesise(**FORMS[form])
    for bucket in made.cell.of_type("S3::Bucket").values():
        (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        assert rule["ServerSideEncryptionByDefault"]["KMSMasterKeyID"] == KEY_ARN
        assert rule["BucketKeyEnabled"]
    statements = [
        statement
        for stack in made.stacks.values()
        for _, statement in role_statements(stack.template)
        if statement["Resource"] == KEY_ARN
    ]
    assert len(statements) == 3  # nodes, teams, solver
    for statement in statements:
        assert statement["Action"] == ["kms:Decrypt", "kms:GenerateDataKey"]
        assert spelt(statement["Condition"]["StringEquals"]["kms:ViaService"]) == (
            "s3.<AWS::Region>.<AWS::URLSuffix>"
        )
    assert sum("Null" in statement["Condition"] for statement in statements) == 2


def test_functions_send_traces_where_that_is_wanted(synthesise: Callable) -> None:
    function = synthesise(**FORMS[DEMANDED]).cell.one("Lambda::Function")
    assert function["TracingConfig"] == {"Mode": "Active"}
    assert "TracingConfig" not in synthesise().cell.one("Lambda::Function")


def test_each_function_has_its_alarms_where_they_are_wanted(synthesise: Callable) -> None:
    made = synthesise(**FORMS[DEMANDED])
    alarms = made.cell.of_type("CloudWatch::Alarm").values()
    assert len(alarms) == made.configuration.alarms_of_cells == ALARMS_OF_A_FUNCTION
    topic = "arn:<AWS::Partition>:sns:<AWS::Region>:<AWS::AccountId>:spreds-alarms"
    assert {spelt(action) for alarm in alarms for action in alarm["AlarmActions"]} == {topic}
    by_metric = {alarm["MetricName"]: alarm for alarm in alarms}
    assert by_metric["Errors"]["Threshold"] == by_metric["Throttles"]["Threshold"] == 0
    limit_seconds = made.cell.one("Lambda::Function")["Timeout"]
    assert by_metric["Duration"]["Threshold"] == 800 * limit_seconds  # milliseconds
    # No plans at all: there is no figure then.
    quiet = by_metric["Invocations"]
    assert (quiet["ComparisonOperator"], quiet["Threshold"]) == ("LessThanThreshold", 1)
    assert (quiet["TreatMissingData"], quiet["EvaluationPeriods"]) == ("breaching", QUIET_HOURS)
    assert synthesise().configuration.alarms_of_cells == 0
    assert not synthesise().cell.of_type("CloudWatch::Alarm")


@pytest.mark.parametrize(
    ("named", "arn"),
    [
        (None, None),
        ("team/bound", None),
        ("bound", "arn:aws-cn:iam::123456789012:policy/bound"),
        ("arn:aws:iam::aws:policy/x/bound", "arn:aws:iam::aws:policy/x/bound"),
    ],
)
def test_a_boundary_is_a_name_or_an_arn(named: str | None, arn: str | None) -> None:
    table: dict[str, Any] = {"permissions_boundary": named} if named else {}
    if named and "/" in named and not arn:
        with pytest.raises(ValueError, match="must be the name or the ARN"):
            read_account(Fields(table, "stack.toml", "account"))
        return
    account = read_account(Fields(table, "stack.toml", "account"))
    assert account.boundary_arn(place("123456789012", "cn-north-1")) == arn


def test_all_of_it_is_read_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "stack.toml"
    path.write_text(
        "cell_alarms = true\n[nodes]\na = {}\n"
        f'[account]\npermissions_boundary = "bound"\ndocuments_key = "{KEY_ARN}"\ntraces = true\n'
        'tags = { owner = "caches" }\n'
    )
    read = read_configuration(path)
    assert read.account == Account((("owner", "caches"),), "bound", KEY_ARN, True)
    assert read.cell_alarms

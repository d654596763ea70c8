"""What no emulator looks at and AWS does: order, partitions, who may be let in, platforms."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.stacks.function_bundle import LAMBDA_PLATFORM
from tests.infra.forms import FORMS, KEY_ARN, SOLVERS

INFRA = Path(__file__).parents[2] / "infra"
# The CDK library's table of service principals (region-info) has one name in all partitions for
# these; EC2 is not among them.
SERVICES = ("lambda", "s3", "sns", "cloudwatch", "events", "ecs-tasks")

Template = dict[str, Any]


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def too_early(template: Template) -> Iterator[tuple[str, str]]:
    """Find each resource that CloudFormation may make before another that it needs, with that.

    Where a reference stands, CloudFormation sees the order itself.
    """
    resources = template["Resources"]

    def of_type(kind: str) -> Iterator[str]:
        return (name for name, one in resources.items() if one["Type"] == f"AWS::{kind}")

    def needs(name: str, other: str) -> Iterator[tuple[str, str]]:
        refers = f'"{other}"' in json.dumps(resources[name].get("Properties", {}))
        if not refers and other not in listed(resources[name].get("DependsOn", [])):
            yield name, other

    def name_of(arn: dict[str, Any]) -> str:
        return str(arn["Fn::Join"][1][-1]).rpartition(":")[2]

    for bucket in of_type("S3::Bucket"):
        told = resources[bucket]["Properties"].get("NotificationConfiguration", {})
        # S3 asks each receiver when the notification is set.
        if "LambdaConfigurations" in told:
            for permission in of_type("Lambda::Permission"):
                yield from needs(bucket, permission)
        topics = {name_of(item["Topic"]) for item in told.get("TopicConfigurations", [])}
        for policy in of_type("SNS::TopicPolicy"):
            (topic,) = resources[policy]["Properties"]["Topics"]
            if resources[topic["Ref"]]["Properties"]["TopicName"] in topics:
                yield from needs(bucket, policy)
    for subscription in of_type("SNS::Subscription"):
        # What SNS sends before the queue lets it in is lost.
        endpoint = json.dumps(resources[subscription]["Properties"]["Endpoint"])
        for permission in of_type("Lambda::Permission"):
            function = resources[permission]["Properties"]["FunctionName"]
            if json.dumps(function) == endpoint:
                yield from needs(subscription, permission)
        for policy in of_type("SQS::QueuePolicy"):
            (queue,) = resources[policy]["Properties"]["Queues"]
            if f'"{queue["Ref"]}"' in endpoint:
                yield from needs(subscription, policy)
    for function in of_type("Lambda::Function"):
        # Lambda takes a destination only if the function's role may send there by then.
        role = json.dumps(resources[function]["Properties"]["Role"])
        for policy in of_type("IAM::Policy"):
            if any(f'"{one["Ref"]}"' in role for one in resources[policy]["Properties"]["Roles"]):
                yield from needs(function, policy)
        # Lambda makes a log group of its own at the first run, and that one keeps all for ever.
        name = resources[function]["Properties"]["FunctionName"]
        for logs in of_type("Logs::LogGroup"):
            if resources[logs]["Properties"]["LogGroupName"] == f"/aws/lambda/{name}":
                yield from needs(function, logs)


def principals(template: Template) -> Iterator[tuple[dict[str, Any], Any]]:
    """Find each statement that lets somebody in, with whom."""

    def statements(value: Any) -> Iterator[dict[str, Any]]:
        if isinstance(value, dict):
            if value.get("Effect") == "Allow" and "Principal" in value:
                yield value
            for inner in value.values():
                yield from statements(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from statements(inner)

    for statement in statements(template["Resources"]):
        yield statement, statement["Principal"]
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Lambda::Permission":
            yield resource["Properties"], {"Service": resource["Properties"]["Principal"]}


@pytest.fixture(params=FORMS)
def stacks(request: pytest.FixtureRequest, synthesise: Callable) -> dict[str, Any]:
    made = synthesise(**FORMS[request.param])
    return {name: stack.template for name, stack in made.stacks.items()}


def test_nothing_is_made_before_what_it_needs(stacks: dict[str, Template]) -> None:
    for template in stacks.values():
        assert list(too_early(template)) == []


def test_the_rule_of_order_would_find_each_dependency_that_is_missing(
    synthesise: Callable,
) -> None:
    template = synthesise(**FORMS[SOLVERS]).cell.template
    found = 0
    for name, resource in template["Resources"].items():
        for other in listed(resource.get("DependsOn", [])):
            without = copy.deepcopy(template)
            left = [one for one in listed(resource["DependsOn"]) if one != other]
            without["Resources"][name]["DependsOn"] = left
            found += (name, other) in list(too_early(without))
    # Buckets on three permissions and a policy, functions on their logs and their roles' policies,
    # subscriptions on the queues' policies.
    assert found == 3 + 1 + 3 + 3 + 3


def test_only_named_services_of_the_account_are_let_in(stacks: dict[str, Template]) -> None:
    known = {f"{service}.amazonaws.com" for service in SERVICES}
    for template in stacks.values():
        for statement, principal in principals(template):
            assert set(principal) == {"Service"}, statement
            assert set(listed(principal["Service"])) <= known, statement


def test_no_template_names_a_partition_or_a_domain(stacks: dict[str, Template]) -> None:
    for template in stacks.values():
        text = json.dumps(template).replace(KEY_ARN, "the account's own key")
        assert "arn:aws" not in text
        # But for services' own names, which are the same everywhere.
        rest = re.sub(r"\b(" + "|".join(SERVICES) + r")\.amazonaws\.com\b", "", text)
        assert "amazonaws.com" not in rest


def test_no_source_names_a_partition() -> None:
    """But for the rule of names, and the emulator, which has only one."""
    for path in sorted(INFRA.rglob("*.py")):
        parts = path.relative_to(INFRA).parts
        if parts[0] in ("node_modules", "cdk.out", "emulator"):
            continue
        assert not re.search(r"arn:aws\b", path.read_text()), path


def test_the_bundle_is_for_the_functions_runtime_and_processor(synthesise: Callable) -> None:
    function = synthesise().cell.one("Lambda::Function")
    options = dict(zip(LAMBDA_PLATFORM[::2], LAMBDA_PLATFORM[1::2], strict=True))
    assert function["Runtime"] == f"python{options['--python-version']}"
    assert function["Architectures"] == ["arm64"]
    assert options["--python-platform"].startswith("aarch64-")


def test_what_waits_and_what_ends_in_time(synthesise: Callable) -> None:
    made = synthesise()
    function = made.cell.one("Lambda::Function")
    assert function["Timeout"] <= 900  # seconds; Lambda's most
    assert made.cell.one("Lambda::EventInvokeConfig")["MaximumEventAgeInSeconds"] <= 21_600
    dead = made.shared.of_type("SQS::Queue").values()
    for queue in made.cell.of_type("SQS::Queue").values():
        # A letter keeps the time at which it was sent first.
        assert all(queue["MessageRetentionPeriod"] < one["MessageRetentionPeriod"] for one in dead)
        assert queue["ReceiveMessageWaitTimeSeconds"] <= 20  # SQS' most


def test_with_two_topics_each_function_is_called_by_its_own(synthesise: Callable) -> None:
    """Figure 8.2 of the thesis: S3 tells a topic of observations, and that calls the function."""
    cell = synthesise(**FORMS["topics"]).cell
    assert {topic["TopicName"] for topic in cell.of_type("SNS::Topic").values()} == {
        "spreds-main-plans",
        "spreds-main-observations-dirichlet",
        "spreds-main-observations-hill-climbing",
    }
    (told,) = [
        bucket["NotificationConfiguration"]["TopicConfigurations"]
        for bucket in cell.of_type("S3::Bucket").values()
        if len(bucket["NotificationConfiguration"]["TopicConfigurations"]) == 2
    ]
    assert {
        item["Filter"]["S3Key"]["Rules"][0]["Value"]: item["Topic"]["Fn::Join"][1][-1]
        for item in told
    } == {
        "observations/a/": ":spreds-main-observations-dirichlet",
        "observations/b/": ":spreds-main-observations-hill-climbing",
    }
    functions = cell.of_type("Lambda::Function")
    called = {
        cell.of_type("SNS::Topic")[item["TopicArn"]["Ref"]]["TopicName"].rpartition("s-")[2]: (
            functions[item["Endpoint"]["Fn::GetAtt"][0]]["FunctionName"].rpartition("r-")[2]
        )
        for item in cell.of_type("SNS::Subscription").values()
        if item["Protocol"] == "lambda"
    }
    assert called == {"dirichlet": "dirichlet", "hill-climbing": "hill-climbing"}

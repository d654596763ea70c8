"""Whatever one resource hands on to another, the receiver's policy admits the sender.

No emulator checks it, and what a policy does not admit is lost without a word.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import pytest

from tests.infra.forms import FORMS


class Delivery(NamedTuple):
    """``service`` hands something on from ``source`` to ``receiver``: ARNs as the template has
    them. A service that acts by a role (``role``) needs that role's policy instead."""

    action: str
    service: str
    source: str
    receiver: str
    role: str | None = None


def within(stack: str, value: Any) -> Any:
    """A value of a template whose references name the stack that they are in."""
    if isinstance(value, list):
        return [within(stack, item) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"Ref"} and not value["Ref"].startswith("AWS::"):
        return {"Ref": f"{stack}/{value['Ref']}"}
    if set(value) == {"Fn::GetAtt"}:
        logical_id, attribute = value["Fn::GetAtt"]
        return {"Fn::GetAtt": [f"{stack}/{logical_id}", attribute]}
    return {key: within(stack, item) for key, item in value.items()}


def text(value: Any) -> str:
    """A value of the template as it would be spelt: the same resource, the same text."""
    if isinstance(value, dict):
        ((function, argument),) = value.items()
        if function == "Ref":
            return f"<{argument}>"
        if function == "Fn::GetAtt":
            return f"<{argument[0]}.{argument[1]}>"
        assert function == "Fn::Join", function
        return argument[0].join(map(text, argument[1]))
    return str(value)


class Stacks:
    """All templates of an installation as one, by what the tests ask of it; the same kind of thing
    has the same logical id in each cell, so a stack's name stands before it."""

    def __init__(self, templates: dict[str, dict[str, Any]]) -> None:
        self.resources = {
            f"{stack}/{logical_id}": within(stack, resource)
            for stack, template in templates.items()
            for logical_id, resource in template["Resources"].items()
        }
        self._names: dict[str, str] = {}
        for logical_id, resource in self.resources.items():
            properties = resource.get("Properties", {})
            for service, key in (
                ("s3", "BucketName"),
                ("sqs", "QueueName"),
                ("sns", "TopicName"),
                ("lambda", "FunctionName"),
                ("events", "Name"),
            ):
                if key in properties and resource["Type"].lower().startswith(f"aws::{service}"):
                    self._names[text(properties[key])] = logical_id

    def of_type(self, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
        for logical_id, resource in self.resources.items():
            if resource["Type"] == f"AWS::{kind}":
                yield logical_id, resource.get("Properties", {})

    def who(self, arn: Any) -> str:
        """Logical id of what an ARN, literal or referred to, belongs to."""
        spelt = text(arn)
        if spelt.startswith("<") and spelt.endswith(">") and spelt.count("<") == 1:
            return spelt[1:-1].partition(".")[0]
        found = [i for name, i in self._names.items() if spelt.endswith((f":{name}", f"::{name}"))]
        assert len(found) == 1, spelt
        return found[0]

    def deliveries(self) -> Iterator[Delivery]:
        yield from self._from_buckets()
        yield from self._from_topics()
        yield from self._from_functions()
        yield from self._from_rules()
        for alarm, properties in self.of_type("CloudWatch::Alarm"):
            for action in properties["AlarmActions"]:
                yield Delivery("sns:Publish", "cloudwatch.amazonaws.com", alarm, self.who(action))

    def _from_buckets(self) -> Iterator[Delivery]:
        for bucket, properties in self.of_type("S3::Bucket"):
            told = properties.get("NotificationConfiguration", {})
            assert set(told) <= {
                "LambdaConfigurations", "TopicConfigurations", "EventBridgeConfiguration",
            }  # fmt: skip
            for item in told.get("LambdaConfigurations", []):
                yield Delivery(
                    "lambda:InvokeFunction", "s3.amazonaws.com", bucket, self.who(item["Function"])
                )
            for item in told.get("TopicConfigurations", []):
                yield Delivery("sns:Publish", "s3.amazonaws.com", bucket, self.who(item["Topic"]))

    def _from_topics(self) -> Iterator[Delivery]:
        for _, properties in self.of_type("SNS::Subscription"):
            topic = self.who(properties["TopicArn"])
            receivers = [properties["RedrivePolicy"]["deadLetterTargetArn"]]
            if properties["Protocol"] == "lambda":
                function = self.who(properties["Endpoint"])
                yield Delivery("lambda:InvokeFunction", "sns.amazonaws.com", topic, function)
            if properties["Protocol"] == "sqs":
                receivers.append(properties["Endpoint"])
            for receiver in receivers:
                yield Delivery("sqs:SendMessage", "sns.amazonaws.com", topic, self.who(receiver))

    def _from_functions(self) -> Iterator[Delivery]:
        for _, properties in self.of_type("Lambda::EventInvokeConfig"):
            function = properties["FunctionName"]["Ref"]
            role = self.who(self.resources[function]["Properties"]["Role"])
            receiver = self.who(properties["DestinationConfig"]["OnFailure"]["Destination"])
            yield Delivery("sqs:SendMessage", "lambda.amazonaws.com", function, receiver, role)

    def _from_rules(self) -> Iterator[Delivery]:
        for rule, properties in self.of_type("Events::Rule"):
            for target in properties["Targets"]:
                receiver = self.who(target["Arn"])
                if "EcsParameters" in target:
                    task = self.who(target["EcsParameters"]["TaskDefinitionArn"])
                    role = self.who(target["RoleArn"])
                    yield Delivery("ecs:RunTask", "events.amazonaws.com", rule, task, role)
                else:
                    yield Delivery("sqs:SendMessage", "events.amazonaws.com", rule, receiver)
                if "DeadLetterConfig" in target:
                    dead = self.who(target["DeadLetterConfig"]["Arn"])
                    yield Delivery("sqs:SendMessage", "events.amazonaws.com", rule, dead)

    def admits(self, delivery: Delivery) -> bool:
        statements = [
            statement
            for kind, target in (
                ("SQS::QueuePolicy", "Queues"),
                ("SNS::TopicPolicy", "Topics"),
                ("IAM::Policy", "Roles"),
            )
            for _, properties in self.of_type(kind)
            if delivery.role is None or kind == "IAM::Policy"
            for holder in properties[target]
            if self.who(holder) == (delivery.role or delivery.receiver)
            for statement in properties["PolicyDocument"]["Statement"]
        ]
        permitted = [
            permission
            for _, permission in self.of_type("Lambda::Permission")
            if self.who(permission["FunctionName"]) == delivery.receiver
            and (permission["Action"], permission["Principal"])
            == (delivery.action, delivery.service)
            and self.who(permission["SourceArn"]) == delivery.source
        ]
        return bool(permitted) or any(self._allows(item, delivery) for item in statements)

    def _allows(self, statement: dict[str, Any], delivery: Delivery) -> bool:
        def listed(value: Any) -> list[Any]:
            return value if isinstance(value, list) else [value]

        if statement["Effect"] != "Allow" or delivery.action not in listed(statement["Action"]):
            return False
        if delivery.receiver not in [self.who(item) for item in listed(statement["Resource"])]:
            return False
        if delivery.role is not None:
            return True
        if delivery.service not in listed(statement["Principal"].get("Service")):
            return False
        sources = [
            source
            for operator, keys in statement.get("Condition", {}).items()
            if operator in ("ArnEquals", "ArnLike")
            for source in listed(keys["aws:SourceArn"])
        ]
        return not sources or any(self._is(delivery.source, source) for source in sources)

    def _is(self, who: str, arn: Any) -> bool:
        """Whether an ARN, which may stand for all cells', is that of ``who``."""
        spelt = text(arn)
        if "*" not in spelt:
            return self.who(arn) == who
        own = {logical_id: name for name, logical_id in self._names.items()}
        kind, _, pattern = spelt.rpartition(":")
        service = self.resources[who]["Type"].split("::")[1].lower()
        name = own[who] if service != "events" else f"rule/{own[who]}"
        return f":{service}:" in kind and fnmatchcase(name, pattern)


def templates(made: Any) -> dict[str, dict[str, Any]]:
    return {name: stack.template for name, stack in made.stacks.items()}


@pytest.mark.parametrize("form", FORMS)
def test_each_receiver_admits_its_sender(form: str, synthesise: Callable) -> None:
    stacks = Stacks(templates(synthesise(**FORMS[form])))
    deliveries = list(stacks.deliveries())
    assert deliveries
    for delivery in deliveries:
        assert stacks.admits(delivery), delivery


@pytest.mark.parametrize("form", FORMS)
def test_without_a_statement_somebody_is_not_admitted(form: str, synthesise: Callable) -> None:
    """The test above sees each statement that lets a service in."""
    made = templates(synthesise(**FORMS[form]))
    taken_out = 0
    for name, template in made.items():
        for logical_id, resource in template["Resources"].items():
            if resource["Type"] not in ("AWS::SQS::QueuePolicy", "AWS::SNS::TopicPolicy"):
                continue
            policy = resource["Properties"]["PolicyDocument"]
            for place, statement in enumerate(policy["Statement"]):
                if statement["Effect"] == "Deny":
                    continue
                without = copy.deepcopy(made)
                changed = without[name]["Resources"][logical_id]["Properties"]
                del changed["PolicyDocument"]["Statement"][place]
                stacks = Stacks(without)
                assert not all(map(stacks.admits, stacks.deliveries())), json.dumps(statement)
                taken_out += 1
    assert taken_out >= 3


def test_nobody_is_let_in_from_outside_of_the_account(synthesise: Callable) -> None:
    """Each statement for a service names its sources, or at least the account."""
    for form in FORMS.values():
        for resource in Stacks(templates(synthesise(**form))).resources.values():
            if resource["Type"] == "AWS::Lambda::Permission":
                assert {"SourceAccount", "SourceArn"} <= set(resource["Properties"])
            if not resource["Type"].endswith(("QueuePolicy", "TopicPolicy", "BucketPolicy")):
                continue
            for statement in resource["Properties"]["PolicyDocument"]["Statement"]:
                if statement["Effect"] == "Deny":
                    continue
                assert set(statement["Principal"]) == {"Service"}, statement
                assert statement["Condition"]["StringEquals"] == {
                    "aws:SourceAccount": {"Ref": "AWS::AccountId"}
                }


def test_the_task_may_be_started_with_its_roles(synthesise: Callable) -> None:
    stacks = Stacks(templates(synthesise(controller="fargate")))
    (start,) = [d for d in stacks.deliveries() if d.action == "ecs:RunTask"]
    task = stacks.resources[start.receiver]["Properties"]
    for key in ("TaskRoleArn", "ExecutionRoleArn"):
        passed = start._replace(action="iam:PassRole", receiver=stacks.who(task[key]))
        assert stacks.admits(passed), key

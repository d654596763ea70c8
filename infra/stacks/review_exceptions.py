"""Findings of the review tools that we accept, each with the reason.

cdk-nag's AWS Solutions pack runs at each ``cdk synth`` and fails it on anything that is not named
here; cfn-lint and checkov read their exceptions from the template. A finding is named exactly: a
wider wildcard, or the same one in another role, is a new finding.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from aws_cdk import Acknowledgment, App, CfnResource, Stack, Validations, aws_iam
from cdk_nag import AwsSolutionsChecks
from constructs import IConstruct

NO_ACCESS_LOGS = (
    "Nobody outside the account can use the bucket, and S3's event of each document names who "
    "wrote it. Access logs would need a third bucket that grows faster than these; CloudTrail's "
    "data events can be switched on for the account."
)
IS_A_DEAD_LETTER_QUEUE = (
    "This is itself a dead-letter queue: of a function, an event rule or a subscription, at which "
    "the rule does not look."
)
OWN_PREFIX = "The documents under this prefix have no names yet; nothing outside it can be touched."
OWN_BY_TAG = (
    "Stands for the installation's cells, by the rule of their names, and for documents without "
    "names yet under the prefix of the caller's own tag; other accounts' buckets are excluded."
)
OWN_LOG_STREAMS = "Lambda names the streams of the function's own log group as it runs."
TRACES = "X-Ray takes no resource; the library writes the statement."
NO_FLOW_LOGS = (
    "Nothing listens in this network and no security group lets anything in; its tasks live for "
    "seconds, and S3's own events say what they wrote."
)
NO_CONTAINER_INSIGHTS = "A task's log and exit code say all there is about a run of a second."
NO_SECRETS = "The variables are names of buckets."
REGISTRY_LOGIN = "ecr:GetAuthorizationToken takes no resource; the library writes the statement."
OWN_TASKS = (
    "Tasks of the own cluster get their names when they run; the library writes the statement."
)

OWN_KEYS = (
    "AWS encrypts it with a key of its own; what it holds are names of documents and figures."
)
# By type of resource, as the same holds for all of a type; `documents_key` is for the documents.
CHECKOV = {
    "AWS::S3::Bucket": {"CKV_AWS_18": NO_ACCESS_LOGS},
    "AWS::SNS::Topic": {
        "CKV_AWS_26": "S3's events and alarms name documents, and hold none. S3 may use a topic "
        "with a key only where that is the customer's own, for a dollar a month.",
    },
    "AWS::SQS::Queue": {"CKV_AWS_27": f"{OWN_KEYS} The check does not know SqsManagedSseEnabled."},
    "AWS::Logs::LogGroup": {"CKV_AWS_158": OWN_KEYS},
    "AWS::ECS::Cluster": {"CKV_AWS_65": NO_CONTAINER_INSIGHTS},
    "AWS::Lambda::Function": {
        "CKV_AWS_115": "`reserved_concurrency` sets it: an account that may run only ten functions "
        "at once cannot reserve any.",
        "CKV_AWS_116": "What failed goes to the queue of refused observations: the destination of "
        "asynchronous calls says more than a dead letter.",
        "CKV_AWS_117": "It speaks to S3 alone, by its role; a network of its own would need an "
        "endpoint, and makes its cold start longer.",
        "CKV_AWS_173": NO_SECRETS,
    },
}

CFN_LINT = {
    "W3005": "The CDK library repeats dependencies that a reference implies; they do no harm.",
}


def review(app: App, stacks: Sequence[Stack]) -> None:
    """Let cdk-nag look at ``app`` at synthesis, and tell cfn-lint and checkov of theirs."""
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    for stack in stacks:
        stack.template_options.metadata = {
            "cfn-lint": {"config": {"ignore_checks": list(CFN_LINT)}}
        }
        for construct in stack.node.find_all():
            if isinstance(construct, CfnResource):
                _tell_checkov(construct)


def _tell_checkov(resource: CfnResource) -> None:
    if found := CHECKOV.get(resource.cfn_resource_type):
        skipped = [{"id": rule, "comment": why} for rule, why in found.items()]
        resource.add_metadata("checkov", {"skip": skipped})


def accept(construct: IConstruct, rule: str, reason: str) -> None:
    """Accept AWS Solutions' finding ``rule`` on ``construct``."""
    Validations.of(construct).acknowledge(Acknowledgment(id=f"AwsSolutions-{rule}", reason=reason))


def accept_wildcards(construct: IConstruct, statement: aws_iam.PolicyStatement, why: str) -> None:
    """Accept the resources of ``statement`` that have a wildcard."""
    stack = Stack.of(construct)
    for resource in stack.resolve(statement.resources):
        text = _text(resource)
        if "*" in text:
            accept(construct, f"IAM5[Resource::{text}]", why)


def _text(resource: object) -> str:
    """A resolved ARN as cdk-nag spells it: references in angle brackets."""
    if isinstance(resource, dict):
        if "Ref" in resource:
            return f"<{resource['Ref']}>"
        if "Fn::GetAtt" in resource:
            return f"<{'.'.join(resource['Fn::GetAtt'])}>"
        _, parts = resource["Fn::Join"]
        return "".join(map(_text, parts))
    # A policy's own variable, of the caller, looks like a reference there.
    return re.sub(r"\$\{(.*?)\}", r"<\1>", str(resource))

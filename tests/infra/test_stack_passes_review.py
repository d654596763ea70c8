"""cdk-nag and cfn-lint find nothing in any form of the stacks, and would find something."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from aws_cdk import App, Stack, aws_iam, aws_s3

from infra.stack_file.configured_nodes import Node
from infra.stacks.review_exceptions import CHECKOV, accept_wildcards, review
from tests.infra import forms

# One in each partition.
REGIONS = ("us-east-1", "cn-north-1", "us-gov-west-1")


def nodes(delivery: str, solver: str) -> dict[str, tuple[Node, ...]]:
    """One node, and several, by how plans come to them."""
    queued = Node("queued", solver=solver)
    posted = Node("posted", "http", "https://posted.example.com/plans", solver)
    one = {"sqs": (queued,), "http": (posted,)}
    if delivery in one:
        return {
            "one": one[delivery],
            "two": (*one[delivery], replace(one[delivery][0], name="other", cell="second")),
        }
    return {"both": (queued, posted), "all": (queued, posted, Node("other"))}


FORMS = {
    f"{controller}-{delivery}-{solver}-{count}": {"controller": controller, "nodes": chosen}
    for controller in ("lambda", "fargate", "embedded")
    for delivery in ("sqs", "http", "mixed")
    for solver in ("auto", "dirichlet", "hill_climbing")
    # Only functions run one solver alone, however plans come to the nodes.
    if solver == "auto" or (controller, delivery) == ("lambda", "mixed")
    for count, chosen in nodes(delivery, solver).items()
}


@pytest.mark.parametrize("form", FORMS)
def test_cdk_nag_lets_the_stacks_pass(form: str, synthesise: Callable) -> None:
    for stack in synthesise(**FORMS[form]).stacks.values():
        assert stack.template["Resources"]


def test_cfn_lint_finds_nothing_and_each_partition_has_what_is_used(synthesise: Callable) -> None:
    # Forms share templates: each is looked at once.
    templates = {
        stack.path.read_bytes(): stack.path
        for form in (*FORMS.values(), *forms.FORMS.values())
        for stack in synthesise(**form).stacks.values()
    }.values()
    program = Path(sys.executable).with_name("cfn-lint")
    found = subprocess.run(
        [program, "--regions", *REGIONS, "--", *templates], capture_output=True, text=True
    )
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


def test_each_finding_of_checkov_is_answered_in_the_template(synthesise: Callable) -> None:
    """checkov itself brings 200 packages: the page of cells says how to run it."""
    found: dict[str, set[str]] = {}
    for form in FORMS.values():
        for stack in synthesise(**form).stacks.values():
            for resource in stack.template["Resources"].values():
                skipped = resource.get("Metadata", {}).get("checkov", {}).get("skip", [])
                assert all(len(one["comment"].split()) > 5 for one in skipped)
                found.setdefault(resource["Type"], set()).update(one["id"] for one in skipped)
    assert {kind: {*rules} for kind, rules in CHECKOV.items()} == {
        kind: rules for kind, rules in found.items() if rules
    }


@pytest.fixture
def careless(tmp_path: Path) -> tuple[App, Stack]:
    app = App(outdir=str(tmp_path), analytics_reporting=False)
    stack = Stack(app, "careless")
    review(app, [stack])
    return app, stack


def test_an_open_bucket_fails_the_synthesis(careless: tuple[App, Stack]) -> None:
    app, stack = careless
    aws_s3.Bucket(stack, "Open")
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app.synth()


def test_a_wildcard_is_accepted_only_where_it_was_named(careless: tuple[App, Stack]) -> None:
    app, stack = careless
    role = aws_iam.Role(stack, "Role", assumed_by=aws_iam.AccountRootPrincipal())
    narrow, wide = (
        aws_iam.PolicyStatement(actions=["s3:GetObject"], resources=[f"arn:aws:s3:::bucket/{path}"])
        for path in ("plans/*", "*")
    )
    role.add_to_policy(narrow)
    accept_wildcards(role, narrow, "for this test")
    app.synth()
    role.add_to_policy(wide)
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app.synth(force=True)

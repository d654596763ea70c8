"""A thousand nodes are as many cells as they need, and one more changes one cell alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra.stack_file.configuration import read_configuration

Make = Callable[[str], Any]


@pytest.fixture
def make(synthesise: Callable, tmp_path: Path) -> Make:
    def of(nodes: str) -> Any:
        """The stacks of a file with these lines under ``[nodes]``."""
        path = tmp_path / "stack.toml"
        path.write_text(f'name = "spreds"\n[nodes]\n{nodes}\n')
        return synthesise(read_configuration(path))

    return of


def resources(made: Any) -> int:
    return sum(len(stack.template["Resources"]) for stack in made.stacks.values())


def test_a_thousand_nodes(make: Make) -> None:
    made = make('"cache-{0001..1000}" = {}')
    assert set(made.stacks) == {"spreds", *(f"spreds-cache-{number}" for number in range(26))}
    queues = [
        queue["QueueName"]
        for name, stack in made.stacks.items()
        if name != "spreds"
        for queue in stack.of_type("SQS::Queue").values()
    ]
    assert sorted(queues) == [f"spreds_cache-{number:04d}" for number in range(1, 1001)]
    outputs = {len(stack.template["Outputs"]) for stack in made.stacks.values()}
    assert outputs == {1, 5}


def test_a_node_is_three_resources_at_most_and_a_cell_a_fixed_number(make: Make) -> None:
    """So they grow in a straight line."""
    shared = len(make("a = {}").shared.template["Resources"])
    cell = len(make("a = {}").cell.template["Resources"]) - 3
    for count, cells in ((39, 1), (40, 2), (120, 4), (400, 11)):
        made = make(f'"cache-{{001..{count:03d}}}" = {{}}')
        assert resources(made) == shared + cells * cell + 3 * count
    posted = make('a = { delivery = "http", public_url = "https://a.example.com" }')
    assert resources(posted) == shared + cell + 1


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ('"cache-{001..090}" = {}', '"cache-{001..091}" = {}', "spreds-cache-2"),
        ('"cache-{001..090}" = {}', '"cache-{001..090}" = {}\nsingle = {}', "spreds-main"),
        ('"cache-{001..119}" = {}', '"cache-{001..120}" = {}', "spreds-cache-3"),
        ('a = {}\nb = { cell = "x" }', 'a = {}\nb = { cell = "x" }\nc = {}', "spreds-main"),
        (
            'a = {}\nb = { cell = "x" }',
            'c = { cell = "x" }\nb = { cell = "x" }\na = {}',
            "spreds-x",
        ),
    ],
)
def test_one_node_more_changes_one_cell_and_nothing_else(
    make: Make, before: str, after: str, changed: str
) -> None:
    old, new = make(before), make(after)
    assert set(old.stacks) <= set(new.stacks)
    assert [
        name
        for name, stack in new.stacks.items()
        if name not in old.stacks or stack.template != old.stacks[name].template
    ] == [changed]
    if changed not in old.stacks:  # the first node of a new cell
        return
    had, has = (made.stacks[changed].template["Resources"] for made in (old, new))
    assert {name: has[name] for name in had} == had
    assert sorted(has[name]["Type"] for name in set(has) - set(had)) == [
        "AWS::SNS::Subscription", "AWS::SQS::Queue", "AWS::SQS::QueuePolicy",
    ]  # fmt: skip


def test_cells_come_after_what_they_share(make: Make) -> None:
    made = make('"cache-{001..090}" = {}')
    manifest = (made.folder / "manifest.json").read_text()
    artifacts = json.loads(manifest)["artifacts"]
    for name in made.stacks:
        assert ("spreds" in artifacts[name]["dependencies"]) is (name != "spreds")


def test_no_stack_refers_to_another_ones_outputs(make: Make) -> None:
    for stack in make('"cache-{001..090}" = {}').stacks.values():
        text = stack.path.read_text()
        assert "Fn::ImportValue" not in text
        assert '"Export"' not in text


def test_synthesis_needs_no_credentials(tmp_path: Path) -> None:
    """The application by itself, as `cdk synth` starts it."""
    stack = tmp_path / "stack.toml"
    stack.write_text('[nodes]\n"cache-{01..41}" = {}\n')
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    infra = Path(__file__).parents[2] / "infra"
    subprocess.run(
        [sys.executable, "-P", "app.py"],
        cwd=infra,
        env=environment
        | {
            "AWS_CONFIG_FILE": str(tmp_path / "none"),
            "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
            "AWS_EC2_METADATA_DISABLED": "true",
            "CDK_OUTDIR": str(tmp_path / "out"),
            "CDK_CONTEXT_JSON": f'{{"configuration": "{stack}"}}',
        },
        check=True,
    )
    assert len(list((tmp_path / "out").glob("*.template.json"))) == 3

"""Machines with the tag become lines of the stack's file, which stay what they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from infra import nodes
from infra.stack_file.configuration import read_configuration

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ec2(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        yield boto3.client("ec2")


@pytest.fixture
def start(ec2: Any) -> Callable[..., str]:
    image = ec2.describe_images()["Images"][0]["ImageId"]

    def of(name: str, tag: str = "spreds-node") -> str:
        specifications = [{"ResourceType": "instance", "Tags": [{"Key": tag, "Value": name}]}]
        started = ec2.run_instances(
            ImageId=image, MinCount=1, MaxCount=1, TagSpecifications=specifications
        )
        return str(started["Instances"][0]["InstanceId"])

    return of


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def of(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["nodes", *arguments])
        code = nodes._main()
        said = capsys.readouterr()
        return code, said.out, said.err

    return of


@pytest.fixture
def stack(tmp_path: Path) -> Path:
    path = tmp_path / "stack.toml"
    path.write_text("nodes_per_cell = 2\n[nodes]  # one a line\nweb = {}\n")
    return path


def test_new_machines_fill_cells_that_stay_theirs(
    start: Callable[..., str], ec2: Any, run: Run, stack: Path
) -> None:
    for name in ("web", "db-2", "db-1", "db-3"):
        start(name)
    start("other", tag="Name")
    gone = start("gone")
    ec2.terminate_instances(InstanceIds=[gone])
    text = stack.read_text()
    lines = 'db-1 = { cell = "tagged-0" }\ndb-2 = { cell = "tagged-0" }\n'
    lines += 'db-3 = { cell = "tagged-1" }\n'
    told = "nodes: 4 machines, 3 of them new\n"
    assert run("--stack", str(stack)) == (0, lines, told)
    assert stack.read_text() == text
    assert run("--into", str(stack)) == (0, lines, told)
    assert stack.read_text() == text + lines
    # A machine that comes and one that goes change no other one's line.
    start("a-new-one")
    ec2.terminate_instances(InstanceIds=[_instance(ec2, "db-1")])
    assert run("--into", str(stack))[1] == 'a-new-one = { cell = "tagged-1" }\n'
    assert run("--into", str(stack))[1] == ""
    cells = {node.name: node.cell for node in read_configuration(stack).nodes}
    assert cells == {
        "web": "main", "db-1": "tagged-0", "db-2": "tagged-0", "db-3": "tagged-1",
        "a-new-one": "tagged-1",
    }  # fmt: skip


def _instance(ec2: Any, name: str) -> str:
    filters = [{"Name": "tag:spreds-node", "Values": [name]}]
    (found,) = ec2.describe_instances(Filters=filters)["Reservations"]
    return str(found["Instances"][0]["InstanceId"])


def test_more_machines_than_a_page_holds(
    start: Callable[..., str], run: Run, tmp_path: Path
) -> None:
    stack = tmp_path / "stack.toml"
    stack.write_text("[nodes]\n")
    for number in range(90):
        start(f"m-{number}")
    assert run("--into", str(stack))[2] == "nodes: 90 machines, 90 of them new\n"
    cells = [len(cell.nodes) for cell in read_configuration(stack).cells]
    assert cells == [40, 40, 10]


def test_machines_that_cannot_be_nodes_are_named_and_keep_nobody_out(
    start: Callable[..., str], run: Run, stack: Path
) -> None:
    twins = sorted((start("db"), start("db")))
    odd = start("Not A Node")
    start("fine")
    code, said, told = run("--into", str(stack))
    line = 'fine = { cell = "tagged-0" }\n'
    assert (code, said) == (1, line)
    assert stack.read_text().endswith(line)
    first, second, last = told.splitlines()
    assert first.startswith(f"nodes: left out: {odd} has spreds-node = 'Not A Node', which cannot")
    assert second == (
        f"nodes: left out: {twins[0]} and {twins[1]} have the same spreds-node = db: a node is one "
        "machine"
    )
    assert last == "nodes: 1 machines, 1 of them new"


def test_a_file_that_goes_on_after_its_nodes_is_left_as_it_is(
    start: Callable[..., str], run: Run, tmp_path: Path
) -> None:
    stack = tmp_path / "stack.toml"
    stack.write_text("[nodes]\n[nodes.web]\n")
    start("db")
    code, _, told = run("--into", str(stack))
    assert (code, told) == (1, f"nodes: {stack}: must end with the lines of its [nodes]\n")
    assert stack.read_text() == "[nodes]\n[nodes.web]\n"


def test_lines_that_the_file_would_refuse_are_not_proposed(
    start: Callable[..., str], run: Run, tmp_path: Path
) -> None:
    stack = tmp_path / "stack.toml"
    stack.write_text('name = "abcdefghijklmno"\n[nodes]\nweb = {}\n')
    start("db")
    code, proposed, told = run("--stack", str(stack))
    assert (code, proposed, told.count("\n")) == (1, "", 1)
    assert "abcdefghijklmno-tagged-0" in told


def test_what_the_client_lacks_is_said(
    run: Run, stack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(stack.with_name("none")))
    code, said, told = run("--stack", str(stack))
    assert (code, said, told) == (1, "", "nodes: You must specify a region.\n")

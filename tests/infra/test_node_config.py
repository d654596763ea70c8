"""What the command writes is what the sidecar reads."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import sidecar
from infra.node_config import (
    NodeConfigError,
    controller_table,
    controller_toml,
    read_outputs,
    replace_controller,
)
from infra.outputs import output_name
from sidecar.config.controller_config import read_controller
from sidecar.config.node import load_config
from solver_lambda.documents.reader import Fields

OUTPUTS = {
    "Controller": "lambda",
    "Region": "us-east-2",
    "ObservationsBucket": "spreds-observations-123456789012-us-east-2",
    "PlansBucket": "spreds-plans-123456789012-us-east-2",
    "PlansTopicArn": "arn:aws:sns:us-east-2:123456789012:spreds-plans",
    "Node1QueueUrl": "https://sqs.us-east-2.amazonaws.com/123456789012/spreds_node-1",
    "EdgePublicUrl": "https://edge.example.com/plans",
}


def read_back(text: str, folder: Path) -> object:
    table = tomllib.loads(text)["controller"]
    return read_controller(Fields(table, "sidecar.toml", "controller"), folder)


@pytest.mark.parametrize("kind", ["lambda", "fargate", "embedded"])
def test_the_sidecar_reads_what_was_written(kind: str, tmp_path: Path) -> None:
    outputs = {**OUTPUTS, "Controller": kind}
    queued = read_back(controller_toml(controller_table(outputs, "node-1")), tmp_path)
    # Somebody plans also when the cloud is away.
    assert queued.kind == ("embedded" if kind == "embedded" else "auto")
    assert queued.plan_deadline_seconds == (180 if kind == "fargate" else 30)
    assert queued.cloud.queue_url == OUTPUTS["Node1QueueUrl"]
    assert queued.cloud.region == "us-east-2"
    posted = read_back(
        controller_toml(controller_table(outputs, "edge", listen="127.0.0.1:8081")), tmp_path
    )
    assert posted.cloud.listen == ("127.0.0.1", 8081)


def test_a_node_that_the_stack_does_not_know_is_named() -> None:
    with pytest.raises(NodeConfigError, match=r"no Node2QueueUrl: is 'node-2' a node"):
        controller_table(OUTPUTS, "node-2")


def test_the_command_takes_what_cdk_wrote(tmp_path: Path) -> None:
    file = tmp_path / "outputs.json"
    file.write_text(json.dumps({"spreds": OUTPUTS}))
    assert read_outputs(file) == OUTPUTS
    command = [sys.executable, "-m", "infra.node_config", "--outputs", str(file), "--node"]
    said = subprocess.run([*command, "node-1"], capture_output=True, text=True, check=True)
    assert tomllib.loads(said.stdout)["controller"]["plans_bucket"] == OUTPUTS["PlansBucket"]
    refused = subprocess.run([*command, "nobody"], capture_output=True, text=True)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "NobodyQueueUrl" in refused.stderr


def example_of(node: str) -> str:
    text = Path(sidecar.__file__).with_name("example.toml").read_text()
    assert 'node = "cache-1"' in text
    return text.replace('node = "cache-1"', f'node = "{node}"')


def test_another_nodes_file_is_left_as_it_is(tmp_path: Path) -> None:
    outputs, node = tmp_path / "outputs.json", tmp_path / "node.toml"
    outputs.write_text(json.dumps({"spreds": OUTPUTS}))
    node.write_text(example_of("node-2"))
    command = [sys.executable, "-m", "infra.node_config", "--outputs", str(outputs)]
    command += ["--into", str(node), "--node", "node-1"]
    refused = subprocess.run(command, capture_output=True, text=True)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        f"node_config: {node}: node is 'node-2' there, and --node is 'node-1'\n"
    )
    assert node.read_text() == example_of("node-2")


def test_it_takes_the_place_of_the_examples_own_table(tmp_path: Path) -> None:
    outputs, node = tmp_path / "outputs.json", tmp_path / "node.toml"
    outputs.write_text(json.dumps({"spreds": OUTPUTS}))
    example = example_of("node-1")
    node.write_text(example)
    node.chmod(0o600)
    command = [sys.executable, "-m", "infra.node_config", "--outputs", str(outputs)]
    command += ["--into", str(node), "--node"]
    for _ in range(2):  # a second time changes nothing
        subprocess.run([*command, "node-1"], check=True)
        config = load_config(node)
        assert config.controller.kind == "auto"
        assert config.controller.folder == tmp_path / "documents"
        assert config.controller.cloud is not None
        assert config.controller.cloud.queue_url == OUTPUTS["Node1QueueUrl"]
    assert node.stat().st_mode & 0o777 == 0o600
    before, after = tomllib.loads(example), tomllib.loads(node.read_text())
    assert {k: v for k, v in before.items() if k != "controller"} == {
        k: v for k, v in after.items() if k != "controller"
    }
    # Comments of other tables stay.
    assert example.partition("[planning]")[2] in node.read_text()
    node.write_text("[controller")
    refused = subprocess.run([*command, "node-1"], capture_output=True, text=True)
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert str(node) in refused.stderr
    assert node.read_text() == "[controller"


@pytest.mark.parametrize(
    "text", ["", "budget = 1", "[a]\n[controller]\nkind = 'auto' # x\n[[b]]\n"]
)
def test_a_file_without_the_table_or_in_its_midst_gets_it_once(text: str) -> None:
    table = controller_table(OUTPUTS, "node-1")
    replaced = replace_controller(text, table)
    assert tomllib.loads(replaced) == {**tomllib.loads(text), "controller": table}


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"a": {}, "b": {}}', '{"other": {"X": "y"}}'])
def test_another_file_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "outputs.json"
    file.write_text(text)
    with pytest.raises(NodeConfigError, match=r"outputs\.json"):
        read_outputs(file)


def test_outputs_of_different_nodes_have_different_names() -> None:
    assert output_name("node-1", "QueueUrl") == "Node1QueueUrl"
    assert output_name("n", "TeamRoleArn", "a_b.c-D") == "NABCDTeamRoleArn"

"""What the command writes is what the sidecar reads."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from infra.node_config import NodeConfigError, controller_table, controller_toml, read_outputs
from infra.outputs import output_name
from sidecar.config.controller import read_controller
from solver_lambda.document import Fields

OUTPUTS = {
    "Controller": "lambda",
    "Region": "us-east-2",
    "ObservationsBucket": "spreds-observations-123456789012-us-east-2",
    "PlansBucket": "spreds-plans-123456789012-us-east-2",
    "PlansTopicArn": "arn:aws:sns:us-east-2:123456789012:spreds-plans",
    "Node1QueueUrl": "https://sqs.us-east-2.amazonaws.com/123456789012/spreds-node-1",
    "EdgePublicUrl": "https://edge.example.com/plans",
}


def read_back(text: str, folder: Path) -> object:
    table = tomllib.loads(text)["controller"]
    return read_controller(Fields(table, "sidecar.toml", "controller"), folder)


@pytest.mark.parametrize("kind", ["lambda", "fargate", "embedded"])
def test_the_sidecar_reads_what_was_written(kind: str, tmp_path: Path) -> None:
    outputs = {**OUTPUTS, "Controller": kind}
    queued = read_back(controller_toml(controller_table(outputs, "node-1")), tmp_path)
    assert queued.kind == kind
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


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"a": {}, "b": {}}', '{"other": {"X": "y"}}'])
def test_another_file_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "outputs.json"
    file.write_text(text)
    with pytest.raises(NodeConfigError, match=r"outputs\.json"):
        read_outputs(file)


def test_outputs_of_different_nodes_have_different_names() -> None:
    assert output_name("node-1", "QueueUrl") == "Node1QueueUrl"
    assert output_name("n", "TeamRoleArn", "a_b.c-D") == "NABCDTeamRoleArn"

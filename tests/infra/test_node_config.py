"""What the command writes is what the sidecar reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import botocore.session
import pytest

import sidecar
from infra.node_config import (
    NodeConfigError,
    controller_table,
    controller_toml,
    deployed_place,
    read_outputs,
    replace_controller,
)
from infra.stack_file.configuration import Configuration
from infra.stack_file.configured_nodes import Node
from infra.stack_file.names import place
from sidecar.config.controller_config import read_controller
from sidecar.config.node import load_config
from solver_lambda.documents.reader import Fields

STACK = """\
nodes_per_cell = 2
[nodes]
node-1 = {}
edge = { delivery = "http", public_url = "https://edge.example.com/plans" }
"cache-{1..4}" = {}
"""
CONFIGURATION = Configuration(
    "spreds",
    (
        Node("node-1"),
        Node("edge", "http", "https://edge.example.com/plans"),
        *(Node(f"cache-{number}", cell=f"cache-{number // 2}") for number in range(1, 5)),
    ),
    nodes_per_cell=2,
)
OHIO = place("123456789012", "us-east-2")
QUEUE_URL = "https://sqs.us-east-2.amazonaws.com/123456789012/spreds_node-1"


def outputs_of(cell: str, controller: str = "lambda") -> dict[str, str]:
    return {
        "Controller": controller,
        "Region": "us-east-2",
        "ObservationsBucket": f"spreds-{cell}-observations-123456789012-us-east-2",
        "PlansBucket": f"spreds-{cell}-plans-123456789012-us-east-2",
        "PlansTopicArn": f"arn:aws:sns:us-east-2:123456789012:spreds-{cell}-plans",
    }


OUTPUTS = {
    "spreds": {"AlarmsTopicArn": "arn:aws:sns:us-east-2:123456789012:spreds-alarms"},
    "spreds-main": outputs_of("main"),
    "spreds-cache-0": outputs_of("cache-0"),
}


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """The command with a stack's file and the outputs of its deployment."""
    (tmp_path / "stack.toml").write_text(STACK)
    (tmp_path / "outputs.json").write_text(json.dumps(OUTPUTS))
    return [
        *(sys.executable, "-m", "infra.node_config"),
        *("--stack", str(tmp_path / "stack.toml"), "--outputs", str(tmp_path / "outputs.json")),
    ]


def read_back(text: str, folder: Path) -> object:
    table = tomllib.loads(text)["controller"]
    return read_controller(Fields(table, "sidecar.toml", "controller"), folder)


@pytest.mark.parametrize("kind", ["lambda", "fargate", "embedded"])
def test_the_sidecar_reads_what_was_written(kind: str, tmp_path: Path) -> None:
    configuration = replace(CONFIGURATION, controller=kind)
    queued = read_back(controller_toml(controller_table(configuration, "node-1", OHIO)), tmp_path)
    # Somebody plans also when the cloud is away.
    assert queued.kind == ("embedded" if kind == "embedded" else "auto")
    assert queued.plan_deadline_seconds == (180 if kind == "fargate" else 30)
    assert queued.cloud.queue_url == QUEUE_URL
    assert queued.cloud.region == "us-east-2"
    table = controller_table(configuration, "edge", OHIO, listen="127.0.0.1:8081")
    assert read_back(controller_toml(table), tmp_path).cloud.listen == ("127.0.0.1", 8081)


@pytest.mark.parametrize(
    ("region", "partition", "host"),
    [
        ("eu-central-1", "aws", "sqs.eu-central-1.amazonaws.com"),
        ("us-gov-west-1", "aws-us-gov", "sqs.us-gov-west-1.amazonaws.com"),
        ("cn-northwest-1", "aws-cn", "sqs.cn-northwest-1.amazonaws.com.cn"),
    ],
)
def test_names_are_those_of_the_regions_partition(region: str, partition: str, host: str) -> None:
    table = controller_table(CONFIGURATION, "cache-3", place("123456789012", region))
    assert table["topic_arn"] == f"arn:{partition}:sns:{region}:123456789012:spreds-cache-1-plans"
    assert table["queue_url"] == f"https://{host}/123456789012/spreds_cache-3"


def test_each_region_that_the_client_knows_has_its_partition() -> None:
    session = botocore.session.get_session()
    checked = 0
    for partition in ("aws", "aws-cn", "aws-us-gov"):
        for region in session.get_available_regions("sqs", partition):
            assert place("123456789012", region).partition == partition
            checked += 1
    assert checked > 30


def test_an_emulators_queue_is_at_its_address() -> None:
    table = controller_table(CONFIGURATION, "node-1", OHIO, endpoint_url="http://localhost:4566/")
    assert table["queue_url"] == "http://localhost:4566/123456789012/spreds_node-1"
    assert table["endpoint_url"] == "http://localhost:4566/"


@pytest.mark.parametrize(
    ("node", "changes", "said"),
    [
        ("node-2", {}, "'node-2' is no node of the stack's file"),
        ("cache-4", {}, "the outputs have no spreds-cache-2: 'cache-4' is not deployed yet"),
        ("node-1", {"Controller": "fargate"}, "are of the controller 'fargate', and the stack's"),
        ("node-1", {"PlansTopicArn": "x"}, "the outputs of spreds-main have 'x', which is no top"),
        ("node-1", {"Controller": None}, "the outputs of spreds-main have no Controller"),
    ],
)
def test_what_is_not_deployed_so_is_named(
    node: str, changes: dict[str, str | None], said: str
) -> None:
    changed = {k: v for k, v in {**OUTPUTS["spreds-main"], **changes}.items() if v is not None}
    with pytest.raises(NodeConfigError, match=said):
        deployed_place(CONFIGURATION, node, {**OUTPUTS, "spreds-main": changed})


def test_the_command_takes_what_cdk_wrote(files: list[str], tmp_path: Path) -> None:
    assert read_outputs(tmp_path / "outputs.json") == OUTPUTS
    said = subprocess.run([*files, "--node", "cache-1"], capture_output=True, text=True, check=True)
    table = tomllib.loads(said.stdout)["controller"]
    assert table["plans_bucket"] == OUTPUTS["spreds-cache-0"]["PlansBucket"]
    refused = subprocess.run([*files, "--node", "nobody"], capture_output=True, text=True)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == f"node_config: 'nobody' is no node of {tmp_path / 'stack.toml'}\n"


def test_only_a_node_that_is_told_over_http_listens(files: list[str], tmp_path: Path) -> None:
    listen = ["--listen", "127.0.0.1:8081"]
    posted = subprocess.run(
        [*files, "--node", "edge", *listen], capture_output=True, text=True, check=True
    )
    assert tomllib.loads(posted.stdout)["controller"]["listen"] == "127.0.0.1:8081"
    refused = subprocess.run([*files, "--node", "node-1", *listen], capture_output=True, text=True)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith(
        "node_config: --listen 127.0.0.1:8081: 'node-1' is told by a queue"
    )
    assert f"its line in {tmp_path / 'stack.toml'} would need" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_without_outputs_everything_follows_from_account_and_region(
    files: list[str],
) -> None:
    with_outputs = subprocess.run([*files, "--node", "node-1"], capture_output=True, text=True)
    by_rule = [*files[:5], "--node", "node-1", "--account"]
    region = ["--region", "us-east-2"]
    said = subprocess.run([*by_rule, "123456789012", *region], capture_output=True, text=True)
    assert said.stdout == with_outputs.stdout
    assert tomllib.loads(said.stdout)["controller"]["queue_url"] == QUEUE_URL
    short = subprocess.run([*by_rule, "12345", *region], capture_output=True, text=True)
    assert (short.returncode, short.stderr) == (
        1,
        "node_config: an AWS account has 12 digits, and '12345' is none\n",
    )
    half = subprocess.run([*by_rule, "123456789012"], capture_output=True, text=True)
    assert half.returncode == 2
    assert "give --outputs, or --account and --region" in half.stderr


def example_of(node: str) -> str:
    text = Path(sidecar.__file__).with_name("example.toml").read_text()
    assert 'node = "cache-1"' in text
    return text.replace('node = "cache-1"', f'node = "{node}"')


def test_another_nodes_file_is_left_as_it_is(files: list[str], tmp_path: Path) -> None:
    node = tmp_path / "node.toml"
    node.write_text(example_of("node-2"))
    command = [*files, "--into", str(node), "--node", "node-1"]
    refused = subprocess.run(command, capture_output=True, text=True)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        f"node_config: {node}: node is 'node-2' there, and --node is 'node-1'\n"
    )
    assert node.read_text() == example_of("node-2")


def test_it_takes_the_place_of_the_examples_own_table(files: list[str], tmp_path: Path) -> None:
    node = tmp_path / "node.toml"
    example = example_of("node-1")
    node.write_text(example)
    node.chmod(0o640)
    group = node.stat().st_gid + (os.getuid() == 0)  # as install.sh has it: the service's group
    os.chown(node, -1, group)
    command = [*files, "--into", str(node), "--node"]
    for _ in range(2):  # a second time changes nothing
        subprocess.run([*command, "node-1"], check=True)
        config = load_config(node)
        assert config.controller.kind == "auto"
        assert config.controller.folder == tmp_path / "documents"
        assert config.controller.cloud is not None
        assert config.controller.cloud.queue_url == QUEUE_URL
    assert (node.stat().st_mode & 0o777, node.stat().st_gid) == (0o640, group)
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
    table = controller_table(CONFIGURATION, "node-1", OHIO)
    replaced = replace_controller(text, table)
    assert tomllib.loads(replaced) == {**tomllib.loads(text), "controller": table}


def test_what_the_stack_knows_nothing_of_stays() -> None:
    table = controller_table(CONFIGURATION, "node-1", OHIO)
    kept = {"folder": "d", "keep_documents": "365d", "keep_documents_number": 100_000}
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in kept.items())
    above = "# ours\n# for the solver\n[planning]\nseed = 1\n"
    text = f"node = 'n'\n[controller]\nkind = 'auto'\n{lines}# url = 'x'\n\n{above}"
    replaced = replace_controller(text, table)
    assert tomllib.loads(replaced)["controller"] == {**table, **kept}
    assert replaced.endswith(f"\n{above}")
    assert "# url" not in replaced
    assert replace_controller(replaced, table) == replaced


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"a": 1}', '{"other": {"X": "y"}}'])
def test_another_file_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "outputs.json"
    file.write_text(text)
    with pytest.raises(NodeConfigError, match=r"outputs\.json"):
        read_outputs(file)

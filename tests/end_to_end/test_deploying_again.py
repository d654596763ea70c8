"""A node that is added comes by deploying again, and what is deployed stays; the emulator too."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BODY = b"an observation"


def deploy_local(port: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "infra.deploy_local", "--port", port, *arguments],
        capture_output=True,
        text=True,
    )


@pytest.fixture
def port(deployed: Any) -> str:
    return str(deployed.emulator.endpoint_url.rpartition(":")[2])


def test_a_node_that_was_added_comes_to_the_emulator_that_runs(
    deployed: Any, port: str, tmp_path: Path
) -> None:
    stack, outputs = tmp_path / "grows.toml", tmp_path / "outputs.json"
    command = ("--into-running", "--stack", str(stack), "--outputs", str(outputs))
    stack.write_text('name = "grows"\n[nodes]\nfirst = {}\n')
    done = deploy_local(port, *command)
    assert done.returncode == 0, done.stderr
    s3, sqs = deployed.emulator.client("s3"), deployed.emulator.client("sqs")
    bucket = json.loads(outputs.read_text())["grows-main"]["ObservationsBucket"]
    s3.put_object(Bucket=bucket, Key="settings/first/kept", Body=BODY)
    with stack.open("a") as file:
        file.write("second = {}\n")
    done = deploy_local(port, *command)
    assert done.returncode == 0, done.stderr
    assert s3.get_object(Bucket=bucket, Key="settings/first/kept")["Body"].read() == BODY
    found = {url.rpartition("/")[2] for url in sqs.list_queues()["QueueUrls"]}
    assert {"grows_first", "grows_second", "spreds_alpha"} <= found


def test_a_second_emulator_on_the_port_is_told_the_way(port: str) -> None:
    refused = deploy_local(port)
    assert refused.returncode == 1
    assert f"an emulator runs on port {port} already: give --into-running" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_something_else_on_the_port_is_no_emulator() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        port = str(other.getsockname()[1])
        none = deploy_local(port, "--into-running")
        assert (none.returncode, none.stderr.count("\n")) == (1, 1)
        assert f"no emulator answers on port {port}" in none.stderr
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(0)
            taken = str(listener.getsockname()[1])
            refused = deploy_local(taken)
        assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
        assert f"port {taken} is in use: stop what listens there" in refused.stderr

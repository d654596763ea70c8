"""One emulator with one deployed stack for all end-to-end tests, and nodes on it."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from infra.deploy_local import deploy
from infra.emulator.process import Emulator
from infra.node_config import controller_table, controller_toml
from infra.outputs import output_name
from workloads.local_node import LocalNode

QUEUED_NODES = ("alpha", "beta")
POSTED_NODE = "gamma"


@dataclass(frozen=True)
class Deployed:
    """The stack on the emulator.

    Attributes:
        outputs: of the stack.
        listen: where the node that is told over HTTP has to listen.
    """

    emulator: Emulator
    outputs: dict[str, str]
    listen: str

    def controller(self, node: str, **changes: str) -> str:
        """The node's ``[controller]``, as the command writes it, but that nobody stands in for the
        cloud; ``changes`` to single keys."""
        endpoint = self.emulator.endpoint_url
        table = controller_table(self.outputs, node, listen=self.listen, endpoint_url=endpoint)
        return controller_toml({**table, "kind": self.outputs["Controller"], **changes})

    def queue_url(self, name: str) -> str:
        """Of a node's queue, or of one of the stack's dead letters."""
        own = output_name(name, "QueueUrl")
        if own in self.outputs:
            return self.outputs[own]
        sqs = self.emulator.client("sqs")
        return str(sqs.get_queue_url(QueueName=f"spreds-{name}")["QueueUrl"])

    def waiting(self, queue_url: str) -> int:
        """Messages in the queue that nobody has received."""
        sqs = self.emulator.client("sqs")
        name = "ApproximateNumberOfMessages"
        answer = sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=[name])
        return int(answer["Attributes"][name])

    def role_policies(self, output: str) -> list[dict[str, Any]]:
        """Policy documents of the role in an output, as IAM has them."""
        iam = self.emulator.client("iam")
        role = self.outputs[output].rpartition("/")[2]
        names = iam.list_role_policies(RoleName=role)["PolicyNames"]
        return [iam.get_role_policy(RoleName=role, PolicyName=n)["PolicyDocument"] for n in names]


@pytest.fixture(scope="session")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        listen = f"127.0.0.1:{probe.getsockname()[1]}"
    lines = [f'{name} = {{ servers = ["modest", "hungry"] }}' for name in QUEUED_NODES]
    lines.append(f'{POSTED_NODE} = {{ delivery = "http", public_url = "http://{listen}/plans" }}')
    stack = tmp_path_factory.mktemp("stack") / "tests.toml"
    stack.write_text("\n".join(['name = "spreds"', "[nodes]", *lines, ""]))
    with Emulator() as emulator:
        yield Deployed(emulator, deploy(emulator, stack), listen)


@pytest.fixture(autouse=True)
def emulator_log(deployed: Deployed) -> Iterator[None]:
    """pytest shows it for a test that failed."""
    before = deployed.emulator.log.stat().st_size
    yield
    print(deployed.emulator.log.read_bytes()[before:].decode(errors="replace"))


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a node would have from its instance profile."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "123456789012")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "emulated")


@pytest.fixture
def start_node(deployed: Deployed) -> Iterator[Callable[[str], LocalNode]]:
    """Starts the servers of a node of the stack, and stops them after the test."""
    with ExitStack() as stack:
        yield lambda name: stack.enter_context(LocalNode(name, deployed.controller(name)))

"""One emulator with an installation of two cells for all end-to-end tests, and nodes on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from infra.deploy_local import deploy
from infra.emulator.process import ACCOUNT, REGION, Emulator
from infra.node_config import controller_table, controller_toml, deployed_place
from infra.stack_file import names
from infra.stack_file.configuration import Configuration, read_configuration
from workloads.local_node import LocalNode
from workloads.local_server import free_port

QUEUED_NODES = ("alpha", "beta")
POSTED_NODE = "gamma"
OTHER_CELL = "other"


@dataclass(frozen=True)
class Deployed:
    """The installation on the emulator.

    Attributes:
        stacks: outputs of all stacks, by the stack's name.
        listen: where the node that is told over HTTP has to listen.
    """

    emulator: Emulator
    configuration: Configuration
    stacks: dict[str, dict[str, str]]
    listen: str

    @property
    def outputs(self) -> dict[str, str]:
        """Return the outputs of the cell that most nodes are in."""
        return self.of_node("alpha")

    def of_node(self, node: str) -> dict[str, str]:
        """Outputs of the node's cell."""
        found = self.configuration.cell_of(node)
        assert found is not None
        return self.stacks[found[0].stack]

    def controller(self, node: str, **changes: str) -> str:
        """The node's ``[controller]``, as the command writes it, but that nobody stands in for the
        cloud; ``changes`` to single keys."""
        table = controller_table(
            self.configuration,
            node,
            deployed_place(self.configuration, node, self.stacks),
            listen=self.listen if node == POSTED_NODE else None,
            endpoint_url=self.emulator.endpoint_url,
        )
        return controller_toml({**table, "kind": self.outputs["Controller"], **changes})

    def queue_url(self, name: str) -> str:
        """Return the URL of a node's queue, or of one of the installation's dead letters."""
        is_node = self.configuration.cell_of(name) is not None
        queue = names.node_queue("spreds", name) if is_node else f"spreds-{name}"
        return names.place(ACCOUNT, REGION).queue_url(queue, self.emulator.endpoint_url)

    def waiting(self, queue_url: str) -> int:
        """Messages in the queue that nobody has received."""
        sqs = self.emulator.client("sqs")
        name = "ApproximateNumberOfMessages"
        answer = sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=[name])
        return int(answer["Attributes"][name])


@pytest.fixture(scope="session")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    listen = f"127.0.0.1:{free_port()}"
    lines = [f"{name} = {{}}" for name in QUEUED_NODES]
    lines.append(f'{POSTED_NODE} = {{ delivery = "http", public_url = "http://{listen}/plans" }}')
    lines.append(f'"far-{{1..2}}" = {{ cell = "{OTHER_CELL}" }}')
    stack = tmp_path_factory.mktemp("stack") / "tests.toml"
    stack.write_text("\n".join(['name = "spreds"', "[nodes]", *lines, ""]))
    with Emulator() as emulator:
        stacks = deploy(emulator, stack)
        yield Deployed(emulator, read_configuration(stack), stacks, listen)


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

"""Real servers and a signing AWS for the sidecar's tests, and a node's configuration."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import boto3
import pytest
from botocore.stub import Stubber

from sidecar.config.node import load_config
from tests.sidecar.actuated_node import ActuatedNode
from tests.sidecar.fixtures import LoadNode, MakeNode, StartServer, WriteNode
from tests.sidecar.model_node import Node
from tests.sidecar.played_function import Function
from tests.sidecar.signed_cloud import SignedCloud
from tests.sidecar.three_servers import ThreeServers
from tests.sidecar.waiting_sidecar import WaitingSidecar, waiting_sidecar
from workloads.experiment.faults.model.model import maker
from workloads.experiment.faults.model.model_stage import ModelStage
from workloads.experiment.faults.model.simulated_time import simulated_time
from workloads.local_server import BUILD, LocalServer, supported_servers
from workloads.quiet_log import quiet_log


@pytest.fixture
def start_server() -> Iterator[StartServer]:
    """Starts patched servers, and stops them after the test."""
    with ExitStack() as stack:

        def start(
            maxmemory: str | int = "16mb", binary: Path | None = None, **settings: object
        ) -> LocalServer:
            directives = {"maxmemory": maxmemory, "maxmemory-policy": "allkeys-lru", **settings}
            return stack.enter_context(LocalServer(directives, binary))

        yield start


@pytest.fixture
def servers(start_server: StartServer) -> list[LocalServer]:
    """Two with 12 MB each; some files have others by this name."""
    return [start_server("12mb"), start_server("12mb")]


@pytest.fixture
def folder_of_all() -> Iterator[Path]:
    """Every user may look into it. Those of pytest are closed whenever another run begins."""
    with TemporaryDirectory(prefix="spreds-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.fixture
def write_node(tmp_path: Path) -> WriteNode:
    """Writes the file of a node ``n1`` with these servers (or their addresses), and more text."""

    def write(
        servers: Mapping[str, str | LocalServer],
        budget: str = "48mb",
        more: str = '[controller]\nkind = "embedded"\n',
        server_keys: str = 'backend_latency = "50ms"',
        memory: str = "",
    ) -> Path:
        tables = "".join(
            f'[[server]]\nname = "{name}"\nurl = "{getattr(one, "url", one)}"\n{server_keys}\n'
            for name, one in servers.items()
        )
        path = tmp_path / "node.toml"
        path.write_text(
            f'node = "n1"\nmode = "apply"\nstate_file = "state.json"\n'
            f'[memory]\nbudget = "{budget}"\n{memory}\n'
            f'[sampling]\nendpoint = "ipc://{tmp_path}/samples"\nrate = 0.5\n{more}\n{tables}'
        )
        return path

    return write


@pytest.fixture
def load_node(write_node: WriteNode) -> LoadNode:
    """Write a node's file as ``write_node`` does, and read it again."""
    return lambda *args, **keywords: load_config(write_node(*args, **keywords))


@pytest.fixture
def make_node(start_server: StartServer, load_node: LoadNode, tmp_path: Path) -> MakeNode:
    """Starts a server of each size, with an actuator over all, which takes targets at once unless
    ``gradual``."""

    def make(
        *sizes: object,
        memory: str = 'rss_wait = "0s"',
        server_keys: str = "",
        gradual: bool = False,
        budget: str = "48mb",
        **settings: object,
    ) -> ActuatedNode:
        servers = {f"s{place}": start_server(size, **settings) for place, size in enumerate(sizes)}
        config = load_node(servers, budget=budget, memory=memory, server_keys=server_keys)
        return ActuatedNode(config, servers, tmp_path / "state", gradual=gradual)

    return make


@pytest.fixture(params=supported_servers().values(), ids=lambda server: server.name)
def stock_binary(request: pytest.FixtureRequest) -> Path:
    """Return the stock binary of each supported server that is built."""
    path = BUILD / request.param.stock_binary
    if not path.exists():
        pytest.skip(f"{path} is not built")
    return path


@pytest.fixture(scope="module")
def cloud() -> Iterator[SignedCloud]:
    """AWS on this machine, with credentials for it in the environment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        made = SignedCloud()
        try:
            yield made
        finally:
            made.stop()


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stubber]:
    """A store's client whose answers are those of AWS to a role with rights to one prefix."""
    client = boto3.client(
        "s3", region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test"
    )
    monkeypatch.setattr("sidecar.storage.store_s3.client", lambda *_: client)
    with Stubber(client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


def _empty(cloud: SignedCloud) -> None:
    for bucket in ("observations", "plans"):
        for item in cloud.s3.list_objects_v2(Bucket=bucket).get("Contents", []):
            cloud.s3.delete_object(Bucket=bucket, Key=item["Key"])


@pytest.fixture
def function(cloud: SignedCloud) -> Iterator[Function]:
    """Plays the planner in the cloud, with empty buckets and a queue of its own."""
    # The long poll of a sidecar that a test before has stopped may not have ended yet.
    cloud.queue_url = cloud.sqs.create_queue(QueueName=uuid.uuid4().hex)["QueueUrl"]
    _empty(cloud)  # nor its last observation, which was still on its way
    yield Function(cloud)
    _empty(cloud)


@pytest.fixture(scope="module")
def waiting(
    cloud: SignedCloud, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WaitingSidecar]:
    """A running sidecar that has asked for a plan, to be notified over HTTP."""
    with waiting_sidecar(cloud, tmp_path_factory.mktemp("node")) as made:
        yield made


@pytest.fixture
def node() -> Iterator[Node]:
    """Two models of servers with half of the budget each, in simulated time."""
    with quiet_log(), simulated_time() as clock:
        yield Node(clock)


@pytest.fixture(params=["actuator", "handover"])
def three(request: pytest.FixtureRequest) -> Iterator[ThreeServers]:
    """Models with a third of the budget each."""
    with quiet_log(), simulated_time() as clock:
        stage = ModelStage(clock, 3, maker(request.param, clock))
        stage.wait(3)
        yield ThreeServers(stage)

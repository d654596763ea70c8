"""The whole loop on one machine: real servers, samples, documents, sizes; each controller."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sidecar.config.node import load_config
from sidecar.daemon import Sidecar
from solver_lambda.documents.keys import observation_key, plan_key
from solver_lambda.documents.observation import Observation
from solver_lambda.documents.plan import AdaptationPlan
from tests.sidecar.fixtures import StartServer, WriteNode
from tests.sidecar.played_function import Function, by_queue
from workloads.local_node import sidecar_in_thread, wait_until
from workloads.local_server import LocalServer, settled_sizes

MB = 1 << 20
# Between two rounds of reads: as fast as it can, a load takes the processor from other tests.
PAUSE_SECONDS = 0.03
# Every window moves something: what is tested is the loop, not the plan.
CYCLE = '[cycle]\nsamples = 4000\nmaximum_age = "6s"\n[planning]\nminimum_gain_ratio = 0.0\n'


class Load:
    """Reads so many keys through each server all the time; by default one fits into 2 MB, and the
    other needs all it gets."""

    def __init__(self, servers: list[LocalServer], keys: tuple[int, ...] = (400, 40_000)) -> None:
        self._servers = servers
        self._keys = keys
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        choice = random.Random(1)
        while not self._stop.wait(PAUSE_SECONDS):
            for server, keys in zip(self._servers, self._keys, strict=True):
                names = [f"key{int(keys * choice.random() ** 2)}" for _ in range(100)]
                found = zip(names, server.client.mget(names), strict=True)
                if missed := {name: b"x" * 700 for name, value in found if value is None}:
                    server.client.mset(missed)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def wait_for(condition: Callable[[], object], sidecar: Sidecar) -> None:
    """Wait until a condition holds."""
    wait_until(condition, sidecar.metrics.snapshot)


def plan_of(sidecar: Sidecar) -> AdaptationPlan:
    """The last plan, which is there."""
    assert sidecar.last_plan is not None
    return sidecar.last_plan


def total(servers: list[LocalServer]) -> int:
    return sum(settled_sizes({server.url: server for server in servers}).values())


@pytest.fixture
def node(write_node: WriteNode, servers: list[LocalServer]) -> Callable[[str], Path]:
    """Writes the node's file with this ``[controller]``."""
    urls = {"small": servers[0].url, "large": servers[1].url}
    return lambda more: write_node(urls, budget="24mb", more=CYCLE + more)


def test_embedded_gives_memory_to_the_server_that_can_use_it(
    node: Callable[[str], Path], servers: list[LocalServer], tmp_path: Path
) -> None:
    path = node('[controller]\nkind = "embedded"\nfolder = "documents"\n')
    greatest = 0
    with Load(servers), sidecar_in_thread(path) as sidecar:

        def moved() -> bool:
            nonlocal greatest
            greatest = max(greatest, total(servers))
            small, large = (s.maxmemory_bytes for s in plan_of(sidecar).servers)
            return sidecar.cycles >= 3 and large > 12 * MB > small

        wait_for(lambda: sidecar.last_plan, sidecar)
        wait_for(moved, sidecar)
        last = plan_of(sidecar)
    assert greatest <= 24 * MB
    documents = tmp_path / "documents"
    plan = AdaptationPlan.loads((documents / plan_key("n1", last.cycle)).read_bytes(), "plan")
    assert plan == last
    key = observation_key("n1", last.cycle)
    observation = Observation.loads((documents / key).read_bytes(), key)
    assert [server.name for server in observation.servers] == ["small", "large"]


def test_plans_from_the_cloud_come_through_the_queue(
    cloud: Any, function: Function, node: Callable[[str], Path], servers: list[LocalServer]
) -> None:
    with Load(servers), sidecar_in_thread(node(by_queue(cloud))) as sidecar:
        wait_for(lambda: function.answer() or sidecar.cycles >= 2, sidecar)
        assert total(servers) <= 24 * MB
        # Dealt with is deleted, also what was refused.
        cloud.sqs.send_message(QueueUrl=cloud.queue_url, MessageBody="forged")
        wait_for(lambda: sidecar.metrics.value("notifications_refused", reason="not_json"), sidecar)
        wait_for(lambda: _queued(cloud) == 0, sidecar)


def _queued(cloud: Any) -> int:
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    answer = cloud.sqs.get_queue_attributes(QueueUrl=cloud.queue_url, AttributeNames=names)
    return sum(int(value) for value in answer["Attributes"].values())


def test_a_plan_that_came_while_the_sidecar_was_down_is_carried_out_when_it_is_back(
    cloud: Any, function: Function, node: Callable[[str], Path], servers: list[LocalServer]
) -> None:
    path = node(by_queue(cloud))
    with Load(servers):
        with sidecar_in_thread(path) as sidecar:
            wait_for(lambda: sidecar.last_observation, sidecar)
            wait_for(lambda: cloud.s3.list_objects_v2(Bucket="observations")["KeyCount"], sidecar)
        function.answer()
        with sidecar_in_thread(path) as sidecar:
            wait_for(lambda: sidecar.cycles == 1, sidecar)
            assert {observation_key("n1", plan_of(sidecar).cycle)} == function.answered


def test_auto_plans_itself_when_the_cloud_cannot_be_reached(
    cloud: Any, node: Callable[[str], Path], servers: list[LocalServer]
) -> None:
    more = by_queue(cloud, "auto").replace('bucket = "observations"', 'bucket = "not-there"')
    with Load(servers), sidecar_in_thread(node(more)) as sidecar:
        wait_for(lambda: sidecar.cycles >= 2, sidecar)
        assert sidecar.metrics.value("observations_failed") >= 2
        assert sidecar.metrics.value("stand_ins") >= 2


def test_auto_plans_itself_when_the_cloud_is_late_and_refuses_the_late_plan(
    cloud: Any, function: Function, node: Callable[[str], Path], servers: list[LocalServer]
) -> None:
    more = by_queue(cloud, "auto", 'plan_deadline = "200ms"')
    with Load(servers), sidecar_in_thread(node(more)) as sidecar:
        wait_for(lambda: sidecar.cycles >= 1, sidecar)
        assert sidecar.metrics.value("plans_overdue") >= 1
        function.answer()
        wait_for(lambda: sidecar.metrics.value("plans_refused", reason="old_cycle"), sidecar)


def test_switching_the_controller_asks_the_new_one_for_the_outstanding_plan(
    cloud: Any, function: Function, node: Callable[[str], Path], servers: list[LocalServer]
) -> None:
    with Load(servers), sidecar_in_thread(node(by_queue(cloud))) as sidecar:
        wait_for(lambda: sidecar.last_observation, sidecar)
        observation = sidecar.last_observation
        assert observation is not None
        # Nothing was set yet: all sizes are as they were found.
        found = [server.installed_bytes for server in observation.servers]
        assert found == [server.maxmemory_bytes for server in observation.servers]
        sidecar.reload(lambda: load_config(node('[controller]\nkind = "embedded"\n')))
        wait_for(lambda: sidecar.cycles >= 1, sidecar)
        assert sidecar.metrics.value("plans_embedded") >= 1
        assert sidecar.metrics.value("plans_overdue") == 0
        assert sidecar._store.now.applied_cycle >= observation.cycle
        # And back to the cloud.
        sidecar.reload(lambda: load_config(node(by_queue(cloud))))
        taken = sidecar.metrics.value("notifications_taken")
        wait_for(
            lambda: function.answer() or sidecar.metrics.value("notifications_taken") > taken,
            sidecar,
        )


def test_a_reload_that_needs_a_restart_is_refused(
    node: Callable[[str], Path], servers: list[LocalServer]
) -> None:
    embedded = '[controller]\nkind = "embedded"\n'
    with sidecar_in_thread(node(embedded)) as sidecar:
        path = node(embedded)
        path.write_text(path.read_text().replace('"24mb"', '"25mb"'))
        sidecar.reload(lambda: load_config(path))
        wait_for(lambda: sidecar.metrics.value("reloads_refused"), sidecar)
        assert sidecar.config.memory.budget_bytes == 24 * MB


def test_a_server_that_is_down_is_left_out_and_its_memory_stays_its_own(
    node: Callable[[str], Path], servers: list[LocalServer]
) -> None:
    with Load(servers), sidecar_in_thread(node('[controller]\nkind = "embedded"\n')) as sidecar:
        wait_for(lambda: sidecar.cycles >= 1 and sidecar._actuator.settled, sidecar)
    small, large = servers
    with sidecar_in_thread(node('[controller]\nkind = "embedded"\n')) as sidecar:
        small.stop()
        wait_for(lambda: sidecar.metrics.value("servers_lost"), sidecar)
        names = []

        def one_is_left() -> bool:
            _read_through(large)
            if sidecar.last_observation:
                names[:] = [server.name for server in sidecar.last_observation.servers]
            return names == ["large"]

        wait_for(one_is_left, sidecar)
        # What it has, or what is planned for it: the first plan may take from it or give to it.
        (has,) = (one.maxmemory_bytes for one in sidecar._actuator.states() if one.name == "small")
        planned = sidecar._store.now.targets_bytes["small"]
        assert sidecar.last_observation is not None
        assert sidecar.last_observation.budget_bytes == 24 * MB - max(has, planned)
        # Clients can make a server hang: beside it the others keep half of an equal share.
        (left,) = sidecar.last_observation.servers
        assert left.minimum_bytes >= min(left.maxmemory_bytes, 24 * MB // 4)
        wait_for(lambda: sidecar.cycles >= 1, sidecar)
        assert int(large.client.config_get("maxmemory")["maxmemory"]) <= 24 * MB - has


def _read_through(server: LocalServer) -> None:
    pipe = server.client.pipeline(transaction=False)
    for key in range(2000):
        pipe.get(f"key{key}")
    pipe.execute()


def test_a_node_taken_over_with_unlimited_servers_is_brought_within_the_budget(
    write_node: WriteNode, start_server: StartServer
) -> None:
    servers = {"a": start_server(0), "b": start_server("64mb")}
    with sidecar_in_thread(write_node(servers, budget="24mb")) as sidecar:
        wait_for(lambda: sidecar._actuator.settled, sidecar)
        sizes = settled_sizes(servers).values()
    assert sum(sizes) <= 24 * MB
    assert all(sizes)

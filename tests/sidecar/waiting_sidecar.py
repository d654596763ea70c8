"""A sidecar that waits for a plan, to send it notifications good and bad."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from sidecar.daemon import Sidecar
from sidecar.observing import observation_cycle
from solver_lambda.documents.keys import plan_key
from solver_lambda.documents.observation import Observation, ServerObservation
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.documents.planning_settings import PlanningSettings
from solver_lambda.planning.planner import make_plan
from tests.sidecar.signed_cloud import SignedCloud
from workloads.local_node import sidecar_in_thread, wait_until
from workloads.local_server import LocalServer, free_port

MB = 1 << 20
EVENT = "the S3 event of the plan"
# Of both servers together; by so many both curves are known.
SAMPLES = 20_000


@dataclass
class WaitingSidecar:
    """A sidecar that waits for the plan of its first observation.

    Attributes:
        plan: a good answer, which moves memory.
        key: where it lies in the plans bucket.
    """

    sidecar: Sidecar
    cloud: SignedCloud
    servers: list[LocalServer]
    port: int
    plan: AdaptationPlan
    key: str

    def put(self, plan: AdaptationPlan | bytes, key: str | None = None) -> None:
        body = plan if isinstance(plan, bytes) else plan.dumps()
        self.cloud.s3.put_object(Bucket="plans", Key=key or self.key, Body=body)

    def message(self, text: str = EVENT, **fields: Any) -> dict[str, Any]:
        """A good message but for what is said, signed."""
        text = self.cloud.event(self.key) if text is EVENT else text
        return dict(self.cloud.sign(self.cloud.message(text, **fields)))

    def post(self, body: bytes | dict[str, Any]) -> int:
        """Post a body and return the status of the answer."""
        if isinstance(body, dict):
            body = json.dumps(body).encode()
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request("POST", "/", body)
            return connection.getresponse().status
        finally:
            connection.close()

    def post_raw(self, request: bytes) -> int:
        """Status of the answer to a request that no client would send."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as connection:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            return int(connection.makefile("rb").readline().split()[1])

    def config_sets(self) -> list[int]:
        """CONFIG SET calls that each server has seen."""
        return [
            server.client.info("commandstats").get("cmdstat_config|set", {}).get("calls", 0)
            for server in self.servers
        ]

    def refused(self) -> dict[str, int]:
        return {
            name: count
            for name, count in self.sidecar.metrics.snapshot().items()
            if "_refused[" in name or name == "notifications_deferred"
        }

    def assert_refused(self, counter: str, send: Callable[[], int], statuses: range) -> None:
        """``send`` is refused for this reason and no other, and no CONFIG SET follows."""
        before, calls = self.refused(), self.config_sets()
        assert send() in statuses
        after = self.refused()
        assert after.get(counter, 0) == before.get(counter, 0) + 1
        assert sum(after.values()) == sum(before.values()) + 1
        # Not now, and not when the actuator looks again.
        self.sidecar._actuator.step()
        assert self.config_sets() == calls
        assert self.sidecar.cycles == 0


def _answer(observation: Observation) -> AdaptationPlan:
    """A plan that moves 4 MB from the first server to the second."""
    plan = make_plan(observation, now_seconds=observation.made_at_seconds)
    sizes = [12 * MB, 20 * MB]
    servers = tuple(
        replace(server, maxmemory_bytes=size)
        for server, size in zip(plan.servers, sizes, strict=True)
    )
    return replace(plan, servers=servers, decision="apply")


@contextmanager
def waiting_sidecar(cloud: SignedCloud, folder: Path) -> Iterator[WaitingSidecar]:
    """Runs one with its servers, in a thread."""
    port = free_port()
    settings: dict[str, object] = {"maxmemory": "16mb", "maxmemory-policy": "allkeys-lru"}
    with (
        LocalServer(settings) as first,
        LocalServer(settings) as second,
        pytest.MonkeyPatch.context() as patch,
    ):
        servers = [first, second]
        # Samples end the first cycle, at once: no time does, in which a slow machine reads little.
        patch.setattr(observation_cycle, "STEPS_A_CYCLE", 7200)
        with sidecar_in_thread(_write(folder, cloud, port, servers)) as sidecar:
            plan = _answer(_first_observation(sidecar, servers))
            key = plan_key("n1", plan.cycle)
            made = WaitingSidecar(sidecar, cloud, servers, port, plan, key)
            made.put(plan)
            yield made


def _write(folder: Path, cloud: SignedCloud, port: int, servers: list[LocalServer]) -> Path:
    delivery = f'delivery = "http"\nlisten = "127.0.0.1:{port}"\nplan_deadline = "1h"\n'
    tables = "".join(
        f'[[server]]\nname = "s{place}"\nurl = "{server.url}"\n'
        'backend_latency = "50ms"\nmaximum = "24mb"\n'
        for place, server in enumerate(servers)
    )
    path = folder / "node.toml"
    path.write_text(
        f'node = "n1"\nmode = "apply"\n[memory]\nbudget = "32mb"\n'
        f'[sampling]\nendpoint = "ipc://{folder}/samples"\nrate = 1\n'
        f'[cycle]\nsamples = {SAMPLES}\nmaximum_age = "1h"\n{cloud.controller(delivery)}{tables}'
    )
    return path


def _may_move(server: ServerObservation) -> bool:
    most_error = PlanningSettings().maximum_curve_error_ratio
    return server.keep_reason is None and server.curve_error_ratio <= most_error


def _first_observation(sidecar: Sidecar, servers: list[LocalServer]) -> Observation:
    """Some load, until enough is sampled: in its last steps no key is new, so both curves are known
    however slow the machine is. There is no second one before the plan of the first."""
    keys = [f"key{key}" for key in range(300)]

    def is_made() -> bool:
        for server in servers:
            found = zip(keys, server.client.mget(keys), strict=True)
            if missed := {key: b"x" * 100 for key, value in found if value is None}:
                server.client.mset(missed)
        return sidecar.last_observation is not None

    wait_until(is_made, sidecar.metrics.snapshot)
    observation = sidecar.last_observation
    assert observation is not None
    assert all(_may_move(server) for server in observation.servers), observation.servers
    return observation

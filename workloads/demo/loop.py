"""The demonstration's cloud and sidecar: the emulator, the deployed stack, and ``spreds run``."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3

from sidecar.control.history import history_path, read_history
from sidecar.state.state_store import load_state
from solver_lambda.documents.keys import observation_key, plan_key
from solver_lambda.documents.observation import Observation
from workloads.demo.scenario import CACHE_LATENCY_SECONDS, DemoServer
from workloads.local_server import LocalServer, free_port
from workloads.node_programs import NodeServer, NodeSettings, started_sidecar
from workloads.processes import finished, running_program

NODE = "demo"
WINDOW_SECONDS = 6.0
START_LIMIT_SECONDS = 120.0


@dataclass(frozen=True)
class Cloud:
    """Describes the deployed stacks.

    Attributes:
        environment: variables that send AWS clients to them.
        stack: the file that they were deployed from.
        outputs: file with the stacks' outputs.
    """

    environment: dict[str, str]
    stack: Path
    outputs: Path


@contextmanager
def local_cloud(folder: Path, nodes: Sequence[str] = (NODE,)) -> Iterator[Cloud]:
    """Start the emulator and deploy stacks for ``nodes`` to it, by the commands an operator would
    use.

    Raises:
        RuntimeError: it does not come up.
    """
    stack, outputs, log = folder / "demo.toml", folder / "outputs.json", folder / "cloud.log"
    lines = [f"{node} = {{}}\n" for node in nodes]
    stack.write_text(f'name = "spreds"\n[nodes]\n{"".join(lines)}')
    command = ["infra.deploy_local", "--port", str(free_port()), "--stack", str(stack)]
    command += ["--outputs", str(outputs)]
    with running_program(command, log, signal.SIGTERM, stdout=subprocess.PIPE) as process:
        yield Cloud(_exported(process, log), stack, outputs)


def _exported(process: subprocess.Popen[str], log: Path) -> dict[str, str]:
    """The variables that it prints once it is deployed."""
    assert process.stdout is not None
    exported: dict[str, str] = {}
    for line in process.stdout:
        name, _, value = line.strip().removeprefix("export ").partition("=")
        exported[name] = value
        if "AWS_ENDPOINT_URL" in exported and "AWS_DEFAULT_REGION" in exported:
            return exported
    raise RuntimeError(f"the stack was not deployed: {log.read_text()[-4000:]}")


def controller_text(cloud: Cloud, node: str = NODE) -> str:
    """``[controller]`` of a node of the stack, by the command an operator would use."""
    return finished(
        [
            *(sys.executable, "-m", "infra.node_config", "--node", node),
            *("--stack", str(cloud.stack), "--outputs", str(cloud.outputs)),
            *("--endpoint-url", cloud.environment["AWS_ENDPOINT_URL"]),
        ],
        check=True,
    ).stdout


@dataclass(frozen=True)
class SidecarRun:
    """What a sidecar did, read from the stack's buckets and the sidecar's state when it ended.

    Attributes:
        cycles: plans that came back and were carried out or kept all sizes.
        observation: the last one that was answered so, if any.
        decisions: entries of its history, the newest last.
    """

    cycles: int
    observation: Observation | None
    decisions: list[dict[str, Any]]


@contextmanager
def running_sidecar(
    cloud: Cloud,
    servers: list[DemoServer],
    running: dict[str, LocalServer],
    budget_bytes: int,
    folder: Path,
    log: Path,
    ended: list[SidecarRun],
    sampler: str = "patch",
) -> Iterator[None]:
    """``spreds run`` with a configuration for these servers; ``ended`` gets what it did.

    Raises:
        RuntimeError: it did not start, or ended before it was told to.
    """
    state = folder / "state.json"
    settings = NodeSettings(
        [NodeServer(one.name, one.weight, one.backend_latency_seconds) for one in servers],
        budget_bytes,
        WINDOW_SECONDS,
        rss_wait_seconds=2.0,
        cache_latency_seconds=CACHE_LATENCY_SECONDS,
        of_each={"minimum": "2mb", "sampler": sampler},
        node=NODE,
        controller=controller_text(cloud),
    )
    with started_sidecar(settings, running, folder, cloud.environment, log) as sidecar:
        sidecar.wait_until_sampled()
        yield
        # A load that is short, on a machine that is busy, may end before the first plan comes.
        deadline = time.monotonic() + START_LIMIT_SECONDS
        while not load_state(state).applied_cycle and sidecar.process.poll() is None:
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
    decisions = read_history(history_path(state))
    ended.append(_what_happened(cloud, load_state(state).applied_cycle, decisions))


def _what_happened(cloud: Cloud, applied_cycle: int, decisions: list[dict[str, Any]]) -> SidecarRun:
    s3 = boto3.client(
        "s3",
        endpoint_url=cloud.environment["AWS_ENDPOINT_URL"],
        region_name=cloud.environment["AWS_REGION"],
        aws_access_key_id=cloud.environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=cloud.environment["AWS_SECRET_ACCESS_KEY"],
    )
    # The same ones that the sidecar was told.
    told = tomllib.loads(controller_text(cloud))["controller"]

    def answered(bucket: str, key: Callable[[str, int], str]) -> list[str]:
        pages = s3.get_paginator("list_objects_v2").paginate(
            Bucket=told[bucket], Prefix=key(NODE, 0).rpartition("/")[0] + "/"
        )
        keys = sorted(item["Key"] for page in pages for item in page.get("Contents", ()))
        return [name for name in keys if name <= key(NODE, applied_cycle)]

    plans = answered("plans_bucket", plan_key)
    observation = None
    for name in answered("observations_bucket", observation_key)[-1:]:
        body = s3.get_object(Bucket=told["observations_bucket"], Key=name)["Body"]
        observation = Observation.loads(body.read(), name)
    return SidecarRun(len(plans), observation, decisions)

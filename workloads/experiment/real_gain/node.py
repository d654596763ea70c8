"""The sidecar of a mix's real servers: ``spreds run``, with the controller in it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from solver_lambda.documents.keys import plan_key
from solver_lambda.documents.plan import AdaptationPlan
from workloads.experiment.gain.mix import CACHE_LATENCY_SECONDS, Mix
from workloads.local_node import wait_until
from workloads.local_server import LocalServer
from workloads.running_program import running_program

NODE = "real-gain"
# The default, which is for cycles of an hour.
RSS_WAIT_SECONDS = 60.0


@contextmanager
def running_sidecar(
    mix: Mix, running: dict[str, LocalServer], cycle_seconds: float, folder: Path
) -> Iterator[None]:
    """Until the end of the load; ``folder`` gets its log and its documents.

    Raises:
        RuntimeError: it did not start, or ended before it was told to.
    """
    config, log = folder / "node.toml", folder / "sidecar.log"
    config.write_text(_configuration(mix, running, cycle_seconds, folder))
    with running_program(["sidecar.cli", "run", str(config)], log, signal.SIGTERM) as process:
        wait_until(
            lambda: process.poll() is not None or all(map(is_sampled, running.values())),
            log.read_text,
        )
        if process.poll() is None:
            yield
        if process.poll() is not None:
            raise RuntimeError(f"the sidecar ended: {log.read_text()[-4000:].strip()}")


def plans_in(folder: Path) -> list[AdaptationPlan]:
    """What it planned, in order."""
    kept = (folder / "documents" / plan_key(NODE, 0)).parent
    return [AdaptationPlan.loads(path.read_bytes(), path.name) for path in sorted(kept.iterdir())]


def is_sampled(server: LocalServer) -> bool:
    """Whether the sidecar has turned its sampler on."""
    return bool(server.client.config_get("spreds-endpoint").get("spreds-endpoint"))


def _configuration(
    mix: Mix, running: dict[str, LocalServer], cycle_seconds: float, folder: Path
) -> str:
    """As an operator would write it, but for times, which are compressed, and sampling."""
    parts = [
        f"""\
node = "{NODE}"
state_file = "state.json"
mode = "apply"

[memory]
budget = {mix.budget_bytes}
rss_wait = "{RSS_WAIT_SECONDS * cycle_seconds / mix.cycle_seconds:.6f}s"

[sampling]
endpoint = "ipc://{folder}/samples"
rate = 1.0

[cycle]
maximum_age = "{cycle_seconds}s"

[controller]
kind = "embedded"
folder = "documents"
"""
    ]
    parts += [
        f"""
[[server]]
name = "{server.name}"
url = "{running[server.name].url}"
weight = {server.weight}
backend_latency = "{server.backend_latency_seconds}s"
cache_latency = "{CACHE_LATENCY_SECONDS}s"
"""
        for server in mix.servers
    ]
    return "".join(parts)

"""SPREDS itself in the simulation: its monitors, observer, documents and planner."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sidecar.config.node import DEFAULT_MODULUS, SidecarConfig, read_config
from sidecar.curves.monitor import ServerMonitor
from sidecar.observer import ServerSnapshot, observe
from sidecar.samples.batch import Operation, decode_batch
from solver_lambda.documents.observation import Observation
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.documents.reader import Fields
from solver_lambda.planning.planner import make_plan
from workloads.experiment.gain.exact_lru import ExactLru
from workloads.experiment.gain.loads import IntArray
from workloads.experiment.gain.mix import CACHE_LATENCY_SECONDS, Mix
from workloads.experiment.gain.simulation import Division
from workloads.sample_batches import SampledServer, number_hashes

# Simulated time begins here: zero is no time for some.
START_SECONDS = 1_700_000_000.0


class SpredsDivision(Division):
    """One plan a cycle, applied at once.

    Args:
        rate: R, of the sampled keys.
        salt: 64 bits: another one gives another sample.
    """

    def __init__(self, rate: float, salt: int) -> None:
        self._threshold = max(1, round(rate * DEFAULT_MODULUS))
        self._salt = salt
        self.plans: list[AdaptationPlan] = []

    def begin(self, mix: Mix, servers: list[ExactLru]) -> None:
        self._config = _config(mix, self._threshold)
        self._mix = mix
        self._servers = servers
        self._names = [server.name for server in mix.servers]
        sampling = self._config.sampling
        self._samplers = [
            SampledServer(server.number, self._threshold, sampling.modulus, self._salt)
            for server in servers
        ]
        self._monitors = [
            ServerMonitor(
                name,
                live_objects=sampling.live_objects,
                half_life_seconds=sampling.half_life_seconds,
            )
            for name in self._names
        ]
        self._changed_at: dict[str, float] = {}
        self._planned_at = 0.0
        for monitor, server in zip(self._monitors, servers, strict=True):
            monitor.observe(server.reading(START_SECONDS), mix.budget_bytes)

    def follow(
        self, place: int, keys: IntArray, hit: npt.NDArray[np.bool_], seconds: tuple[float, float]
    ) -> None:
        # A miss is filled: a write follows it.
        repeated = np.repeat(np.arange(len(keys)), np.where(hit, 1, 2))
        operations = np.where(hit[repeated], Operation.READ_HIT, Operation.READ_MISS)
        operations[1:][repeated[1:] == repeated[:-1]] = Operation.WRITE
        sizes = self._servers[place].sizes_bytes[keys[repeated]]
        begin, end = seconds
        times = START_SECONDS + begin + (end - begin) * (repeated + 0.5) / max(1, len(keys))
        for message in self._samplers[place].batches(
            number_hashes(keys[repeated], self._salt),
            operations,
            np.where(operations == Operation.READ_MISS, 0, sizes),
            times_us=(times * 1e6).astype(np.int64),
        ):
            self._monitors[place].take(decode_batch(message))

    def sizes_bytes(self, now_seconds: float) -> Sequence[int] | None:
        if now_seconds - self._planned_at < self._mix.cycle_seconds - 1e-3:
            return None
        self._planned_at = now_seconds
        now_seconds += START_SECONDS
        plan = self._plan(now_seconds)
        self.plans.append(plan)
        if plan.decision != "apply":
            return None
        wanted = {server.name: server.maxmemory_bytes for server in plan.servers}
        for name, server in zip(self._names, self._servers, strict=True):
            if wanted[name] != server.maxmemory_bytes:
                self._changed_at[name] = now_seconds
        return [wanted[name] for name in self._names]

    def _plan(self, now_seconds: float) -> AdaptationPlan:
        seen = []
        for place, server in enumerate(self._servers):
            reading = server.reading(now_seconds)
            estimate = self._monitors[place].observe(reading, self._mix.budget_bytes)
            config = self._config.servers[place]
            changed_at = self._changed_at.get(config.name)
            seen.append(ServerSnapshot(config, reading, estimate, None, changed_at))
        observation = observe(self._config, len(self.plans) + 1, now_seconds, seen, 0)
        # As they travel.
        observation = Observation.loads(observation.dumps(), "observation")
        plan = make_plan(observation, now_seconds=now_seconds)
        return AdaptationPlan.loads(plan.dumps(), "plan")


def _config(mix: Mix, threshold: int) -> SidecarConfig:
    """As an operator would write it, with the defaults for all else."""
    servers = [
        {
            "name": server.name,
            "url": f"redis://127.0.0.1:{place}",
            "weight": server.weight,
            "backend_latency": f"{server.backend_latency_seconds}s",
            "cache_latency": f"{CACHE_LATENCY_SECONDS}s",
        }
        for place, server in enumerate(mix.servers, 6379)
    ]
    table = {
        "node": "simulated",
        "memory": {"budget": mix.budget_bytes},
        "sampling": {"endpoint": "ipc:///run/samples", "threshold": threshold},
        "server": servers,
    }
    return read_config(Fields(table, mix.name), Path())

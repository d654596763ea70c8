"""SPREDS itself in the simulation: its monitors, observer, documents and planner."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from sidecar.config.node import FLOORS, SidecarConfig, read_config
from sidecar.control.one_server_rollback import sizes_with_one_back
from sidecar.control.plan_outcome import PlanOutcome
from sidecar.control.plan_rollback import wait_seconds
from sidecar.curves.monitor import ServerMonitor
from sidecar.curves.read_counts import ReadCounts
from sidecar.curves.sampling_rate import SamplingRate
from sidecar.half_lives.planning_basis import PlanningBasis
from sidecar.observing.observer import observe
from sidecar.observing.server_snapshot import ServerSnapshot
from sidecar.samples.batch import decode_batch
from sidecar.samples.sampler_key import SamplerKey
from sidecar.samples.wire_format import DEFAULT_MODULUS
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.servers.sizes.handover import Holding, handover
from solver_lambda.documents.observation import Observation
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.documents.reader import Fields
from solver_lambda.planning.planner import make_plan
from workloads.experiment.gain.mix import CACHE_LATENCY_SECONDS, Mix
from workloads.experiment.gain.simulated_server import (
    BASELINE_BYTES,
    Served,
    SimulatedServer,
    server_events,
)
from workloads.experiment.gain.simulation import Division
from workloads.sample_batches import SampledServer, number_hashes

# Simulated time begins here: zero is no time for some.
START_SECONDS = 1_700_000_000.0


class VerifiedPlans:
    """Verifies the plans of one simulated node.

    Attributes:
        rolled_back: plans that were taken back.
        stopped: parts of servers that were, as their curves were refuted.
        waits: until when each of these takes part in no plan, in simulated seconds.
    """

    def __init__(self, cycle_seconds: float) -> None:
        self.rolled_back = self.stopped = 0
        self.waits: dict[str, float] = {}
        self._cycle_seconds = cycle_seconds
        self._promise: PlanOutcome | None = None
        self._before: dict[str, int] = {}
        self._failures = 0
        self._waits_until = 0.0

    def may_plan(self, now_seconds: float) -> bool:
        """Whether a plan may be carried out."""
        return now_seconds >= self._waits_until

    def begin(
        self, observation: Observation, plan: AdaptationPlan, before_bytes: dict[str, int]
    ) -> None:
        """A plan is carried out, in place of these sizes."""
        self._promise = PlanOutcome(observation, plan, before_bytes)
        self._before = before_bytes

    def look(self, readings: Mapping[str, ServerReading]) -> None:
        """Count what the servers say."""
        if self._promise is not None:
            self._promise.take_readings(readings)

    def step(self, counts: Mapping[str, ReadCounts], seconds: float) -> None:
        """A step of the curves is over."""
        if self._promise is not None:
            self._promise.step(counts, seconds)

    def stop_refuted(
        self, targets_bytes: dict[str, int], now_seconds: float, budget_bytes: int
    ) -> dict[str, int]:
        """The targets from now on: who is refuted by what came has again what it had."""
        refuted = self._promise.refuted if self._promise else None
        if refuted is None:
            return targets_bytes
        name, self._promise = refuted[0], None
        self.stopped += 1
        self.waits[name] = now_seconds + wait_seconds(self._cycle_seconds, 1)
        return sizes_with_one_back(name, self._before, targets_bytes, budget_bytes)

    def conclude(
        self, targets_bytes: dict[str, int], now_seconds: float, last: Observation | None
    ) -> dict[str, int]:
        """The next plan is due: the targets from now on; ``last``: the last observation."""
        promise, self._promise = self._promise, None
        if promise is not None and last is not None:
            promise.know(last)
        verdict = promise.check().verdict if promise else None
        if verdict in ("kept", "too_early"):
            self._failures = 0
        if verdict == "too_early":
            self._promise = promise
        if verdict != "failed":
            return targets_bytes
        self._failures += 1
        self.rolled_back += 1
        self._waits_until = now_seconds + wait_seconds(self._cycle_seconds, self._failures)
        return self._before


class SpredsDivision(Division):
    """A plan each cycle, or early; memory is handed over as it is filled.

    Args:
        rate: R, of the sampled keys; ``None``: as it finds itself.
        salt: 64 bits: another one gives another sample.
        steps_a_look: memory is handed over after every so many steps.
        floor: of each server, as in the node's file.
    """

    def __init__(
        self, rate: float | None, salt: int, steps_a_look: int = 1, floor: str = FLOORS[0]
    ) -> None:
        self._floor = floor
        self._threshold = None if rate is None else max(1, round(rate * DEFAULT_MODULUS))
        self._salt = salt
        self._steps_a_look = steps_a_look
        self._steps = 0
        self.plans: list[AdaptationPlan] = []
        self.observations: list[Observation] = []

    def begin(self, mix: Mix, servers: list[SimulatedServer]) -> None:
        self._config = _config(mix, self._threshold, self._floor)
        self._mix = mix
        self._servers = servers
        self._names = [server.name for server in mix.servers]
        sampling = self._config.sampling
        self._samplers = [
            SampledServer(server.number, sampling.threshold, sampling.modulus, self._salt)
            for server in servers
        ]
        self._monitors = [
            ServerMonitor(name, live_objects=sampling.live_objects, cycle_seconds=mix.cycle_seconds)
            for name in self._names
        ]
        self._keys = [SamplerKey() for _ in servers]
        self._rates = [SamplingRate(sampling, key) for key in self._keys]
        followed = dict(zip(self._names, self._monitors, strict=True))
        self._planning_basis = PlanningBasis(self._config, followed, 0.0)
        self._verified = VerifiedPlans(mix.cycle_seconds)
        self._planning_basis.on_step = self._verified.step
        self._changed_at: dict[str, float] = {}
        self._planned_at = 0.0
        self._targets = {name: one.maxmemory_bytes for name, one in self._by_name(servers)}
        self._used = dict.fromkeys(self._names, 0)
        for monitor, server in zip(self._monitors, servers, strict=True):
            monitor.observe(server.reading(START_SECONDS), mix.budget_bytes)

    def _by_name(self, servers: list[SimulatedServer]) -> list[tuple[str, SimulatedServer]]:
        return list(zip(self._names, servers, strict=True))

    def follow(self, place: int, served: Served) -> None:
        server = self._servers[place]
        ttl_seconds = self._mix.servers[place].ttl_seconds
        events = server_events(served, server.sizes_bytes, ttl_seconds)
        times = START_SECONDS + events.times_seconds
        for message in self._samplers[place].batches(
            number_hashes(events.keys, self._salt),
            events.operations,
            events.sizes_bytes,
            ttls_ms=events.ttls_ms,
            times_us=(times * 1e6).astype(np.int64),
        ):
            self._monitors[place].take(decode_batch(message))

    def sizes_bytes(self, now_seconds: float) -> Sequence[int] | None:
        for place, rate in enumerate(self._rates):
            rate.look(self._monitors[place], now_seconds)
            self._samplers[place].threshold = self._keys[place].threshold
        readings = self._readings(now_seconds)
        self._verified.look(readings)
        self._planning_basis.look(now_seconds, self._targets)
        self._targets = self._verified.stop_refuted(
            self._targets, now_seconds, self._mix.budget_bytes
        )
        age_seconds = now_seconds - self._planned_at
        if self._planning_basis.is_early or age_seconds >= self._mix.cycle_seconds - 1e-3:
            self._planned_at = now_seconds
            self._planning_basis.look(now_seconds, self._targets, at_once=True)
            self._targets = self._verified.conclude(
                self._targets, now_seconds, self.observations[-1] if self.observations else None
            )
            self._plan_and_take(now_seconds + START_SECONDS)
            self._verified.look(readings)
        self._steps += 1
        return None if self._steps % self._steps_a_look else self._hand_over()

    def _plan_and_take(self, now_seconds: float) -> None:
        plan = self._plan(now_seconds)
        self.plans.append(plan)
        applied = plan.decision == "apply" and self._verified.may_plan(now_seconds - START_SECONDS)
        self.applied += applied
        self._planning_basis.planned(applied=applied)
        if not applied:
            return
        before = {name: one.maxmemory_bytes for name, one in self._by_name(self._servers)}
        self._verified.begin(self.observations[-1], plan, before)
        wanted = {server.name: server.maxmemory_bytes for server in plan.servers}
        for name in self._names:
            if wanted[name] != self._targets[name]:
                self._changed_at[name] = now_seconds
        self._targets = wanted

    def _readings(self, now_seconds: float) -> dict[str, ServerReading]:
        now_seconds += START_SECONDS
        return {name: one.reading(now_seconds) for name, one in self._by_name(self._servers)}

    def _hand_over(self) -> Sequence[int] | None:
        used = {name: BASELINE_BYTES + one.used_bytes for name, one in self._by_name(self._servers)}
        holdings = [
            Holding(
                name,
                one.maxmemory_bytes,
                self._targets[name],
                used[name],
                max(0, used[name] - self._used[name]),
            )
            for name, one in self._by_name(self._servers)
        ]
        self._used = used
        if all(one.size_bytes == one.target_bytes for one in holdings):
            return None
        sizes = handover(holdings, self._mix.budget_bytes)
        return [sizes[name] for name in self._names]

    def _plan(self, now_seconds: float) -> AdaptationPlan:
        seen = []
        for place, server in enumerate(self._servers):
            reading = server.reading(now_seconds)
            estimate = self._monitors[place].observe(
                reading, self._mix.budget_bytes, half_life=self._planning_basis.half_life
            )
            config = self._config.servers[place]
            changed_at = self._changed_at.get(config.name)
            reading = dataclasses.replace(reading, maxmemory_bytes=self._targets[config.name])
            until = self._verified.waits.get(config.name, 0.0) + START_SECONDS
            waits = "waits: its curve was refuted" if now_seconds < until else None
            one = ServerSnapshot(config, reading, estimate, None, changed_at, waits=waits)
            first = (
                self._mix.budget_bytes // len(self._servers) if self._floor != FLOORS[0] else None
            )
            seen.append(dataclasses.replace(one, installed_bytes=first))
        observation = observe(self._config, len(self.plans) + 1, now_seconds, seen, 0)
        observation = self._planning_basis.judged(observation)
        # As they travel.
        observation = Observation.loads(observation.dumps(), "observation")
        self.observations.append(observation)
        plan = make_plan(observation, now_seconds=now_seconds)
        return AdaptationPlan.loads(plan.dumps(), "plan")


def _config(mix: Mix, threshold: int | None, floor: str) -> SidecarConfig:
    """Configure as an operator would, with the defaults for all else."""
    servers = [
        {
            "name": server.name,
            "url": f"redis://127.0.0.1:{place}",
            "weight": server.weight,
            "backend_latency": f"{server.backend_latency_seconds}s",
            "cache_latency": f"{CACHE_LATENCY_SECONDS}s",
            "floor": floor,
        }
        for place, server in enumerate(mix.servers, 6379)
    ]
    table = {
        "node": "simulated",
        "memory": {"budget": mix.budget_bytes},
        "cycle": {"maximum_age": f"{mix.cycle_seconds}s"},
        "sampling": {
            "endpoint": "ipc:///run/samples",
            **({"rate": "auto"} if threshold is None else {"threshold": threshold}),
        },
        "server": servers,
    }
    return read_config(Fields(table, mix.name), Path())

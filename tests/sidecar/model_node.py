"""A node of models of servers, in simulated time."""

from __future__ import annotations

from sidecar.base.metrics import Metrics
from sidecar.servers.actuator import Actuator
from sidecar.state.state_store import StateStore
from workloads.experiment.faults.model.model import maker
from workloads.experiment.faults.model.model_stage import ModelStage
from workloads.experiment.faults.model.sidecars import ModelSidecar
from workloads.experiment.faults.model.simulated_time import SimulatedClock


class Node:
    """Two servers with half of the budget each, and their actuator."""

    def __init__(self, clock: SimulatedClock, kind: str = "actuator") -> None:
        self.stage = ModelStage(clock, 2, maker(kind, clock))
        sidecar = self.stage._sidecar
        assert isinstance(sidecar, ModelSidecar)
        self.actuator: Actuator = sidecar._actuator
        self.store: StateStore = self.actuator._store
        self.metrics: Metrics = self.actuator._metrics
        self.servers = self.stage.servers

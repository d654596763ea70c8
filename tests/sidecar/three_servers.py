"""Three models of servers under the real actuator, and the sizes that they have had."""

from __future__ import annotations

from workloads.experiment.faults.model.model_stage import BUDGET_BYTES, ModelStage
from workloads.experiment.faults.model.sidecars import ModelSidecar

THIRD = BUDGET_BYTES // 3


class ThreeServers:
    """Models with a third of the budget each, and the least that each had since."""

    def __init__(self, stage: ModelStage) -> None:
        self.stage = stage
        sidecar = stage._sidecar
        assert isinstance(sidecar, ModelSidecar)
        self.actuator = sidecar._actuator
        self.metrics = sidecar._keeper._metrics
        self.least_bytes = self.sizes
        live = stage._clock.on_advance

        def look(seconds: float) -> None:
            live(seconds)
            pairs = zip(self.least_bytes, self.sizes, strict=True)
            self.least_bytes = [min(pair) for pair in pairs]

        stage._clock.on_advance = look

    @property
    def sizes(self) -> list[int]:
        return [server.maxmemory_bytes for server in self.stage.servers]

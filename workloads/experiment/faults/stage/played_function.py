"""The function of the cloud, played: it answers observations with the plan that is ordered."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Self

from solver_lambda.documents.keys import parse_observation_key, plan_key
from solver_lambda.documents.observation import Observation
from workloads.experiment.faults.stage.cloud import LocalCloud
from workloads.experiment.faults.stage.launcher import plan_of, plan_words
from workloads.experiment.faults.stage.orders import PLAN, STEPS

LOOK_SECONDS = 0.1


class PlayedFunction:
    """Looks into the bucket in a thread of its own; a context manager.

    Attributes:
        way: how it answers: ``well``, ``fails`` (not at all), ``late`` (after 3 s), ``twice``
            (and tells of it twice).
        told: the keys of plans that it has told of.
        folder: of the stage's orders; it begins when it is set.
    """

    def __init__(self, cloud: LocalCloud) -> None:
        self.way = "well"
        self.told: list[str] = []
        self.failed = 0
        self.folder: Path | None = None
        self._cloud = cloud
        self._seen: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def begin(self, folder: Path) -> None:
        """With the orders of this folder."""
        self.folder = folder
        self._thread.start()

    def _work(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            listed = self._cloud.s3.list_objects_v2(Bucket="observations", Prefix="observations/")
            for key in sorted(item["Key"] for item in listed.get("Contents", [])):
                if key not in self._seen:
                    self._seen.add(key)
                    # Functions run side by side.
                    threading.Thread(target=self._answer, args=(key,), daemon=True).start()

    def _answer(self, key: str) -> None:
        if self.way == "fails":
            self.failed += 1
            return
        if self.way == "late":
            self._stop.wait(3.0)
        body = self._cloud.s3.get_object(Bucket="observations", Key=key)["Body"].read()
        observation = Observation.loads(body, key)
        assert self.folder is not None
        if not (self.folder / PLAN).exists():
            return  # the stage is gone
        order = json.loads((self.folder / PLAN).read_text())
        plan = plan_of(observation, order["shares"], time.time())
        with (self.folder / STEPS).open("a") as steps:
            steps.write(
                f"{time.monotonic():.6f} {plan_words(order['number'], observation, plan)}\n"
            )
        answer = plan_key(*parse_observation_key(key))
        self._cloud.s3.put_object(Bucket="plans", Key=answer, Body=plan.dumps())
        message = json.dumps(self._cloud.message(answer))
        for _ in range(2 if self.way == "twice" else 1):
            self._cloud.send(message)
        self.told.append(answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

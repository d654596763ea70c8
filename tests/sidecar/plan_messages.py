"""Messages about plans, and what takes them, without a server: the real parser, signature check,
inbox, plan checks and application; sizes go to nobody."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from sidecar.base.metrics import Metrics
from sidecar.control.history import History
from sidecar.control.plan_application import PlanApplication
from sidecar.delivery.message_signature import SignatureCheck
from sidecar.delivery.notification import NotificationCheck
from sidecar.delivery.plan_inbox import PlanInbox, Verdict
from sidecar.state.sidecar_state import PendingRequest
from sidecar.state.state_store import StateStore
from sidecar.storage.store import StoreError
from solver_lambda.documents.curve import MissRatioCurve
from solver_lambda.documents.keys import plan_key
from solver_lambda.documents.observation import Observation, ServerObservation
from solver_lambda.documents.plan import AdaptationPlan
from tests.sidecar.signed_cloud import SignedCloud

NODE = "n1"
OLD, NEW, FORGED = 101, 102, 103
GOLDEN = AdaptationPlan.loads(
    (Path(__file__).parents[1] / "golden" / "plan-1.json").read_bytes(), "golden"
)


def plan(cycle: int, node: str = NODE) -> AdaptationPlan:
    """Make a plan that moves memory, made now."""
    now = time.time()
    return replace(
        GOLDEN,
        node=node,
        cycle=cycle,
        observation_made_at_seconds=now,
        made_at_seconds=now,
        # Each has sizes of its own.
        servers=(
            replace(GOLDEN.servers[0], maxmemory_bytes=(cycle % 100 + 2) << 20),
            replace(GOLDEN.servers[1], maxmemory_bytes=(30 - cycle % 100) << 20),
        ),
    )


def observation(cycle: int) -> Observation:
    """Return what such a plan answers: the servers are read, and need none of what they have."""
    curve = MissRatioCurve(np.array([float(1 << 20)]), np.array([0.5]))
    servers = tuple(
        ServerObservation(
            server.name, server.maxmemory_before_bytes, 1 << 20, 1.0, 1000.0, 1e-4, 1e-2, curve
        )
        for server in GOLDEN.servers
    )
    return Observation(NODE, cycle, time.time(), 60.0, GOLDEN.budget_bytes, servers)


@dataclass(frozen=True)
class Mark:
    """What a ``Receiving`` was like."""

    state: Any
    done: Any
    moves: tuple[int, ...]
    last_plan: AdaptationPlan | None


class Engaged:
    """Takes the place of ``Enforcement``: notes the cycles whose sizes are wanted."""

    def __init__(self) -> None:
        self.moves: list[int] = []

    def move(self, _sizes_bytes: Mapping[str, int], purpose: str, _asked: Observation) -> None:
        self.moves.append(int(purpose.removeprefix("cycle ")))

    def sizes_in_force(self) -> dict[str, int]:
        return {}

    def sizes_to_come_back_to(self) -> dict[str, int]:
        return {}

    def contested(self) -> set[str]:
        return set()


class Documents:
    """Plays a bucket. ``fails``: asked before each fetch whether that one is to fail."""

    def __init__(self, documents: Mapping[str, bytes]) -> None:
        self.documents = dict(documents)
        self.fails: Callable[[], bool] = lambda: False

    def get(self, key: str, _max_bytes: int) -> bytes | None:
        if self.fails():
            raise StoreError("not now")
        return self.documents.get(key)

    def put(self, key: str, body: bytes) -> None:
        raise NotImplementedError

    def delete(self, key: str) -> None:
        raise NotImplementedError


class Receiving:
    """A sidecar that has asked for all three cycles, as far as plans concern it.

    Attributes:
        plans: where they lie; may be replaced before the first message.
    """

    def __init__(self, cloud: SignedCloud, signature: SignatureCheck, plans: Any = None) -> None:
        self.metrics = Metrics()
        self.store = StateStore(None)
        now = time.time()
        with self.store.update() as state:
            for cycle in (OLD, NEW, FORGED):
                bounds = {server.name: (1 << 20, None) for server in GOLDEN.servers}
                state.ask(PendingRequest(cycle, now, GOLDEN.budget_bytes, bounds))
        controller = SimpleNamespace(maximum_plan_age_seconds=3600.0)
        config: Any = SimpleNamespace(
            node=NODE, servers=(), controller=controller, mode="apply", planning=(), limits=()
        )
        engaged: Any = Engaged()
        self._engaged = engaged
        self.application = PlanApplication(
            config,
            self.store,
            threading.RLock(),
            engaged,
            self.metrics,
            History(None),
            {cycle: observation(cycle) for cycle in (OLD, NEW, FORGED)}.get,
        )
        self._check = NotificationCheck(
            topic_arn=cloud.topic_arn,
            plans_bucket=cloud.plans_bucket,
            node=NODE,
            signature=signature,
            maximum_age_seconds=3600.0,
            now=time.time,
        )
        self.plans = plans or Documents(stored_plans())
        self.inbox = PlanInbox(
            self._check, self.plans, self.application.take, lambda _token: None, self.metrics
        )

    @property
    def moves(self) -> list[int]:
        """Cycles of the plans that were carried out, in order."""
        return self._engaged.moves

    def take(self, body: bytes) -> Verdict:
        return self.inbox.take(body)

    def mark(self) -> Mark:
        """Mark the state, to come back to."""
        return Mark(
            self.store.now,
            self._check._done.copy(),
            tuple(self.moves),
            self.application.last_plan,
        )

    def back_to(self, mark: Mark) -> None:
        """Go back to a mark, as if nothing had come since."""
        self.store._state = mark.state
        self._check._done = mark.done.copy()
        self._engaged.moves = list(mark.moves)
        self.application.last_plan = mark.last_plan


def stored_plans() -> dict[str, bytes]:
    """Return good plans: of all cycles, also of the forged notification's, and of another node."""
    documents = {plan_key(NODE, cycle): plan(cycle).dumps() for cycle in (OLD, NEW, FORGED)}
    return {**documents, plan_key("n2", NEW): plan(NEW, "n2").dumps()}


def six_messages(cloud: SignedCloud) -> dict[str, bytes]:
    """Return messages by what they are. One that comes a second time is a replay."""

    def signed(key: str, **fields: Any) -> dict[str, Any]:
        return cloud.sign(cloud.message(cloud.event(key), **fields))

    forged = {**signed(plan_key(NODE, OLD)), "Message": cloud.event(plan_key(NODE, FORGED))}
    bodies = {
        "old": signed(plan_key(NODE, OLD)),
        "new": signed(plan_key(NODE, NEW)),
        "new again": signed(plan_key(NODE, NEW)),  # another message, the same plan
        "forged": forged,
        "other node's": signed(plan_key("n2", NEW)),
        "of another kind": {**signed(plan_key(NODE, FORGED)), "Type": "UnsubscribeConfirmation"},
    }
    return {name: json.dumps(body).encode() for name, body in bodies.items()}

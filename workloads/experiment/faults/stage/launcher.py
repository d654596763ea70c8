"""``spreds run`` as it is, but that plans are known, time can jump, and it ends at a chosen step.

The folder of the orders is in ``SPREDS_FAULTS``. Three things are replaced. The planner: sizes come
from ``plan.json``. Reasons for which too few samples let a server keep its size do not count; nor
do curves, by which the sidecar would refuse such sizes. Checks of plans: they take nothing back,
for such sizes may well do harm. ``time.time``: ``clock`` has seconds to add, read when SIGUSR1
comes. What is counted: each CONFIG SET and each save of the state, in ``steps``; ``switch`` names
one before or after which the process ends by SIGKILL.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import sidecar.controllers.embedded as embedded
import sidecar.observing.observer as observer
import sidecar.state.state_store as state_store
from sidecar.control.plan_outcome import Check, PlanOutcome
from sidecar.servers.connection.redis_server import RedisServer
from solver_lambda.documents.curve import MissRatioCurve
from solver_lambda.documents.observation import Observation, ServerObservation
from solver_lambda.documents.plan import AdaptationPlan, ServerPlan
from solver_lambda.documents.planning_settings import PlanningSettings
from workloads.experiment.faults.stage.orders import (
    CLOCK,
    ORDERS,
    PLAN,
    STEPS,
    SWITCH,
    TRICK,
    end_with_parent,
    wanted_sizes,
)

# Of how many samples there are; the sizes do not come from them.
FLAT = MissRatioCurve(np.array([1.0]), np.array([0.5]))
READS_PER_SECOND = 1000.0
SAMPLES_REASONS = ("no_sample", "few_samples", "no_backend_latency")


class Steps:
    """Counts what changes something outside the process, and ends it where the switch says so."""

    def __init__(self, folder: Path) -> None:
        self._switch = folder / SWITCH
        self._log = (folder / STEPS).open("a", buffering=1)
        self._lock = threading.Lock()
        self._count = 0
        self._order = ""

    def note(self, words: str) -> None:
        """A line of time (monotonic) and words."""
        self._log.write(f"{time.monotonic():.6f} {words}\n")

    def take(self, words: str, step: Callable[[], Any]) -> Any:
        """Do it, unless it is where the process ends."""
        *where, order = self._switch.read_text().split() if self._switch.exists() else [""]
        with self._lock:
            self._count = self._count + 1 if where and order == self._order else int(bool(where))
            self._order = order
            count = self._count
        self.note(f"step {count} {words}")
        self._end_at(["before", str(count)], where)
        try:
            done = step()
        except Exception:
            self.note(f"failed {words}")
            raise
        self.note(f"done {words}")
        self._end_at(["after", str(count)], where)
        return done

    def _end_at(self, here: list[str], where: list[str]) -> None:
        if here == where:
            self._switch.unlink()
            self.note(f"ends {' '.join(here)}")
            os.kill(os.getpid(), signal.SIGKILL)


def replace_planner(folder: Path, steps: Steps) -> None:
    """Make plans have the sizes of ``plan.json`` from now on, and play ``trick`` on the next."""

    def planned(observation: Observation, *, now_seconds: float) -> AdaptationPlan:
        order = json.loads((folder / PLAN).read_text())
        trick = _taken(folder / TRICK)
        if trick[:1] == ["raise"]:
            steps.note("trick raise")
            raise RuntimeError("the planner fails, as it was told to")
        if trick[:1] == ["late"]:
            steps.note("trick late")
            time.sleep(float(trick[1]))
        plan = plan_of(observation, order["shares"], now_seconds)
        steps.note(plan_words(order["number"], observation, plan))
        return _tampered(plan, trick[0]) if trick else plan

    embedded.make_plan = planned  # type: ignore[attr-defined]
    keep_reason = observer._keep_reason

    def kept(seen: Any, latency_seconds: float | None) -> str | None:
        reason = keep_reason(seen, latency_seconds)
        return None if reason and reason.startswith(SAMPLES_REASONS) else reason

    observer._keep_reason = kept
    observe_server = observer._observe_server

    def observed(seen: Any, most_bytes: int, half_bytes: int) -> ServerObservation:
        server = observe_server(seen, most_bytes, half_bytes)
        error = min(server.curve_error_ratio, PlanningSettings.maximum_curve_error_ratio)
        return replace(
            server, curve=FLAT, request_rate_per_second=READS_PER_SECOND, curve_error_ratio=error
        )

    observer._observe_server = observed
    check = PlanOutcome.check

    def checked(outcome: PlanOutcome) -> Check:
        found = check(outcome)
        return replace(found, verdict="worse") if found.verdict == "failed" else found

    PlanOutcome.check = checked  # type: ignore[method-assign,assignment]


def plan_of(
    observation: Observation, shares: Mapping[str, int], now_seconds: float
) -> AdaptationPlan:
    """The observation's budget in these proportions, as far as its bounds let it."""
    sizes = wanted_sizes(observation, shares)
    before = {server.name: server.maxmemory_bytes for server in observation.servers}
    return AdaptationPlan(
        node=observation.node,
        cycle=observation.cycle,
        observation_made_at_seconds=observation.made_at_seconds,
        made_at_seconds=now_seconds,
        budget_bytes=observation.budget_bytes,
        method="none",
        decision="keep" if sizes == before else "apply",
        reason="ordered: the driver of the faults wants these sizes",
        optimality_gap=1.0,
        mean_access_time_before_seconds=None,
        mean_access_time_seconds=None,
        servers=tuple(
            ServerPlan(name, before[name], size, None, None, None, None, None, "ordered")
            for name, size in sizes.items()
        ),
    )


def plan_words(number: int, observation: Observation, plan: AdaptationPlan) -> str:
    """A line for the steps, as ``sidecar_process.MadePlan`` reads it."""
    free = sum(server.keep_reason is None for server in observation.servers)
    sizes = ",".join(f"{server.name}={server.maxmemory_bytes}" for server in plan.servers)
    return f"plan {number} {free} {plan.decision} {sizes}"


def _tampered(plan: AdaptationPlan, trick: str) -> AdaptationPlan:
    """Change a plan as somebody would send it who may write plans and means harm."""
    changes: dict[str, dict[str, Any]] = {
        "other_node": {"node": "somebody-else"},
        "old_cycle": {"cycle": 1},
        "other_budget": {"budget_bytes": 2 * plan.budget_bytes},
        "late": {},
    }
    fields = {**plan.__dict__, **changes.get(trick, {})}
    if trick == "twice_the_sizes":
        fields["decision"] = "apply"
        fields["servers"] = tuple(
            ServerPlan(**{**s.__dict__, "maxmemory_bytes": 2 * s.maxmemory_bytes})
            for s in plan.servers
        )
    return AdaptationPlan(**fields)


def _taken(path: Path) -> list[str]:
    if not path.exists():
        return []
    words = path.read_text().split()
    path.unlink()
    return words


def count_steps(steps: Steps) -> None:
    """Number each CONFIG SET and each save."""
    send, save = RedisServer.set, state_store._save

    def counted_send(server: RedisServer, settings: Mapping[str, object]) -> None:
        words = " ".join(f"{key}={value}" for key, value in settings.items() if value != "")
        steps.take(f"set {server.name} {words}", lambda: send(server, settings))

    def counted_save(path: Path, state: Any) -> bool:
        return bool(steps.take("save", lambda: save(path, state)))

    RedisServer.set = counted_send  # type: ignore[method-assign,assignment]
    state_store._save = counted_save


def follow_clock(folder: Path) -> None:
    """``time.time`` is off by what ``clock`` says; it is read now, and at each SIGUSR1."""
    clock, right = folder / CLOCK, time.time
    offset_seconds = 0.0

    def read(*_: object) -> None:
        nonlocal offset_seconds
        offset_seconds = float(clock.read_text()) if clock.exists() else 0.0

    time.time = lambda: right() + offset_seconds
    read()
    signal.signal(signal.SIGUSR1, read)


def main(arguments: Sequence[str]) -> int:
    """The sidecar of the node's file that ``arguments`` name."""
    end_with_parent()
    folder = Path(os.environ[ORDERS])
    steps = Steps(folder)
    steps.note("begins")
    follow_clock(folder)
    replace_planner(folder, steps)
    count_steps(steps)
    from sidecar.cli import main as spreds

    return spreds(["run", *arguments])

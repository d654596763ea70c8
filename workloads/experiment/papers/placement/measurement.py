"""From an observation to its plan in force, by place of the solver and number of servers."""

from __future__ import annotations

import http.client
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from solver_lambda.documents.observation import Observation
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.planning.planner import make_plan
from workloads.bench.solver.function_verb import realistic_observation
from workloads.experiment.harness.study import Scope
from workloads.experiment.papers.placement.delay_proxy import delayed
from workloads.local_server import LocalServer
from workloads.running_program import running_command
from workloads.solver_service import HOST, SolverService, running_service

BUSY = [sys.executable, "-S", "-c", "while True: pass"]
SERVERS = (3, 8, 16, 32, 64)
QUICK_SERVERS = (3, 8)
REPETITIONS = 3
OTHERS = 3
# One way, half of the paper's ping (its Table 4.3): to a machine in its own region, and in another.
ONE_WAY_SECONDS = {"region": 2.09e-3 / 2, "other region": 80.7e-3 / 2}
PLACES = ("beside", "beside, busy", "other process", *ONE_WAY_SECONDS)
# Of a new connection and a request with its answer.
ONE_WAYS_OF_A_REQUEST = 4
LIMIT_SECONDS = 60.0
# The same observation is asked about again and again.
OF_ANY_AGE = {"SPREDS_MAX_AGE_SECONDS": "1e12"}
# Takes an observation's document, gives the plan's.
Solver = Callable[[bytes], bytes]


@contextmanager
def busy_processor(process_id: int, others: int) -> Iterator[None]:
    """Bind a process to one processor, with ``others`` beside it that never rest."""
    processor = {min(os.sched_getaffinity(0))}
    before = os.sched_getaffinity(process_id)
    with ExitStack() as stack:
        os.sched_setaffinity(process_id, processor)
        stack.callback(os.sched_setaffinity, process_id, before)
        for _ in range(others):
            running = running_command(BUSY, Path(os.devnull), signal.SIGKILL)
            os.sched_setaffinity(stack.enter_context(running).pid, processor)
        yield


def measure_places(scope: Scope) -> dict[str, Any]:
    """Seconds by place, number of servers and seed: medians of some runs."""
    counts = QUICK_SERVERS if scope.is_quick else SERVERS
    places = [place for place in PLACES if not (scope.is_quick and place == "beside, busy")]
    repetitions = 1 if scope.is_quick else REPETITIONS
    found: dict[str, Any] = {
        str(count): {"seconds": {place: [] for place in places}, "solving": [], "applying": []}
        for count in counts
    }
    with ExitStack() as stack:
        servers = [stack.enter_context(LocalServer()) for _ in range(max(counts))]
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="spreds-solver-"))
        service = stack.enter_context(running_service(Path(folder) / "log", OF_ANY_AGE))
        for number, seed in enumerate(scope.seeds):
            for place_number, place in enumerate(places):
                done = 0.8 * (number + place_number / len(places)) / len(scope.seeds)
                scope.progress(f"{place}, seed {seed}", done)
                with _solver(place, service) as solver:
                    for count in counts:
                        of = found[str(count)]
                        runs = _runs(seed, servers[:count], solver, repetitions)
                        of["seconds"][place].append(statistics.median(map(sum, runs)))
                        if place == "beside":
                            of["solving"].append(statistics.median(run[0] for run in runs))
                            of["applying"].append(statistics.median(run[1] for run in runs))
    return found


@contextmanager
def _solver(place: str, service: SolverService) -> Iterator[Solver]:
    """In this process, in another one, on a busy processor, or far away."""
    with ExitStack() as stack:
        port = service.port
        if place == "beside":
            yield _planned
            return
        if place == "beside, busy":
            stack.enter_context(busy_processor(service.process_id, OTHERS))
        elif place in ONE_WAY_SECONDS:
            port = stack.enter_context(delayed(port, ONE_WAY_SECONDS[place]))
        yield lambda observation: _asked(port, observation)


def _runs(
    seed: int, servers: Sequence[LocalServer], solver: Solver, repetitions: int
) -> list[tuple[float, float]]:
    """Seconds until the plan is there, and from then until it is in force; after a first run."""
    observation = realistic_observation(len(servers), seed).dumps()
    runs = []
    for _ in range(repetitions + 1):
        began = time.perf_counter()
        plan = AdaptationPlan.loads(solver(observation), "placement")
        planned_at = time.perf_counter()
        by_name = dict(zip((one.name for one in plan.servers), servers, strict=True))
        # Who shrinks comes first.
        for one in sorted(
            plan.servers, key=lambda one: one.maxmemory_bytes - one.maxmemory_before_bytes
        ):
            by_name[one.name].client.config_set("maxmemory", one.maxmemory_bytes)
        runs.append((planned_at - began, time.perf_counter() - planned_at))
    for one in plan.servers:
        in_force = by_name[one.name].client.config_get("maxmemory")["maxmemory"]
        if int(in_force or 0) != one.maxmemory_bytes:
            raise RuntimeError(f"{one.name} has {in_force} bytes and not {one.maxmemory_bytes}")
    return runs[1:]


def _planned(observation: bytes) -> bytes:
    """The plan's document for an observation's, as the function makes it."""
    found = Observation.loads(observation, "placement")
    return make_plan(found, now_seconds=found.made_at_seconds + 1).dumps()


def _asked(port: int, observation: bytes) -> bytes:
    """The plan from a service, over a new connection: cycles are minutes apart.

    Raises:
        OSError: no answer.
    """
    connection = http.client.HTTPConnection(HOST, port, timeout=LIMIT_SECONDS)
    try:
        connection.request("POST", "/plan", observation)
        answer = connection.getresponse()
        if answer.status != 200:
            raise OSError(f"the solver's service says {answer.status}")
        return answer.read()
    finally:
        connection.close()

"""Times an observation's way to its plan in force, by the solver's place and number of servers.

A TCP port that is farther away than it is: what is sent through it arrives later.

The deployed stack, on an emulator that is reached through a network with a delay.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

from solver_lambda.documents.observation import Observation
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.planning.planner import make_plan
from workloads.bench.solver.function_verb import realistic_observation
from workloads.demo.loop import NODE, Cloud, controller_text, local_cloud
from workloads.experiment.study import Scope
from workloads.experiment.thesis.timed_cycles import Way, cloud_settings, timed
from workloads.local_node import LocalNode
from workloads.local_server import LocalServer
from workloads.node_programs import HOST, SolverService, running_service
from workloads.processes import running_command
from workloads.quiet_log import quiet_log

CHUNK_BYTES = 1 << 16


@contextmanager
def delayed(port: int, one_way_seconds: float) -> Iterator[int]:
    """Yield a port on which ``port`` is reached with this delay in each direction.

    A connection can be used a round trip later than it was asked for, as over such a network.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="delay proxy", daemon=True)
    thread.start()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # At the end nobody waits for it.
        with suppress(asyncio.CancelledError, OSError):
            await _connect(reader, writer, port, one_way_seconds)

    try:
        starting = asyncio.start_server(accept, HOST, 0)
        server = asyncio.run_coroutine_threadsafe(starting, loop).result()
        yield server.sockets[0].getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(_end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _connect(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, one_way_seconds: float
) -> None:
    ready = asyncio.get_running_loop().time() + 2 * one_way_seconds
    far_reader, far_writer = await asyncio.open_connection(HOST, port)
    try:
        await asyncio.gather(
            _pump(reader, far_writer, one_way_seconds, ready),
            _pump(far_reader, writer, one_way_seconds, ready),
        )
    finally:
        writer.close()
        far_writer.close()


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, one_way_seconds: float, ready: float
) -> None:
    """What is read is written when it has arrived, in its order; the end as well."""
    loop = asyncio.get_running_loop()
    on_the_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def read() -> None:
        data = b"begun"
        while data:
            try:
                data = await reader.read(CHUNK_BYTES)
            except ConnectionError:
                data = b""
            on_the_way.put_nowait((max(loop.time(), ready) + one_way_seconds, data))

    async def write() -> None:
        data = b"begun"
        while data:
            at, data = await on_the_way.get()
            await asyncio.sleep(at - loop.time())
            with suppress(OSError):
                writer.write(data) if data else writer.write_eof()

    await asyncio.gather(read(), write())


async def _end() -> None:
    """End all tasks but this one."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


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
    """Measure seconds by place, number of servers and seed: medians of some runs."""
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
    """Yield a solver in this process, in another one, on a busy processor, or far away."""
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
    """Measure seconds until the plan is there, and then until it is in force; after a first run."""
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


CYCLES = 10
WARM_UP_CYCLES = 2


def measure_cloud(place: str, one_way_seconds: float) -> dict[str, Any]:
    """Cycles of a node with two servers; the delay is between it and all of the cloud.

    Each place has a cloud of its own: a message that a reader was sent who is gone is not seen by
    the next one for half a minute.

    Returns:
        seconds from an observation's PUT until the plan is taken and is in force.

    Raises:
        OSError, RuntimeError: the stack cannot be deployed here, or a cycle did not end.
    """
    with (
        quiet_log(),  # of the queue that is gone before its reader
        tempfile.TemporaryDirectory(prefix="spreds-placement-") as folder,
        local_cloud(Path(folder)) as cloud,
        # The sidecar is in this process, and looks for credentials there.
        patch.dict(os.environ, cloud.environment),
        farther_cloud(cloud, one_way_seconds) as far,
        LocalNode(NODE, controller_text(far)) as node,
    ):
        text = controller_text(far)
        way = Way(text, cloud_settings(text))
        cycles = timed(node, way, 1, CYCLES, WARM_UP_CYCLES)
    if cycles.stand_ins:
        raise RuntimeError(f"the emulator, as far as {place}, did not plan in time")
    return {
        "one_way_seconds": one_way_seconds,
        "taken": cycles.taken_seconds,
        "in_force": cycles.in_force_seconds,
    }


@contextmanager
def farther_cloud(cloud: Cloud, one_way_seconds: float) -> Iterator[Cloud]:
    """Yield the cloud with an endpoint that the node reaches with a delay."""
    endpoint = urlsplit(cloud.environment["AWS_ENDPOINT_URL"])
    assert endpoint.port is not None
    with delayed(endpoint.port, one_way_seconds) as port:
        url = f"{endpoint.scheme}://{endpoint.hostname}:{port}"
        yield replace(cloud, environment={**cloud.environment, "AWS_ENDPOINT_URL": url})


def one_ways_of_a_cycle(found: Mapping[str, Any]) -> float:
    """Return how often a cycle goes over the network in one direction: what the farthest place
    takes longer than the nearest, over its delay."""
    near, far = (
        pick(found.values(), key=lambda one: one["one_way_seconds"]) for pick in (min, max)
    )
    longer = statistics.median(far["taken"]) - statistics.median(near["taken"])
    return float(longer / (far["one_way_seconds"] - near["one_way_seconds"]))

"""Time of the function at sizes of its memory, cold and warm."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from solver_lambda.documents.keys import observation_key
from workloads.bench.solver.function_verb import realistic_observation
from workloads.experiment.loopback_server import LoopbackServer, Question, Reply
from workloads.experiment.study import Scope, StudyError
from workloads.processes import finished

CONTROL_GROUPS = Path("/sys/fs/cgroup")
# Short, so that a run of some milliseconds gets its share and not all or nothing.
PERIOD_MICROSECONDS = 20_000
# AWS gives a whole processor with so much and less in proportion
# (https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html).
WHOLE_PROCESSOR_MB = 1769
SIZES_MB = (128, 256, 512, 1024, WHOLE_PROCESSOR_MB, 3008)
SERVERS = (3, 20)
ROUNDS = 2
WARM_RUNS = 5
# Assumed, as in the cost model: how long each of S3's two answers takes.
S3_ANSWER_SECONDS = 0.03
OBSERVATIONS, PLANS = "observations-here", "plans-here"
WORKER = "workloads.experiment.papers.memory_worker"
MOST_SECONDS = 120.0


@contextmanager
def object_store(objects: dict[str, bytes], wait_seconds: float) -> Iterator[Mapping[str, str]]:
    """Serve ``objects``, by their paths, which gets what is put; each answer takes so long.

    As much of S3 as the function uses. Gives the environment that lets it find that.
    """

    def answer(question: Question) -> Reply:
        time.sleep(wait_seconds)
        if question.method == "GET":
            content = objects.get(question.path)
            return Reply(404) if content is None else Reply(200, content)
        if question.path in objects:
            return Reply(412)
        objects[question.path] = question.body
        return Reply(200)

    with LoopbackServer(answer) as store:
        yield {
            "AWS_ENDPOINT_URL_S3": store.url,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
        }


def _own_group(controller: str) -> str:
    """Return this process' control group: of version 1 by its controller, else of version 2."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path
    return "/"


def _parent() -> tuple[Path, bool]:
    """Return where a group can be made, and whether that is version 2."""
    if (CONTROL_GROUPS / "cgroup.controllers").exists():
        return CONTROL_GROUPS / _own_group("").lstrip("/"), True
    return CONTROL_GROUPS / "cpu" / _own_group("cpu").lstrip("/"), False


@contextmanager
def processor_share(share: float) -> Iterator[Path | None]:
    """A file: a process that writes its number into it has ``share`` of a processor from then on.

    ``None`` where no group can be made: without the right to, or in a container without them.
    """
    folder: Path | None = None
    try:
        parent, is_second = _parent()
        folder = parent / f"spreds-share-{os.getpid()}"
        folder.mkdir()
        quota = max(1000, round(share * PERIOD_MICROSECONDS))
        if is_second:
            (folder / "cpu.max").write_text(f"{quota} {PERIOD_MICROSECONDS}")
        else:
            (folder / "cpu.cfs_period_us").write_text(str(PERIOD_MICROSECONDS))
            (folder / "cpu.cfs_quota_us").write_text(str(quota))
        door: Path | None = folder / "cgroup.procs"
    except OSError:
        door = None
    try:
        yield door
    finally:
        if folder is not None and folder.exists():
            folder.rmdir()


def has_control_groups() -> bool:
    """Whether a share can be given here."""
    with processor_share(0.5) as door:
        return door is not None


class Run(NamedTuple):
    """Seconds of one process: its cold start up to the first plan, and the median of its warm
    runs; bytes at its peak."""

    cold_seconds: float
    warm_seconds: float
    peak_memory_bytes: int


def measured_runs(scope: Scope) -> dict[str, Any]:
    """Measure runs by number of servers and size, in another order in each round.

    Raises:
        StudyError: the function failed.
    """
    is_grouped = has_control_groups()
    rounds = 1 if scope.is_quick else ROUNDS
    servers = SERVERS[:1] if scope.is_quick else SERVERS
    found: dict[str, dict[str, list[Run]]] = {
        str(count): {str(size): [] for size in SIZES_MB} for count in servers
    }
    order = [(count, size) for count in servers for size in SIZES_MB] * rounds
    done = 0
    for seed in scope.seeds:
        random.Random(seed).shuffle(order)
        for count, size in order:
            scope.progress(f"{size:,} MB", done / (len(order) * len(scope.seeds)))
            found[str(count)][str(size)].append(one_process(count, size, seed, is_grouped))
            done += 1
    return {
        "is_grouped": is_grouped,
        "s3_answer_seconds": S3_ANSWER_SECONDS,
        "warm_runs": WARM_RUNS,
        "runs": {
            count: {
                size: {
                    "cold_seconds": [run.cold_seconds for run in runs],
                    "warm_seconds": [run.warm_seconds for run in runs],
                    "peak_memory_bytes": max(run.peak_memory_bytes for run in runs),
                }
                for size, runs in sizes.items()
            }
            for count, sizes in found.items()
        },
    }


def one_process(servers: int, size_mb: int, seed: int, is_grouped: bool) -> Run:
    """A fresh process of the function with the share of a processor that AWS gives with a size.

    Without control groups it runs with a whole one, and what it needed of that is stretched.

    Raises:
        StudyError: it failed.
    """
    share = size_mb / WHOLE_PROCESSOR_MB
    objects, keys = _observations(servers, seed)
    with (
        object_store(objects, S3_ANSWER_SECONDS) as environment,
        processor_share(share if is_grouped else 1.0) as door,
    ):
        command = [sys.executable, "-m", WORKER, OBSERVATIONS, *keys]
        if is_grouped:
            if door is None:
                raise StudyError("a control group could be made at first, and then no more")
            # In its group before it becomes Python.
            command = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(door), *command]
        started = time.monotonic()
        done = finished(
            command,
            env={
                "PATH": os.environ["PATH"],
                **environment,
                "SPREDS_OBSERVATIONS_BUCKET": OBSERVATIONS,
                "SPREDS_PLANS_BUCKET": PLANS,
            },
            timeout=MOST_SECONDS,
        )
    if done.returncode:
        words = done.stderr.strip().splitlines()[-1:] or ["it ended without a word"]
        raise StudyError(f"the function at {size_mb} MB: {words[0]}")
    told = json.loads(done.stdout)
    stretch = 1.0 if is_grouped else max(1.0, 1 / share)
    cold = told["first_at_seconds"] - started
    warm = zip(told["warm_seconds"], told["warm_cpu_seconds"], strict=True)
    return Run(
        stretched(cold, told["first_cpu_seconds"], stretch),
        statistics.median(stretched(seconds, cpu, stretch) for seconds, cpu in warm),
        told["peak_memory_bytes"],
    )


def stretched(seconds: float, processor_seconds: float, stretch: float) -> float:
    """What waits goes on as before, what computes takes ``stretch`` times as long."""
    return seconds + processor_seconds * (stretch - 1)


def _observations(servers: int, seed: int) -> tuple[dict[str, bytes], list[str]]:
    """Make observations for the store, and their keys; the function would refuse old ones."""
    observation = realistic_observation(servers, seed)
    objects, keys = {}, []
    for cycle in range(1 + WARM_RUNS):
        asked = dataclasses.replace(observation, cycle=cycle, made_at_seconds=time.time())
        keys.append(observation_key(asked.node, cycle))
        objects[f"/{OBSERVATIONS}/{keys[-1]}"] = asked.dumps()
    return objects, keys

"""The container's command answers an observation as the function does: switching is safe."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from solver_lambda.documents.curve import MissRatioCurve
from solver_lambda.documents.keys import observation_key, plan_key
from solver_lambda.documents.observation import Observation, ServerObservation
from solver_lambda.documents.plan import AdaptationPlan
from workloads.local_node import wait_until

MB = 1 << 20
OWN_BUCKETS = {"observations": "task-observations", "plans": "task-plans"}


@pytest.fixture
def s3(deployed: Any) -> Any:
    client = deployed.emulator.client("s3")
    for bucket in OWN_BUCKETS.values():
        client.create_bucket(Bucket=bucket)
    return client


def observation(node: str) -> Observation:
    sizes = np.array([2.0 * MB, 8.0 * MB, 14.0 * MB])
    servers = tuple(
        ServerObservation(
            name=name,
            maxmemory_bytes=8 * MB,
            minimum_bytes=2 * MB,
            weight=1.0,
            request_rate_per_second=1000.0,
            cache_latency_seconds=0.0002,
            backend_latency_seconds=0.05,
            curve=MissRatioCurve(sizes, np.array(ratios)),
            mean_object_bytes=1000.0,
        )
        for name, ratios in (("steep", [0.9, 0.5, 0.05]), ("flat", [0.3, 0.29, 0.28]))
    )
    now = time.time()
    return Observation(node, int(now), now, 60.0, 16 * MB, servers)


def test_the_task_plans_as_the_function_does(deployed: Any, s3: Any) -> None:
    asked = observation("beta")
    key, answer = observation_key("beta", asked.cycle), plan_key("beta", asked.cycle)
    s3.put_object(Bucket=deployed.outputs["ObservationsBucket"], Key=key, Body=asked.dumps())
    s3.put_object(Bucket=OWN_BUCKETS["observations"], Key=key, Body=asked.dumps())
    environment = {
        **os.environ,
        **deployed.emulator.environment,
        "SPREDS_OBSERVATIONS_BUCKET": OWN_BUCKETS["observations"],
        "SPREDS_PLANS_BUCKET": OWN_BUCKETS["plans"],
    }
    command = [sys.executable, "-m", "solver_lambda", OWN_BUCKETS["observations"], key]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)

    def read(bucket: str) -> AdaptationPlan | None:
        if "Contents" not in s3.list_objects_v2(Bucket=bucket, Prefix=answer):
            return None
        body = s3.get_object(Bucket=bucket, Key=answer)["Body"].read()
        own = {"made_at_seconds": 0.0, "run_seconds": 0.0, "run_memory_bytes": 0}
        return replace(AdaptationPlan.loads(body, answer), **own)

    by_task = read(OWN_BUCKETS["plans"])
    assert by_task is not None
    wait_until(lambda: read(deployed.outputs["PlansBucket"]), lambda: "no plan by the function")
    assert read(deployed.outputs["PlansBucket"]) == by_task
    assert by_task.decision == "apply"


def test_the_task_says_why_it_refuses_and_fails(deployed: Any, s3: Any) -> None:
    key = observation_key("beta", 2)
    s3.put_object(Bucket=OWN_BUCKETS["observations"], Key=key, Body=b"[]")
    environment = {
        **os.environ,
        **deployed.emulator.environment,
        "SPREDS_OBSERVATIONS_BUCKET": OWN_BUCKETS["observations"],
        "SPREDS_PLANS_BUCKET": OWN_BUCKETS["plans"],
    }
    command = [sys.executable, "-m", "solver_lambda", OWN_BUCKETS["observations"], key]
    refused = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert refused.returncode == 1
    assert key in refused.stderr
    assert "Contents" not in s3.list_objects_v2(
        Bucket=OWN_BUCKETS["plans"], Prefix=plan_key("beta", 2)
    )

"""Shared by the tests of the planner: random observations, and S3 over real HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import boto3
import numpy as np
import pytest
from moto.server import ThreadedMotoServer

from solver_lambda.documents.curve import MissRatioCurve
from solver_lambda.documents.observation import Observation, ServerObservation
from solver_lambda.documents.planning_settings import PlanningSettings

KIB = 1024
MakeObservation = Callable[..., Observation]


def cliff_curve(generator: np.random.Generator, size_bytes: int) -> MissRatioCurve:
    """A random curve over up to ``size_bytes``: steps of all heights, some as steep as a cliff."""
    points = int(generator.integers(2, 30))
    sizes = np.sort(generator.choice(size_bytes // KIB, points, replace=False)) * float(KIB)
    ratios = np.sort(generator.random(points))[::-1]
    cliffs = generator.random(points) < 0.3
    kept = ~np.roll(cliffs, -1) | ~cliffs
    kept[0] = True
    return MissRatioCurve(sizes[kept], ratios[kept])


@pytest.fixture
def make_observation() -> MakeObservation:
    """Makes a random observation of ``servers`` servers on a grid of ``units`` units."""

    def make(
        servers: int = 3,
        units: int = 256,
        seed: int = 0,
        unit_bytes: int = 64 * KIB,
        made_at_seconds: float = 1_000_000.0,
        **planning: object,
    ) -> Observation:
        generator = np.random.default_rng(seed)
        budget = units * unit_bytes + servers * unit_bytes
        return Observation(
            node="node-1",
            cycle=7,
            made_at_seconds=made_at_seconds,
            window_seconds=60.0,
            budget_bytes=budget,
            unit_bytes=unit_bytes,
            servers=tuple(
                ServerObservation(
                    name=f"server-{number}",
                    maxmemory_bytes=budget // servers,
                    minimum_bytes=unit_bytes,
                    weight=float(generator.uniform(0.1, 5)),
                    request_rate_per_second=float(generator.uniform(1, 1000)),
                    cache_latency_seconds=0.0002,
                    backend_latency_seconds=float(generator.uniform(0.001, 0.5)),
                    curve=cliff_curve(generator, units * unit_bytes),
                )
                for number in range(servers)
            ),
            planning=PlanningSettings(**planning),  # type: ignore[arg-type]
        )

    return make


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """The URL of an S3 on this machine."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3_environment(s3_endpoint: str) -> Iterator[dict[str, str]]:
    """Environment variables of a function that talks to an S3 with two empty buckets."""
    environment = {
        "AWS_ENDPOINT_URL": s3_endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "SPREDS_OBSERVATIONS_BUCKET": "observations",
        "SPREDS_PLANS_BUCKET": "plans",
    }
    client = s3_client(environment)
    for bucket in ("observations", "plans"):
        client.create_bucket(Bucket=bucket)
    yield environment
    for bucket in ("observations", "plans"):
        for item in client.list_objects_v2(Bucket=bucket).get("Contents", []):
            client.delete_object(Bucket=bucket, Key=item["Key"])
        client.delete_bucket(Bucket=bucket)


def s3_client(environment: dict[str, str]):
    """boto3's client for the same S3: the tests' own hand."""
    return boto3.client(
        "s3",
        endpoint_url=environment["AWS_ENDPOINT_URL"],
        region_name=environment["AWS_REGION"],
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
    )


@pytest.fixture
def s3(s3_environment: dict[str, str]):
    """boto3's client for the S3 of ``s3_environment``."""
    return s3_client(s3_environment)

"""The deployed stack, on an emulator that is reached through a network with a delay."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from workloads.demo.loop import NODE, Cloud, controller_text, local_cloud
from workloads.experiment.papers.placement.delay_proxy import delayed
from workloads.experiment.thesis.timed_cycles import Way, cloud_settings, timed
from workloads.local_node import LocalNode
from workloads.process_environment import process_environment
from workloads.quiet_log import quiet_log

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
        process_environment(cloud.environment),
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
    """The same cloud, whose endpoint the node reaches with a delay."""
    endpoint = urlsplit(cloud.environment["AWS_ENDPOINT_URL"])
    assert endpoint.port is not None
    with delayed(endpoint.port, one_way_seconds) as port:
        url = f"{endpoint.scheme}://{endpoint.hostname}:{port}"
        yield replace(cloud, environment={**cloud.environment, "AWS_ENDPOINT_URL": url})


def one_ways_of_a_cycle(found: Mapping[str, Any]) -> float:
    """How often a cycle goes over the network in one direction: what the farthest place takes
    longer than the nearest, over its delay."""
    near, far = (
        pick(found.values(), key=lambda one: one["one_way_seconds"]) for pick in (min, max)
    )
    longer = statistics.median(far["taken"]) - statistics.median(near["taken"])
    return float(longer / (far["one_way_seconds"] - near["one_way_seconds"]))

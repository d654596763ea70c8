"""A mix's servers as a node: its times are compressed as the mix's cycles are."""

from __future__ import annotations

from workloads.embedded_sidecar import NodeServer, NodeSettings
from workloads.experiment.gain.mix import CACHE_LATENCY_SECONDS, Mix

# The default, which is for cycles of an hour.
RSS_WAIT_SECONDS = 60.0


def node_settings(mix: Mix, cycle_seconds: float) -> NodeSettings:
    """For cycles of ``cycle_seconds``."""
    return NodeSettings(
        servers=[
            NodeServer(server.name, server.weight, server.backend_latency_seconds)
            for server in mix.servers
        ],
        budget_bytes=mix.budget_bytes,
        cycle_seconds=cycle_seconds,
        rss_wait_seconds=RSS_WAIT_SECONDS * cycle_seconds / mix.cycle_seconds,
        cache_latency_seconds=CACHE_LATENCY_SECONDS,
    )

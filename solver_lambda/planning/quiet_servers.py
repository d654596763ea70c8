"""Says how much the reads of one window tell about a server."""

from __future__ import annotations

from solver_lambda.documents.observation import Observation, ServerObservation

# With fewer reads in its window a server is quiet: its rate is known to a third at best, and may
# be anything in the next window.
QUIET_READS = 10.0
# With fewer reads, a server that takes memory for its latency bound gains slowly: around the quiet
# threshold it is not given at once what it lost slowly.
FEW_READS = 100.0


def is_quiet(server: ServerObservation, observation: Observation) -> bool:
    """Whether the window had too few reads to plan by."""
    return _reads(server, observation) < QUIET_READS


def has_few_reads(server: ServerObservation, observation: Observation) -> bool:
    """Whether the window had too few reads to act at once for a latency bound."""
    return _reads(server, observation) < FEW_READS


def _reads(server: ServerObservation, observation: Observation) -> float:
    return server.request_rate_per_second * observation.window_seconds

"""How often a cycle calls each service: what a count over the emulator has to agree with."""

from __future__ import annotations

import dataclasses
import math

from infra.costs.workload import DAY_SECONDS, LONG_POLL_SECONDS, Workload


@dataclasses.dataclass(frozen=True)
class CycleCalls:
    """Calls of one cycle of one node, on average; what a change of settings takes is not in it,
    because teams change them seldom.

    Attributes:
        s3_put: the observation and the plan.
        s3_get: the solver gets the observation; the node gets the plan, and asks whether its
            settings have changed.
        sns_publish: S3 tells of the plan, and with two topics of the observation.
        sns_delivery: to the node whose plan it is, the only one whose filter lets it pass.
        sqs_send: what SNS sends to the node's queue; whether AWS bills it is not certain.
        sqs_receive, sqs_delete: by the node.
    """

    s3_put: float
    s3_get: float
    sns_publish: float
    sns_delivery: float
    sqs_send: float
    sqs_receive: float
    sqs_delete: float

    @property
    def sqs_requests(self) -> float:
        """Count the requests to SQS, which are all billed at one price."""
        return self.sqs_send + self.sqs_receive + self.sqs_delete


def cycle_calls(workload: Workload, latency_seconds: float) -> CycleCalls:
    """Count the calls of one cycle. ``latency_seconds``: from the observation to its plan; the node
    asks its queue meanwhile."""
    queues = 1.0 if workload.delivery == "sqs" else 0.0
    return CycleCalls(
        s3_put=2.0,
        s3_get=3.0,
        sns_publish=2.0 if workload.topics == "two" else 1.0,
        sns_delivery=1.0,
        sqs_send=queues,
        sqs_receive=queues * _receives(workload, latency_seconds),
        sqs_delete=queues,
    )


def _receives(workload: Workload, latency_seconds: float) -> float:
    """Long polls, of which the last brings the plan and ends at once."""
    polls_all_the_time = DAY_SECONDS / LONG_POLL_SECONDS / workload.cycles_per_day + 1
    if workload.polling == "always":
        return polls_all_the_time
    polls = max(1, math.ceil(min(latency_seconds, DAY_SECONDS) / LONG_POLL_SECONDS))
    return min(polls, polls_all_the_time)

"""A planner in the cloud, played by the test: it answers when the test tells it to."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from solver_lambda.documents.keys import parse_observation_key, plan_key
from solver_lambda.documents.observation import Observation
from solver_lambda.planning.planner import make_plan


def plan_as_ours(document: bytes) -> bytes:
    """The function's answer to an observation."""
    return make_plan(Observation.loads(document, "o.json"), now_seconds=time.time()).dumps()


class Function:
    """Answers observations with plans, and puts SNS' message into the queue.

    Attributes:
        plan: from an observation's document to its plan's.
        answered: keys of observations.
    """

    def __init__(self, cloud: Any, plan: Callable[[bytes], bytes] = plan_as_ours) -> None:
        self.plan = plan
        self._cloud = cloud
        # What an earlier test's sidecar put there as it ended is not ours.
        self.answered = set(self._observed())

    def answer(self) -> None:
        """Answer what is new."""
        for key in self._observed():
            if key not in self.answered:
                self.answered.add(key)
                self._answer(key)

    def _observed(self) -> list[str]:
        listed = self._cloud.s3.list_objects_v2(Bucket="observations", Prefix="observations/")
        return [item["Key"] for item in listed.get("Contents", [])]

    def _answer(self, key: str) -> None:
        document = self._cloud.s3.get_object(Bucket="observations", Key=key)["Body"].read()
        answer = plan_key(*parse_observation_key(key))
        self._cloud.s3.put_object(Bucket="plans", Key=answer, Body=self.plan(document))
        self.notify(answer)

    def notify(self, key: str) -> None:
        message = self._cloud.sign(self._cloud.message(self._cloud.event(key)))
        self._cloud.sqs.send_message(
            QueueUrl=self._cloud.queue_url, MessageBody=json.dumps(message)
        )


def by_queue(cloud: Any, kind: str = "lambda", more: str = "") -> str:
    """``[controller]`` of a node that such a function plans for."""
    delivery = f'delivery = "sqs"\nqueue_url = "{cloud.queue_url}"'
    return str(cloud.controller(delivery, kind, more))

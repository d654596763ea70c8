"""Two cells deployed side by side: each node's plan reaches that node alone."""

from __future__ import annotations

import json
from typing import Any

from solver_lambda.documents.keys import observation_key, plan_key
from tests.end_to_end.test_solver_as_a_task import observation
from workloads.local_node import wait_until

NODES = ("alpha", "beta", "far-1", "far-2")


def test_each_cell_has_buckets_topic_and_function_of_its_own(deployed: Any) -> None:
    main, other = deployed.of_node("alpha"), deployed.of_node("far-1")
    assert set(deployed.stacks) == {"spreds", "spreds-main", "spreds-other-0"}
    assert deployed.of_node("far-2") is other
    for name in ("ObservationsBucket", "PlansBucket", "PlansTopicArn"):
        assert main[name] != other[name]


def test_a_nodes_plan_reaches_that_node_alone(deployed: Any) -> None:
    s3, sqs = deployed.emulator.client("s3"), deployed.emulator.client("sqs")
    cycles = {}
    for number, node in enumerate(NODES):
        asked = observation(node)
        cycles[node] = asked.cycle + number  # so that each plan has a name that no other has
        key = observation_key(node, cycles[node])
        body = json.loads(asked.dumps()) | {"cycle": cycles[node]}
        s3.put_object(
            Bucket=deployed.of_node(node)["ObservationsBucket"], Key=key, Body=json.dumps(body)
        )
    for node in NODES:
        told = []

        def take(told: list[str] = told, queue: str = deployed.queue_url(node)) -> bool:
            answer = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=1)
            for message in answer.get("Messages", []):
                event = json.loads(json.loads(message["Body"])["Message"])
                told.extend(
                    (record["s3"]["bucket"]["name"], record["s3"]["object"]["key"])
                    for record in event["Records"]
                )
                sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
            return bool(told)

        wait_until(take, lambda node=node: f"{node} was not told")
        own = (deployed.of_node(node)["PlansBucket"], plan_key(node, cycles[node]))
        assert told == [own]
    # By now all plans are made and all messages sent.
    for node in NODES:
        assert deployed.waiting(deployed.queue_url(node)) == 0

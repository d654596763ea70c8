"""The whole loop over the deployed stack, with real servers and a real sidecar."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from infra.stacks.plan_delivery import RECEIVES_BEFORE_DEAD_LETTER
from solver_lambda.documents.keys import observation_key, plan_key
from solver_lambda.documents.plan import AdaptationPlan
from workloads.local_node import BUDGET_BYTES, FIRST_BYTES, LocalNode, wait_until

StartNode = Callable[[str], LocalNode]


def stored_plan(deployed: Any, node: str, cycle: int) -> AdaptationPlan:
    key = plan_key(node, cycle)
    s3 = deployed.emulator.client("s3")
    body = s3.get_object(Bucket=deployed.outputs["PlansBucket"], Key=key)["Body"].read()
    return AdaptationPlan.loads(body, key)


def is_stored(deployed: Any, key: str) -> bool:
    s3 = deployed.emulator.client("s3")
    found = s3.list_objects_v2(Bucket=deployed.outputs["ObservationsBucket"], Prefix=key)
    return bool(found["KeyCount"])


def test_plans_come_by_the_queue_and_are_in_force(deployed: Any, start_node: StartNode) -> None:
    node = start_node("alpha")

    def in_force() -> bool:
        sizes = node.sizes_bytes()
        return sidecar.cycles >= 3 and sizes["hungry"] > FIRST_BYTES > sizes["modest"]

    with node.load(), node.sidecar() as sidecar:
        wait_until(in_force, sidecar.metrics.snapshot)
    counters = sidecar.metrics.snapshot()
    assert sidecar.last_plan is not None
    stored = stored_plan(deployed, "alpha", sidecar.last_plan.cycle)
    # Its figures are the sidecar's own.
    assert (stored.reason, stored.what_if) == (sidecar.last_plan.reason, sidecar.last_plan.what_if)
    assert [(one.maxmemory_bytes, one.reason) for one in stored.servers] == [
        (one.maxmemory_bytes, one.reason) for one in sidecar.last_plan.servers
    ]
    assert counters["notifications_taken"] >= 3
    assert not [name for name in counters if "refused" in name], counters
    assert sum(node.sizes_bytes().values()) <= BUDGET_BYTES


def test_plans_come_by_http_after_the_subscription_is_confirmed(
    deployed: Any, start_node: StartNode
) -> None:
    node = start_node("gamma")
    sns, topic = deployed.emulator.client("sns"), deployed.outputs["PlansTopicArn"]
    url = f"http://{deployed.listen}/plans"

    listed = sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    (arn,) = [s["SubscriptionArn"] for s in listed if s["Endpoint"] == url]

    def pending() -> bool:
        attributes = sns.get_subscription_attributes(SubscriptionArn=arn)["Attributes"]
        return bool(attributes["PendingConfirmation"] == "true")

    assert pending()
    with node.load(), node.sidecar() as sidecar:
        # As an operator would whose node came up long after the stack: SNS asks once more.
        sns.subscribe(TopicArn=topic, Protocol="http", Endpoint=url)
        wait_until(lambda: not pending(), sidecar.metrics.snapshot)
        wait_until(lambda: node.sizes_bytes()["hungry"] > FIRST_BYTES, sidecar.metrics.snapshot)


def test_a_plan_made_while_the_node_was_down_is_delivered_when_it_is_back(
    deployed: Any, start_node: StartNode
) -> None:
    node = start_node("beta")
    queue = deployed.queue_url("beta")
    # A sidecar that asks, but goes down before it hears: it listens to a queue of nobody.
    deaf = deployed.emulator.client("sqs").create_queue(QueueName="deaf")["QueueUrl"]
    with node.load(), node.sidecar(deployed.controller("beta", queue_url=deaf)) as before:
        # The first observation only opens the window that the second one tells about.
        wait_until(lambda: before.last_observation, before.metrics.snapshot)
        assert before.last_observation is not None
        cycle = before.last_observation.cycle
        # One that was not yet begun to be sent when the sidecar stops is never sent.
        wait_until(lambda: is_stored(deployed, observation_key("beta", cycle)), lambda: cycle)
    wait_until(lambda: deployed.waiting(queue) == 1, lambda: deployed.waiting(queue))
    assert before.cycles == 0

    with node.sidecar() as after:  # without load: it has nothing to observe itself
        wait_until(lambda: after.cycles == 1, after.metrics.snapshot)
    assert after.last_plan == stored_plan(deployed, "beta", cycle)
    wait_until(lambda: deployed.waiting(queue) == 0, lambda: deployed.waiting(queue))


def test_a_poisoned_observation_ends_in_the_dead_letter_queue_with_its_reason(
    deployed: Any,
) -> None:
    key = observation_key("alpha", 1)
    deployed.emulator.client("s3").put_object(
        Bucket=deployed.outputs["ObservationsBucket"], Key=key, Body=b'{"kind": "spreds.obs'
    )
    (letter,) = deployed.emulator.client("sqs").receive_message(
        QueueUrl=deployed.queue_url("refused-observations"), WaitTimeSeconds=20
    )["Messages"]
    body = json.loads(letter["Body"])
    assert body["requestPayload"]["Records"][0]["s3"]["object"]["key"] == key
    assert key in body["responsePayload"]["errorMessage"]


def test_a_notification_that_a_node_refuses_to_take_ends_in_the_dead_letter_queue(
    deployed: Any,
) -> None:
    sqs = deployed.emulator.client("sqs")
    queue = deployed.queue_url("beta")
    text = "nobody deletes this"
    sqs.send_message(QueueUrl=queue, MessageBody=text)
    undelivered = deployed.queue_url("undelivered-plans")
    received, letters = 0, []
    while not letters:
        received += len(receive(sqs, queue, lambda body: body == text))
        letters = sqs.receive_message(QueueUrl=undelivered, WaitTimeSeconds=0).get("Messages", [])
    # Fewer, if the poll of a sidecar that has just stopped took it once.
    assert 0 < received <= RECEIVES_BEFORE_DEAD_LETTER
    (letter,) = letters
    assert letter["Body"] == text


def receive(sqs: Any, queue: str, keep: Callable[[str], bool]) -> list[str]:
    """Bodies of messages that are ready and stay so if ``keep``; others (late plans) go."""
    answer = sqs.receive_message(
        QueueUrl=queue, VisibilityTimeout=0, WaitTimeSeconds=0, MaxNumberOfMessages=10
    )
    kept = []
    for message in answer.get("Messages", []):
        if keep(message["Body"]):
            kept.append(message["Body"])
        else:
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    return kept


def test_nodes_never_see_each_others_plans(deployed: Any) -> None:
    sqs, s3 = deployed.emulator.client("sqs"), deployed.emulator.client("s3")
    for cycle in range(1, 6):
        for node in ("alpha", "beta", "alphabet"):
            s3.put_object(
                Bucket=deployed.outputs["PlansBucket"], Key=plan_key(node, cycle), Body=b"{}"
            )
    for node in ("alpha", "beta"):
        queue = deployed.queue_url(node)
        expected = {plan_key(node, cycle) for cycle in range(1, 6)}
        seen: set[str] = set()
        while not expected <= seen:
            for message in sqs.receive_message(
                QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=20
            )["Messages"]:
                event = json.loads(json.loads(message["Body"])["Message"])
                seen |= {record["s3"]["object"]["key"] for record in event["Records"]}
                sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        assert deployed.waiting(queue) == 0
        assert all(key.startswith(f"plans/{node}/") for key in seen)

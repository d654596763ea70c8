"""The cost model's calls of a cycle are those that a run over the emulated cloud really makes."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.session import Session

from infra.costs.cycle_calls import CycleCalls, cycle_calls
from infra.costs.workload import LISTS_PER_DAY, Workload
from solver_lambda.documents.keys import settings_marker_key
from tests.end_to_end.conftest import QUEUED_NODES
from workloads.local_node import DEMANDS, LocalNode, wait_until

NODE = QUEUED_NODES[0]
CYCLES = 30
TOLERANCE = 0.02


class SidecarsRequests:
    """Requests of the clients that are made while it is installed, each as it leaves.

    Attributes:
        sent: operations and where to, in their order. A receive that brings two messages counts as
            two: which come together is chance.
        messages: what came by the queue, by its identity.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[tuple[str, str]] = []
        self.messages: dict[str, str] = {}
        make = Session.create_client

        def client(session: Session, *names: Any, **options: Any) -> Any:
            made = make(session, *names, **options)
            made.meta.events.register("before-send", self._note)
            made.meta.events.register("after-call.sqs.ReceiveMessage", self._note_messages)
            return made

        monkeypatch.setattr(Session, "create_client", client)

    def _note(self, event_name: str, request: Any, **_: Any) -> None:
        self.sent.append((event_name.rpartition(".")[2], urlsplit(request.url).path))

    def _note_messages(self, parsed: dict[str, Any], **_: Any) -> None:
        came = parsed.get("Messages", [])
        self.messages |= {message["MessageId"]: message["Body"] for message in came}
        self.sent += [("ReceiveMessage", "")] * (len(came) - 1)

    def cycles(self, start: int = 0, end: int | None = None) -> list[str]:
        """The observations that were put between two places of ``sent``, by their names."""
        puts = (path for name, path in self.sent[start:end] if name == "PutObject")
        return [path.partition("/observations/")[2] for path in puts]

    def between_cycles(self) -> int | None:
        """The place in ``sent`` that it has come to, if no cycle is on its way there."""
        place = len(self.sent)
        marker = settings_marker_key(NODE)
        begun = sum(path.endswith(marker) for _, path in self.sent[:place])
        ended = sum(name == "DeleteMessage" for name, _ in self.sent[:place])
        return place if ended >= begun == len(self.cycles(0, place)) else None


@pytest.fixture
def all_plans(deployed: Any) -> Iterator[Callable[[], int]]:
    """Yield a count of the plans that the topic is told of from now on, for whomever."""
    sqs, sns = deployed.emulator.client("sqs"), deployed.emulator.client("sns")
    url = sqs.create_queue(QueueName="all-plans")["QueueUrl"]
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    arn = sns.subscribe(
        TopicArn=deployed.outputs["PlansTopicArn"],
        Protocol="sqs",
        Endpoint=attributes["Attributes"]["QueueArn"],
        ReturnSubscriptionArn=True,
    )["SubscriptionArn"]
    yield lambda: deployed.waiting(url)
    sns.unsubscribe(SubscriptionArn=arn)
    sqs.delete_queue(QueueUrl=url)


def solvers_requests(log: Path, cycles: set[str]) -> Counter[str]:
    """Return what the function asked of these cycles' documents: methods. Alone of all clients it
    does not say who it is."""
    found = re.findall(r'request (\w+) /[^/]+/[a-z]+/(\S+) "[^"]*" \d+ "-" "-"', log.read_text())
    return Counter(method for method, cycle in found if cycle in cycles)


def test_a_cycles_calls_are_those_of_the_model(
    deployed: Any,
    all_plans: Callable[[], int],
    start_node: Callable[[str], LocalNode],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deployed.emulator.client("sqs").purge_queue(QueueUrl=deployed.queue_url(NODE))
    other_queue = deployed.queue_url(QUEUED_NODES[1])
    others = deployed.waiting(other_queue)
    node = start_node(NODE)
    requests = SidecarsRequests(monkeypatch)
    places: list[int] = []

    def is_between_cycles() -> bool:
        place = requests.between_cycles()
        if place is None or all_plans() < len(requests.cycles(0, place)):
            return False
        places.append(place)
        return True

    with node.sidecar() as sidecar:
        # Not the first, which comes with what is done at a start.
        for some in (1, *range(11, CYCLES + 2, 10)):
            with node.load(seed=some):
                wait_until(
                    lambda some=some: len(requests.cycles()) >= some, sidecar.metrics.snapshot
                )
            # Whole cycles are counted: a busy machine may delete a message in the next one.
            wait_until(is_between_cycles, lambda: (requests.sent[-20:], all_plans()))
    asked = requests.sent[places[0] : places[-1]]
    times = Counter(name for name, _ in asked)
    cycles = requests.cycles(places[0], places[-1])
    solver = solvers_requests(deployed.emulator.log, set(cycles))
    messages = sum(any(cycle in body for cycle in cycles) for body in requests.messages.values())
    whole = requests.cycles()
    wait_until(lambda: all_plans() >= len(whole), all_plans)
    counted = CycleCalls(
        s3_put=(times["PutObject"] + solver["PUT"]) / len(cycles),
        s3_get=(times["GetObject"] + solver["GET"]) / len(cycles),
        sns_publish=all_plans() / len(whole),
        sns_delivery=messages / len(cycles),
        sqs_send=messages / len(cycles),
        sqs_receive=times["ReceiveMessage"] / len(cycles),
        sqs_delete=times["DeleteMessage"] / len(cycles),
    )
    expected = cycle_calls(Workload(servers=len(DEMANDS)), latency_seconds=1.0)
    assert dataclasses.asdict(counted) == pytest.approx(dataclasses.asdict(expected), rel=TOLERANCE)
    assert sum(name == "ListObjectsV2" for name, _ in requests.sent) == LISTS_PER_DAY
    # Each notice is looked at for every node, and delivered to one.
    subscriptions = deployed.emulator.client("sns").list_subscriptions_by_topic(
        TopicArn=deployed.outputs["PlansTopicArn"]
    )["Subscriptions"]
    assert len(subscriptions) == len(QUEUED_NODES) + 1 + 1  # the one by HTTP, and our own
    assert deployed.waiting(other_queue) == others

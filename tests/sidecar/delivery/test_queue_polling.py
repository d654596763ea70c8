"""When the queue is asked, and that the thread that asks it ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sidecar.base.metrics import Metrics
from sidecar.delivery import sqs_delivery
from sidecar.delivery.message_signature import SignatureCheck
from sidecar.delivery.sqs_delivery import SqsDelivery
from sidecar.storage.aws import aws_errors, client
from solver_lambda.documents.keys import plan_key
from tests.sidecar.answering import answering
from tests.sidecar.plan_messages import NEW, NODE, OLD, Receiving, six_messages
from tests.sidecar.signed_cloud import SignedCloud
from workloads.local_node import wait_until


class EmptyQueue:
    """Answers at once; ``meanwhile`` is called in the first answer."""

    def __init__(self) -> None:
        self.polls = 0
        self.meanwhile: Callable[[], None] = lambda: None

    def receive_message(self, **_: object) -> dict[str, Any]:
        self.polls += 1
        if self.polls == 1:
            self.meanwhile()
        return {}


class TakesNothing:
    """An inbox for no messages."""

    def problem(self) -> str | None:
        return None

    def has_taken(self, key: str) -> bool:
        return False


class InterruptedEvent(threading.Event):
    """``meanwhile`` is called just before it is cleared for the first time."""

    meanwhile: Callable[[], None] | None = None

    def clear(self) -> None:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        super().clear()


def make(queue: EmptyQueue, expect_seconds: float = 0.0) -> SqsDelivery:
    inbox: Any = TakesNothing()
    return SqsDelivery(queue, "url", inbox, Metrics(), (), expect_seconds)


def assert_ends(delivery: SqsDelivery) -> None:
    delivery._thread.join(10)
    assert not delivery._thread.is_alive()


def test_a_delivery_that_is_closed_just_before_it_polls_does_not_poll_and_ends() -> None:
    queue, event = EmptyQueue(), InterruptedEvent()
    delivery = make(queue)
    delivery._expecting = event
    event.meanwhile = delivery.close
    delivery.start()
    assert_ends(delivery)
    assert queue.polls == 0


def test_a_delivery_that_is_closed_while_it_polls_ends() -> None:
    queue = EmptyQueue()
    delivery = make(queue)
    queue.meanwhile = delivery.close
    delivery.start()
    assert_ends(delivery)
    assert queue.polls == 1


def test_an_expectation_that_comes_while_it_polls_is_not_lost() -> None:
    queue, polled_again = EmptyQueue(), threading.Event()
    delivery = make(queue)
    queue.meanwhile = lambda: delivery.expect(plan_key("n1", 1))
    first = queue.receive_message

    def receive_message(**parameters: object) -> dict[str, Any]:
        if queue.polls:
            polled_again.set()
        return first(**parameters)

    queue.receive_message = receive_message  # type: ignore[method-assign]
    delivery.start()
    assert polled_again.wait(10)
    delivery.close()
    assert_ends(delivery)
    assert queue.polls == 2


def test_a_queue_that_cannot_be_read_is_told_until_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqs_delivery, "FIRST_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(sqs_delivery, "LEAST_PAUSE_SECONDS", 0.0)
    told: list[str | None] = []

    class GoneAtFirst(EmptyQueue):
        def receive_message(self, **_: object) -> dict[str, Any]:
            self.polls += 1
            told.append(delivery.problem())
            if self.polls == 1:
                raise OSError("NonExistentQueue")
            return {}

    inbox: Any = TakesNothing()
    delivery = SqsDelivery(GoneAtFirst(), "https://sqs/n1", inbox, Metrics(), (OSError,), 60.0)
    delivery.start()
    delivery.expect(plan_key(NODE, NEW))
    wait_until(lambda: len(told) > 2, lambda: told)
    delivery.close()
    assert_ends(delivery)
    assert told[0] is told[2] is None
    assert told[1] == "queue https://sqs/n1 cannot be read: NonExistentQueue"


def test_a_queue_that_answers_empty_at_once_is_not_asked_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sqs_delivery, "LEAST_PAUSE_SECONDS", 0.2)
    queue, asked_at = EmptyQueue(), [time.monotonic()]
    delivery = make(queue, expect_seconds=60.0)

    def receive_message(**_: object) -> dict[str, Any]:
        asked_at.append(time.monotonic())
        return {}

    queue.receive_message = receive_message  # type: ignore[method-assign]
    delivery.start()
    delivery.expect(plan_key(NODE, NEW))
    wait_until(lambda: len(asked_at) > 4, lambda: asked_at)
    delivery.close()
    assert_ends(delivery)
    assert asked_at[4] - asked_at[0] > 2.5 * 0.2  # four questions have three pauses


class IdleEvent(threading.Event):
    """``idle`` is set when somebody begins to wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self.idle = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        if not self.is_set():
            self.idle.set()
        return super().wait(timeout)


class RealQueue:
    """A queue of the emulated cloud, and the delivery that asks it, drained."""

    def __init__(self, cloud: SignedCloud, expect_seconds: float) -> None:
        self.polls = 0
        self.receiving = Receiving(cloud, SignatureCheck(cloud.topic_arn, cloud.endpoint_url))
        self._sqs = cloud.sqs
        self._url = cloud.sqs.create_queue(QueueName="polled")["QueueUrl"]
        self._bodies = six_messages(cloud)
        self._event = IdleEvent()
        inbox = self.receiving.inbox
        self.delivery = SqsDelivery(
            self, self._url, inbox, Metrics(), (ClientError,), expect_seconds
        )
        self.delivery._expecting = self._event

    def send(self, name: str) -> None:
        self._sqs.send_message(QueueUrl=self._url, MessageBody=self._bodies[name].decode())

    def receive_message(self, **parameters: Any) -> Any:
        self.polls += 1
        return self._sqs.receive_message(**{**parameters, "WaitTimeSeconds": 1})

    def delete_message(self, **parameters: Any) -> None:
        self._sqs.delete_message(**parameters)

    def until_idle(self) -> None:
        """Wait until its thread waits for an expectation, and asks no more."""
        assert self._event.idle.wait(20)

    def expect(self, cycle: int) -> None:
        self._event.idle.clear()
        self.delivery.expect(plan_key(NODE, cycle))

    def close(self) -> None:
        self.delivery.close()
        assert_ends(self.delivery)
        self._sqs.delete_queue(QueueUrl=self._url)


@pytest.fixture
def queue(cloud: SignedCloud, request: pytest.FixtureRequest) -> Iterator[RealQueue]:
    made = RealQueue(cloud, getattr(request, "param", 30.0))
    yield made
    made.close()


def test_what_waited_is_taken_at_the_start(queue: RealQueue) -> None:
    queue.send("old")
    queue.delivery.start()
    queue.until_idle()
    assert queue.receiving.moves == [OLD]
    assert queue.polls == 2  # the second found the queue empty


def test_one_receive_brings_the_plan_that_is_expected(queue: RealQueue) -> None:
    queue.delivery.start()
    queue.until_idle()
    before = queue.polls
    queue.send("new")
    queue.expect(NEW)
    queue.until_idle()
    assert queue.receiving.moves == [NEW]
    assert queue.polls == before + 1


def test_a_plan_that_a_poll_from_before_brings_is_not_asked_for_again(
    queue: RealQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    receive = queue.receive_message

    def first(**parameters: Any) -> Any:
        monkeypatch.setattr(queue, "receive_message", receive)
        queue.expect(NEW)
        queue.send("new")
        return receive(**parameters)

    monkeypatch.setattr(queue, "receive_message", first)
    queue.delivery.start()
    queue.until_idle()
    assert queue.receiving.moves == [NEW]
    assert queue.polls == 1


def test_an_older_plan_does_not_end_the_wait(queue: RealQueue) -> None:
    queue.delivery.start()
    queue.until_idle()
    queue.send("old")
    queue.expect(NEW)
    wait_until(lambda: queue.receiving.moves == [OLD], lambda: queue.receiving.moves)
    queue.send("new")
    queue.until_idle()
    assert queue.receiving.moves == [OLD, NEW]


@pytest.mark.parametrize("queue", [0.0], indirect=True)
def test_a_plan_that_comes_too_late_is_found_before_the_next_expectation(
    queue: RealQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqs_delivery, "LEAST_LATE_SECONDS", 0.01)
    queue.delivery.start()
    queue.until_idle()
    queue.expect(OLD)
    queue.until_idle()
    queue.send("old")
    wait_until(lambda: queue.receiving.moves == [OLD], lambda: queue.receiving.moves)


def test_looks_for_a_late_plan_become_ever_more_seldom() -> None:
    delivery = make(EmptyQueue(), expect_seconds=30.0)
    assert delivery._seconds_to_next_look() is None
    for waited_seconds, pause_seconds in ((29.0, 0.0), (31.0, 31.0), (300.0, 300.0)):
        delivery._expected = (plan_key(NODE, NEW), time.monotonic() - waited_seconds)
        assert delivery._seconds_to_next_look() == pytest.approx(pause_seconds, abs=0.9)


def test_an_answer_that_is_no_text_is_told_as_one_that_is_none_of_aws(cloud: SignedCloud) -> None:
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\xff\xfe") as url:
        endpoint = url.partition("/plans")[0]
        sqs = client("sqs", "us-east-1", endpoint, 5.0)
        with pytest.raises(aws_errors()):
            sqs.receive_message(QueueUrl=f"{endpoint}/1/n1")

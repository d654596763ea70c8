"""When the queue is asked, and that the thread that asks it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from sidecar.base.metrics import Metrics
from sidecar.delivery.sqs_delivery import SqsDelivery


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


class InterruptedEvent(threading.Event):
    """``meanwhile`` is called just before it is cleared for the first time."""

    meanwhile: Callable[[], None] | None = None

    def clear(self) -> None:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        super().clear()


def make(queue: EmptyQueue) -> SqsDelivery:
    inbox: Any = None  # there are no messages
    return SqsDelivery(queue, "url", inbox, Metrics(), (), expect_seconds=0)


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
    queue.meanwhile = delivery.expect
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

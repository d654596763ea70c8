"""Takes notifications by long polling of the node's SQS queue: outbound calls only."""

from __future__ import annotations

import logging
import math
import threading
import time
from typing import Any

from sidecar.base.metrics import Metrics
from sidecar.config.addresses import shown_url
from sidecar.delivery.plan_inbox import PlanInbox, Verdict

log = logging.getLogger(__name__)

LONG_POLL_SECONDS = 20  # the longest that SQS offers
LONG_POLL_SHARE = 2 / 3
LEAST_LATE_SECONDS = 10.0  # between looks for a late plan
LEAST_PAUSE_SECONDS = 1.0  # from question to question, should the queue not wait as it is asked to
FIRST_PAUSE_SECONDS = 1.0  # after an error
LAST_PAUSE_SECONDS = 60.0


def long_poll_seconds(deadline_seconds: float) -> int:
    """Return how long a poll may wait, so that one that nobody answers is noticed before the
    deadline."""
    return max(1, min(LONG_POLL_SECONDS, int(LONG_POLL_SHARE * deadline_seconds)))


class SqsDelivery:
    """Asks the queue in a thread. A message stays in it until there is a verdict.

    Requests cost money, so it asks only at two times: at the start, until the queue is empty, and
    from each ``expect`` until that plan is taken, for ``expect_seconds`` at most. From then on it
    looks for a late one ever more seldom, each time after as long again: it must be found before it
    is too old.
    """

    def __init__(
        self,
        sqs: Any,
        queue_url: str,
        inbox: PlanInbox,
        metrics: Metrics,
        errors: tuple[type[Exception], ...],
        expect_seconds: float,
    ) -> None:
        self._sqs = sqs
        self._queue_url = queue_url
        self._inbox = inbox
        self._metrics = metrics
        self._errors = errors
        self._expect_seconds = expect_seconds
        self._is_draining = False
        # The plan that is waited for, and since when: one value, which two threads may exchange.
        self._expected: tuple[str, float] | None = None
        self._next_look_seconds: float | None = None
        self._expecting = threading.Event()
        self._stop = threading.Event()
        self._unread: str | None = None
        # A daemon, because a long poll cannot be interrupted: ``close`` does not wait for it, and
        # a message that it still receives goes back to the queue unread.
        self._thread = threading.Thread(target=self._run, name="sqs", daemon=True)

    def start(self) -> None:
        self._is_draining = True  # what came while we were down
        self._expecting.set()
        self._thread.start()

    def expect(self, key: str) -> None:
        """The plan under ``key`` will come soon."""
        self._is_draining = False  # older plans, if there are more, come along with this one
        self._expected = (key, time.monotonic())
        self._expecting.set()

    def problem(self) -> str | None:
        return self._unread or self._inbox.problem()

    def close(self) -> None:
        """Take no more messages; returns at once."""
        self._stop.set()
        self._expecting.set()

    def _run(self) -> None:
        pause_seconds = FIRST_PAUSE_SECONDS
        asked_at = -math.inf
        while True:
            self._expecting.wait(self._next_look_seconds)
            self._stop.wait(max(0.0, asked_at + LEAST_PAUSE_SECONDS - time.monotonic()))
            # Cleared before anything is looked at, so that neither an expectation nor the end that
            # comes in the meantime is lost.
            self._expecting.clear()
            if self._stop.is_set():
                return
            self._next_look_seconds = None
            if not self._is_draining and self._has_come():
                continue  # the poll that was under way when it was expected has brought it
            asked_at = time.monotonic()
            try:
                if not self._poll():
                    self._is_draining = False
                self._unread = None
                self._next_look_seconds = self._seconds_to_next_look()
                if self._next_look_seconds == 0:
                    self._expecting.set()
            except self._errors as error:
                self._metrics.sqs_errors.inc()
                self._unread = f"queue {shown_url(self._queue_url)} cannot be read: {error}"
                log.warning("%s, next try in %.0f s", self._unread, pause_seconds)
            except Exception:
                # A message that breaks us must not end delivery: it is delivered again, and ends
                # in the dead-letter queue.
                self._metrics.sqs_failures.inc()
                log.exception("a message could not be dealt with")
            else:
                pause_seconds = FIRST_PAUSE_SECONDS
                continue
            self._expecting.set()
            self._stop.wait(pause_seconds)
            pause_seconds = min(2 * pause_seconds, LAST_PAUSE_SECONDS)

    def _has_come(self) -> bool:
        """Whether there is nothing to ask for."""
        return self._expected is None or self._inbox.has_taken(self._expected[0])

    def _seconds_to_next_look(self) -> float | None:
        """Return the time to the next look; ``None``: not before somebody expects a plan."""
        if self._is_draining:
            return 0.0
        if self._expected is None or self._has_come():
            return None
        waited_seconds = time.monotonic() - self._expected[1]
        if waited_seconds < self._expect_seconds:
            return 0.0
        return max(waited_seconds, LEAST_LATE_SECONDS)

    def _poll(self) -> bool:
        """Whether there was a message."""
        answer = self._sqs.receive_message(
            QueueUrl=self._queue_url,
            MaxNumberOfMessages=10,
            WaitTimeSeconds=long_poll_seconds(self._expect_seconds),
        )
        messages = answer.get("Messages", [])
        for message in messages:
            if self._stop.is_set():
                # At once for whoever polls next, not after the visibility timeout.
                self._sqs.change_message_visibility(
                    QueueUrl=self._queue_url,
                    ReceiptHandle=message["ReceiptHandle"],
                    VisibilityTimeout=0,
                )
            elif self._inbox.take(message["Body"].encode()) is not Verdict.LATER:
                self._sqs.delete_message(
                    QueueUrl=self._queue_url, ReceiptHandle=message["ReceiptHandle"]
                )
        return bool(messages)

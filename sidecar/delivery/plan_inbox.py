"""Turns a delivered message into a plan in hand: check, fetch, pass on; for HTTP and SQS alike."""

from __future__ import annotations

import enum
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from sidecar.base.metrics import Metrics
from sidecar.delivery.message_signature import CertificateUnavailableError
from sidecar.delivery.notification import NotificationCheck, NotificationRefusedError
from sidecar.plans.plan_check import TakePlan
from sidecar.storage.store import Store, StoreError
from solver_lambda.documents.plan import MAX_PLAN_BYTES
from solver_lambda.documents.reader import shown

log = logging.getLogger(__name__)

REMEMBERED_REFUSALS = 16
# So long a message that nobody has proven is told of: SNS sends its own again sooner.
UNPROVEN_SECONDS = 60.0


class Verdict(enum.Enum):
    """Says what became of a message, for the code that delivered it."""

    TAKEN = "taken"
    REFUSED = "refused"  # do not deliver it again
    LATER = "later"  # deliver it again


class PlanInbox:
    """Takes messages as they were delivered.

    ``confirm`` calls SNS' ConfirmSubscription with a token; it raises ``StoreError`` if it fails.
    """

    def __init__(
        self,
        check: NotificationCheck,
        plans: Store,
        take_plan: TakePlan,
        confirm: Callable[[str], None],
        metrics: Metrics,
    ) -> None:
        self._check = check
        self._plans = plans
        self._take_plan = take_plan
        self._confirm = confirm
        self._metrics = metrics
        self._taken_until = ""
        # Of messages that are SNS' own, and of one that may be anybody's, with when it came.
        self._deferred: str | None = None
        self._unproven: tuple[float, str] | None = None
        self._refused: deque[str] = deque(maxlen=REMEMBERED_REFUSALS)

    def has_taken(self, key: str) -> bool:
        """Whether nobody need wait for the plan under ``key``: it has come, or one of a later cycle
        was believed. The keys of one node sort as its cycles do. A stray one of a later cycle that
        is refused ends no wait but its own."""
        return key <= self._taken_until or key in self._refused

    def problem(self) -> str | None:
        """Say what may keep good messages out now, for people."""
        unproven = None
        if self._unproven and time.monotonic() - self._unproven[0] < UNPROVEN_SECONDS:
            unproven = self._unproven[1]
        return self._check.problem() or self._deferred or unproven

    def take(self, body: bytes, sender: str = "") -> Verdict:
        """Deal with one message, delivered by ``sender``; never raises for a bad one."""
        try:
            notification = self._check.check(body, sender)
            if notification.token is not None:
                self._confirm(notification.token)
                log.info("subscription confirmed")
            for key in notification.plan_keys:
                self._fetch(key)
        except NotificationRefusedError as error:
            self._metrics.notifications_refused.labels(error.code).inc()
            log.warning("notification refused: %s", error)
            return Verdict.REFUSED
        except (CertificateUnavailableError, StoreError) as error:
            self._metrics.notifications_deferred.inc()
            if isinstance(error, StoreError):
                words = self._deferred = f"notification cannot be dealt with now: {error}"
            else:
                words = f"a notification, perhaps a stranger's, cannot be checked now: {error}"
                self._unproven = time.monotonic(), words
            log.warning("%s", words)
            return Verdict.LATER
        self._deferred = self._unproven = None
        self._check.remember(notification.digest)
        self._metrics.notifications_taken.inc()
        return Verdict.TAKEN

    def _fetch(self, key: str) -> None:
        document = self._plans.get(key, MAX_PLAN_BYTES)
        if document is None:
            raise NotificationRefusedError("no_plan", f"there is no document {shown(key)}")
        if self._take_plan(document, f"{key} from the cloud"):
            self._taken_until = max(self._taken_until, key)
        else:
            self._refused.append(key)


def confirmer(
    sns: Any, topic_arn: str, errors: tuple[type[Exception], ...]
) -> Callable[[str], None]:
    """Confirms a subscription by its token, never by fetching an address from a message."""

    def confirm(token: str) -> None:
        try:
            sns.confirm_subscription(TopicArn=topic_arn, Token=token)
        except errors as error:
            raise StoreError(f"ConfirmSubscription: {error}") from error

    return confirm

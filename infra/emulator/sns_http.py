"""SNS' deliveries over HTTP: headers, retries, and the dead-letter queue in the end."""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from ministack.services import sns

log = logging.getLogger("sns")

RETRY_DELAYS_SECONDS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8)
HTTP_TIMEOUT_SECONDS = 15  # as SNS

Message = dict[str, Any]


def in_background(function: Callable[..., None], *arguments: object) -> None:
    """Run in a thread that keeps the request's account and region."""
    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(function, *arguments), daemon=True).start()


def deliver_over_http() -> None:
    """Replace ministack's own implementation."""

    async def deliver(endpoint: str, body: str) -> None:
        # ministack calls this in a bare thread, where only the message says which topic it is.
        topic_arn = json.loads(body)["TopicArn"]
        for topic in sns._topics.all_values():
            for subscription in topic["subscriptions"]:
                if topic["arn"] == topic_arn and subscription["endpoint"] == endpoint:
                    redrive = subscription["attributes"].get("RedrivePolicy")
                    await asyncio.to_thread(post_until_accepted, subscription, body, redrive)
                    return

    sns._deliver_to_http = deliver


def post_until_accepted(subscription: Message, body: str, redrive: str | None) -> None:
    """Or until the retries are used up, or the receiver refuses it."""
    for delay_seconds in (*RETRY_DELAYS_SECONDS, None):
        status = _post(subscription, body)
        if 200 <= status < 300:
            return
        if 400 <= status < 500 and status != 429:
            break  # the receiver has refused it
        if delay_seconds is not None:
            time.sleep(delay_seconds)
    log.warning("SNS gave up on %s: last status %s", subscription["endpoint"], status)
    if redrive:
        sns._deliver_to_sqs(
            json.loads(redrive)["deadLetterTargetArn"],
            body,
            raw=False,
            raw_message=body,
            topic_arn=subscription["topic_arn"],
        )


def _post(subscription: Message, body: str) -> int:
    """Status of the answer, 0 if there was none."""
    message = json.loads(body)
    headers = {
        "Content-Type": "text/plain; charset=UTF-8",
        "User-Agent": "Amazon Simple Notification Service Agent",
        "x-amz-sns-message-type": message["Type"],
        "x-amz-sns-message-id": message["MessageId"],
        "x-amz-sns-topic-arn": message["TopicArn"],
    }
    if message["Type"] == "Notification":
        headers["x-amz-sns-subscription-arn"] = subscription["arn"]
    request = urllib.request.Request(  # noqa: S310 the endpoint was subscribed with http(s)
        subscription["endpoint"], body.encode(), headers
    )
    try:
        with urllib.request.urlopen(request, timeout=HTTP_TIMEOUT_SECONDS) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError as error:
        log.info("SNS could not reach %s: %s", subscription["endpoint"], error)
        return 0

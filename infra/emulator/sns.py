"""What ministack leaves out of SNS, put in; it runs inside the emulator's process.

Emulated here, on top of ministack 1.5.33, after the SNS developer guide:

* messages are signed with a real key, in the version that the topic asks for; the certificate is
  served by the emulator under the path that ``SigningCertURL`` has at AWS (its host stays the real
  one, as a receiver has to check it, so whoever has an endpoint URL set fetches it from there);
* HTTP subscriptions made by CloudFormation get their confirmation message, and subscribing again
  while it is unanswered sends another;
* HTTP deliveries carry SNS' headers, are tried again after server errors, timeouts and refused
  connections (sooner than SNS does), and go to the subscription's dead-letter queue in the end;
* filter policies on the body look into arrays of objects, as in an S3 event's ``Records``.

Everything else about SNS is ministack's.
"""

from __future__ import annotations

import asyncio
import contextvars
import datetime
import importlib.metadata
import json
import logging
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Awaitable, Callable
from typing import Any

from ministack import app as ministack_app
from ministack.core.responses import get_region, new_uuid
from ministack.services import sns
from ministack.services.cloudformation import provisioners

from infra.emulator.signer import Signer

log = logging.getLogger("sns")

MINISTACK = "1.5.33"
RETRY_DELAYS_SECONDS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8)
HTTP_TIMEOUT_SECONDS = 15  # as SNS

Message = dict[str, Any]


def install() -> None:
    """Put this layer over ministack, once, before its first request.

    Raises:
        RuntimeError: another release of ministack, whose inside may be different.
    """
    found = importlib.metadata.version("ministack")
    if found != MINISTACK:
        raise RuntimeError(f"the emulator needs ministack {MINISTACK}, this is {found}")
    signer = Signer()
    _sign_messages(signer)
    _confirm_subscriptions(signer)
    _deliver_over_http()
    _filter_into_arrays()
    _serve_certificate(signer)


# --- signing -------------------------------------------------------------------------------------


def _signed(signer: Signer, message: Message) -> Message:
    """In the version that the topic asks for."""
    topic = sns._topic_by_arn_any_scope(message["TopicArn"]) or {"attributes": {}}
    version = str(topic["attributes"].get("SignatureVersion", "1"))
    return signer.sign(message, version, get_region())


def _url(**query: str) -> str:
    return f"http://{sns._HOST}:{sns._PORT}/?{urllib.parse.urlencode(query)}"


def _now() -> str:
    now = datetime.datetime.now(datetime.UTC)
    return now.strftime("%Y-%m-%dT%H:%M:%S.") + f"{now.microsecond // 1000:03d}Z"


def _sign_messages(signer: Signer) -> None:
    def envelope(
        topic_arn: str,
        message_id: str,
        message: str,
        subject: str,
        attributes: dict[str, dict[str, str]],
        raw: bool,
    ) -> str:
        if raw:
            return message
        body: Message = {
            "Type": "Notification",
            "MessageId": message_id,
            "TopicArn": topic_arn,
            **({"Subject": subject} if subject else {}),
            "Message": message,
            "Timestamp": _now(),
        }
        body = _signed(signer, body)
        body["UnsubscribeURL"] = _url(Action="Unsubscribe", SubscriptionArn=topic_arn)
        if attributes:
            body["MessageAttributes"] = {
                name: {"Type": value.get("DataType"), "Value": value.get("StringValue")}
                for name, value in attributes.items()
            }
        return json.dumps(body)

    sns._build_envelope = envelope

    # CloudFormation's SignatureVersion is dropped by ministack.
    handlers = provisioners._RESOURCE_HANDLERS["AWS::SNS::Topic"]
    create, update = handlers["create"], handlers["update"]

    def keep_version(arn: str, properties: Message) -> None:
        version = properties.get("SignatureVersion", "1")
        sns._topics[arn]["attributes"]["SignatureVersion"] = version

    def create_topic(logical_id: str, properties: Message, stack: str) -> Any:
        arn, attributes = create(logical_id, properties, stack)
        keep_version(arn, properties)
        return arn, attributes

    def update_topic(physical_id: str, old: Message, new: Message, *rest: Any, **more: Any) -> Any:
        result = update(physical_id, old, new, *rest, **more)
        keep_version(physical_id, new)
        return result

    handlers.update(create=create_topic, update=update_topic)


# --- confirmation --------------------------------------------------------------------------------


def _confirm_subscriptions(signer: Signer) -> None:
    def send(topic_arn: str, subscription: Message) -> None:
        token = subscription["token"]
        message: Message = {
            "Type": "SubscriptionConfirmation",
            "MessageId": new_uuid(),
            "Token": token,
            "TopicArn": topic_arn,
            "Message": f"You have chosen to subscribe to the topic {topic_arn}.\n"
            "To confirm the subscription, visit the SubscribeURL included in this message.",
            "SubscribeURL": _url(Action="ConfirmSubscription", TopicArn=topic_arn, Token=token),
            "Timestamp": _now(),
        }
        message = _signed(signer, message)
        _in_background(_post_until_accepted, subscription, json.dumps(message), None)

    async def send_confirmation(topic_arn: str, subscription: Message) -> None:
        send(topic_arn, subscription)

    sns._send_subscription_confirmation = send_confirmation

    subscribe = sns._subscribe

    def subscribe_again(parameters: Message) -> Any:
        wanted = (sns._p(parameters, "Protocol"), sns._p(parameters, "Endpoint"))
        topic_arn = sns._p(parameters, "TopicArn")
        topic = sns._topic_by_arn_any_scope(topic_arn) or {"subscriptions": []}
        for subscription in topic["subscriptions"]:
            same = (subscription["protocol"], subscription["endpoint"]) == wanted
            if same and not subscription["confirmed"]:
                send(topic_arn, subscription)
        return subscribe(parameters)

    sns._subscribe = subscribe_again

    confirm = sns._confirm_subscription
    confirmed: dict[str, Any] = {}

    def confirm_again(parameters: Message) -> Any:
        # A message that was sent twice brings its token twice; that is no error at SNS.
        token = sns._p(parameters, "Token")
        if token not in confirmed:
            answer = confirm(parameters)
            if answer[0] != 200:
                return answer
            confirmed[token] = answer
        return confirmed[token]

    sns._confirm_subscription = confirm_again

    handlers = provisioners._RESOURCE_HANDLERS["AWS::SNS::Subscription"]
    create = handlers["create"]

    def create_subscription(logical_id: str, properties: Message, stack: str) -> Any:
        arn, attributes = create(logical_id, properties, stack)
        subscription = sns._find_subscription(properties["TopicArn"], arn)
        if subscription and not subscription["confirmed"]:
            subscription["token"] = new_uuid()
            subscription["attributes"]["PendingConfirmation"] = "true"
            send(properties["TopicArn"], subscription)
        return arn, attributes

    handlers["create"] = create_subscription


# --- HTTP delivery -------------------------------------------------------------------------------


def _in_background(function: Callable[..., None], *arguments: object) -> None:
    """Run in a thread that keeps the request's account and region."""
    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(function, *arguments), daemon=True).start()


def _deliver_over_http() -> None:
    async def deliver(endpoint: str, body: str) -> None:
        # ministack calls this in a bare thread, where only the message says which topic it is.
        topic_arn = json.loads(body)["TopicArn"]
        for topic in sns._topics.all_values():
            for subscription in topic["subscriptions"]:
                if topic["arn"] == topic_arn and subscription["endpoint"] == endpoint:
                    redrive = subscription["attributes"].get("RedrivePolicy")
                    await asyncio.to_thread(_post_until_accepted, subscription, body, redrive)
                    return

    sns._deliver_to_http = deliver


def _post_until_accepted(subscription: Message, body: str, redrive: str | None) -> None:
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


# --- filter policies -----------------------------------------------------------------------------


def _filter_into_arrays() -> None:
    lookup_in = sns._body_lookup

    def body_lookup(body: dict[str, Any]) -> Any:
        lookup = lookup_in(body)

        def child(key: str) -> Any:
            value = body.get(key)
            if isinstance(value, list) and value and all(isinstance(v, dict) for v in value):
                return _any_of([body_lookup(item) for item in value])
            return body_lookup(value) if isinstance(value, dict) else None

        lookup.child = child
        return lookup

    sns._body_lookup = body_lookup


def _any_of(lookups: list[Any]) -> Any:
    """One lookup over the objects of an array: it has every value that any of them has."""

    def lookup(key: str) -> tuple[bool, list[Any], bool]:
        found = [each(key) for each in lookups]
        return (
            any(present for present, _, _ in found),
            [value for _, values, _ in found for value in values],
            any(nonempty for _, _, nonempty in found),
        )

    def child(key: str) -> Any:
        children = [inner for inner in (each.child(key) for each in lookups) if inner is not None]
        return _any_of(children) if children else None

    lookup.child = child  # type: ignore[attr-defined]
    return lookup


# --- the certificate -----------------------------------------------------------------------------


def _serve_certificate(signer: Signer) -> None:
    served = ministack_app.app

    async def app(
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        if scope["type"] != "http" or scope["path"] != signer.path:
            await served(scope, receive, send)
            return
        headers = [(b"content-type", b"application/x-pem-file")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": signer.certificate})

    ministack_app.app = app

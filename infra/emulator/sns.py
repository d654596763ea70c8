"""Adds what ministack leaves out of SNS; it runs inside the emulator's process.

Emulated here, on top of ministack 1.5.33, after the SNS developer guide:

* messages are signed with a real key, in the version that the topic asks for. The emulator serves
  the certificate under the path that ``SigningCertURL`` has at AWS. The URL's host stays the real
  one, as a receiver has to check it; so whoever has an endpoint URL set fetches the certificate
  from there;
* HTTP subscriptions made by CloudFormation get their confirmation message, and subscribing again
  while it is unanswered sends another;
* HTTP deliveries carry SNS' headers. They are tried again after server errors, timeouts and refused
  connections (sooner than SNS does), and go to the subscription's dead-letter queue in the end;
* filter policies on the body look into arrays of objects, as in an S3 event's ``Records``.

Everything else about SNS is ministack's.

Subscriptions are confirmed: those of CloudFormation too, and more than once.

SNS' filter policies on the body look into arrays of objects.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import urllib.parse
from collections.abc import Awaitable, Callable
from typing import Any

from ministack import app as ministack_app
from ministack.core.responses import get_region, new_uuid
from ministack.services import sns
from ministack.services.cloudformation import provisioners

from infra.emulator.signer import Signer
from infra.emulator.sns_http import deliver_over_http, in_background, post_until_accepted

Message = dict[str, Any]


def signed(signer: Signer, message: Message) -> Message:
    """The message, signed in the version that the topic asks for."""
    topic = sns._topic_by_arn_any_scope(message["TopicArn"]) or {"attributes": {}}
    version = str(topic["attributes"].get("SignatureVersion", "1"))
    return signer.sign(message, version, get_region())


def action_url(**query: str) -> str:
    """The emulator's URL for an action of SNS."""
    return f"http://{sns._HOST}:{sns._PORT}/?{urllib.parse.urlencode(query)}"


def now_text() -> str:
    """The present time as SNS writes it."""
    now = datetime.datetime.now(datetime.UTC)
    return now.strftime("%Y-%m-%dT%H:%M:%S.") + f"{now.microsecond // 1000:03d}Z"


def filter_into_arrays() -> None:
    """Replace ministack's own implementation."""
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
    """Join lookups over the objects of an array: it has every value that any of them has."""

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


def confirm_subscriptions(signer: Signer) -> None:
    """Replace ministack's own implementation."""
    confirmation = _Confirmation(signer)

    async def send_confirmation(topic_arn: str, subscription: Message) -> None:
        confirmation.send(topic_arn, subscription)

    sns._send_subscription_confirmation = send_confirmation
    sns._subscribe = confirmation.subscribe_again
    sns._confirm_subscription = confirmation.confirm_again
    handlers = provisioners._RESOURCE_HANDLERS["AWS::SNS::Subscription"]
    handlers["create"] = confirmation.create_subscription


class _Confirmation:
    def __init__(self, signer: Signer) -> None:
        self._signer = signer
        self._subscribe = sns._subscribe
        self._confirm = sns._confirm_subscription
        self._create = provisioners._RESOURCE_HANDLERS["AWS::SNS::Subscription"]["create"]
        self._confirmed: dict[str, Any] = {}

    def send(self, topic_arn: str, subscription: Message) -> None:
        token = subscription["token"]
        url = action_url(Action="ConfirmSubscription", TopicArn=topic_arn, Token=token)
        message: Message = {
            "Type": "SubscriptionConfirmation",
            "MessageId": new_uuid(),
            "Token": token,
            "TopicArn": topic_arn,
            "Message": f"You have chosen to subscribe to the topic {topic_arn}.\n"
            "To confirm the subscription, visit the SubscribeURL included in this message.",
            "SubscribeURL": url,
            "Timestamp": now_text(),
        }
        message = signed(self._signer, message)
        in_background(post_until_accepted, subscription, json.dumps(message), None)

    def subscribe_again(self, parameters: Message) -> Any:
        wanted = (sns._p(parameters, "Protocol"), sns._p(parameters, "Endpoint"))
        topic_arn = sns._p(parameters, "TopicArn")
        topic = sns._topic_by_arn_any_scope(topic_arn) or {"subscriptions": []}
        for subscription in topic["subscriptions"]:
            same = (subscription["protocol"], subscription["endpoint"]) == wanted
            if same and not subscription["confirmed"]:
                self.send(topic_arn, subscription)
        return self._subscribe(parameters)

    def confirm_again(self, parameters: Message) -> Any:
        # A message that was sent twice brings its token twice; that is no error at SNS.
        token = sns._p(parameters, "Token")
        if token not in self._confirmed:
            answer = self._confirm(parameters)
            if answer[0] != 200:
                return answer
            self._confirmed[token] = answer
        return self._confirmed[token]

    def create_subscription(self, logical_id: str, properties: Message, stack: str) -> Any:
        arn, attributes = self._create(logical_id, properties, stack)
        subscription = sns._find_subscription(properties["TopicArn"], arn)
        if subscription and not subscription["confirmed"]:
            subscription["token"] = new_uuid()
            subscription["attributes"]["PendingConfirmation"] = "true"
            self.send(properties["TopicArn"], subscription)
        return arn, attributes


MINISTACK = "1.5.33"


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
    confirm_subscriptions(signer)
    deliver_over_http()
    filter_into_arrays()
    _serve_certificate(signer)


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
            "Timestamp": now_text(),
        }
        body = signed(signer, body)
        body["UnsubscribeURL"] = action_url(Action="Unsubscribe", SubscriptionArn=topic_arn)
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

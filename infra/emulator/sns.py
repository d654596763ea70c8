"""Adds what ministack leaves out of SNS; it runs inside the emulator's process.

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

import importlib.metadata
import json
from collections.abc import Awaitable, Callable
from typing import Any

from ministack import app as ministack_app
from ministack.services import sns
from ministack.services.cloudformation import provisioners

from infra.emulator.signer import Signer
from infra.emulator.sns_confirmation import confirm_subscriptions
from infra.emulator.sns_filters import filter_into_arrays
from infra.emulator.sns_http import deliver_over_http
from infra.emulator.sns_messages import Message, action_url, now_text, signed

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

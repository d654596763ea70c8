"""Subscriptions are confirmed: those of CloudFormation too, and more than once."""

from __future__ import annotations

import json
from typing import Any

from ministack.core.responses import new_uuid
from ministack.services import sns
from ministack.services.cloudformation import provisioners

from infra.emulator.signer import Signer
from infra.emulator.sns_http import in_background, post_until_accepted
from infra.emulator.sns_messages import Message, action_url, now_text, signed


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

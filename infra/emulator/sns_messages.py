"""What SNS' own messages have in common."""

from __future__ import annotations

import datetime
import urllib.parse
from typing import Any

from ministack.core.responses import get_region
from ministack.services import sns

from infra.emulator.signer import Signer

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

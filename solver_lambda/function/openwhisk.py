"""The entry under OpenWhisk is ``main``, which takes a dictionary and gives one.

Invoked as an action it takes the observation's fields, or S3's event; as a web action, plain or
raw, the observation is the body of the request
(https://github.com/apache/openwhisk/blob/master/docs/webactions.md).
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from typing import Any

from solver_lambda.documents.observation import MAX_OBSERVATION_BYTES
from solver_lambda.function.answering import RefusedError, answer_document

SOURCE = "the observation"
JSON_HEADERS = {"content-type": "application/json"}
# What a web action adds to the fields of the body begins so.
WEB_PREFIX = "__ow_"


def main(args: dict[str, Any]) -> dict[str, Any]:
    """Return the plan of an observation, or ``{"error": reason}``, by which OpenWhisk knows a
    failure.

    A web action gets the plan as the body of its answer; SPREDS_TOKEN and the like are for
    ``solver_lambda serve``: here OpenWhisk says who may ask (``require-whisk-auth``).
    """
    asked_by_web = any(key.startswith(WEB_PREFIX) for key in args)
    try:
        if "Records" in args and not asked_by_web:
            from solver_lambda.function.handler import handler

            return handler(args, None)
        plan = json.loads(answer_document(_document(args), SOURCE, os.environ))
    except RefusedError as error:
        reason = {"error": str(error)}
        if not asked_by_web:
            return reason
        return {"error": {"statusCode": 422, "headers": JSON_HEADERS, "body": reason}}
    if asked_by_web:
        return {"statusCode": 200, "headers": JSON_HEADERS, "body": plan}
    assert isinstance(plan, dict)
    return plan


def _document(args: dict[str, Any]) -> bytes:
    """Return the observation's text. Raises RefusedError."""
    body = args.get(f"{WEB_PREFIX}body")
    if body is None:
        fields = {key: value for key, value in args.items() if not key.startswith(WEB_PREFIX)}
        return json.dumps(fields).encode()
    if not isinstance(body, str) or len(body) > 2 * MAX_OBSERVATION_BYTES:
        raise RefusedError(f"{SOURCE} is not a text of at most {MAX_OBSERVATION_BYTES} bytes")
    if body.lstrip().startswith("{"):
        return body.encode()
    try:  # a raw web action encodes JSON as it does what is binary
        return base64.b64decode(body, validate=True)
    except binascii.Error as error:
        raise RefusedError(f"{SOURCE} is neither JSON nor base64: {error}") from error

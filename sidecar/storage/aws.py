"""Clients of AWS' services: the only place that makes them, and boto3 is imported only here."""

from __future__ import annotations

from typing import Any

from solver_lambda.document import DocumentError

CONNECT_SECONDS = 5
# Longer than SQS' long poll of 20 seconds.
READ_SECONDS = 30


def client(service: str, region: str, endpoint_url: str | None) -> Any:
    """A client with limits on its waiting; credentials come from the environment as usual.

    Raises:
        DocumentError: there is no such place.
    """
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    try:
        return boto3.Session().client(
            service,
            region_name=region,
            endpoint_url=endpoint_url,
            config=Config(
                connect_timeout=CONNECT_SECONDS,
                read_timeout=READ_SECONDS,
                retries={"total_max_attempts": 3, "mode": "standard"},
                s3={"addressing_style": "path"} if endpoint_url else None,
            ),
        )
    except (BotoCoreError, ValueError) as error:
        place = endpoint_url or region
        raise DocumentError(
            f"controller: {service} cannot be used at {place!r}: {error}"
        ) from error


def aws_errors() -> tuple[type[Exception], ...]:
    """What a call of a client raises when the service or the way to it fails."""
    from botocore.exceptions import BotoCoreError, ClientError

    return (BotoCoreError, ClientError)

"""A function that a bucket's observations start, in a cloud on this machine."""

from __future__ import annotations

import io
import json
import uuid
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.sidecar.signed_cloud import SignedCloud

_EVENTS = ["s3:ObjectCreated:*"]


class StartedFunction:
    """Starts a function of a name of its own: what another test counted is not of this one.

    Attributes:
        client: of functions.
    """

    def __init__(self, cloud: SignedCloud) -> None:
        self.name = f"solver-{uuid.uuid4().hex}"
        self._cloud, self.client = cloud, cloud.client("lambda")
        role = {"RoleName": self.name, "AssumeRolePolicyDocument": json.dumps({})}
        code = io.BytesIO()
        with zipfile.ZipFile(code, "w") as archive:
            archive.writestr("handler.py", "")
        made = self.client.create_function(
            FunctionName=self.name,
            Runtime="python3.11",
            Handler="handler.handle",
            Role=cloud.client("iam").create_role(**role)["Role"]["Arn"],
            Code={"ZipFile": code.getvalue()},
        )
        self.arn: str = made["FunctionArn"]

    def started_by(self, prefix: str, arn: str | None = None) -> None:
        """Documents below the prefix start it, or another one."""
        told = {"LambdaFunctionArn": arn or self.arn, "Events": _EVENTS, **_below(prefix)}
        self.notify(LambdaFunctionConfigurations=[told])

    def started_by_topic(self, topic_arn: str, prefix: str) -> None:
        """Documents below the prefix are told to a topic, and that starts it."""
        self._cloud.sns.subscribe(TopicArn=topic_arn, Protocol="lambda", Endpoint=self.arn)
        told = {"TopicArn": topic_arn, "Events": _EVENTS, **_below(prefix)}
        self.notify(TopicConfigurations=[told])

    def notify(self, **told: Any) -> None:
        """What S3 does with new observations."""
        self._cloud.s3.put_bucket_notification_configuration(
            Bucket=self._cloud.observations_bucket,
            NotificationConfiguration=told,
            SkipDestinationValidation=True,
        )

    def count(self, metric: str, value: float, minutes_ago: float = 0.0) -> None:
        """Count in its metrics, as AWS does."""
        data = {
            "MetricName": metric,
            "Dimensions": [{"Name": "FunctionName", "Value": self.name}],
            "Value": value,
            "Timestamp": datetime.now(UTC) - timedelta(minutes=minutes_ago),
        }
        self._cloud.client("cloudwatch").put_metric_data(Namespace="AWS/Lambda", MetricData=[data])


@contextmanager
def started_function(cloud: SignedCloud) -> Iterator[StartedFunction]:
    """Started by all observations, until the end."""
    function = StartedFunction(cloud)
    function.started_by("observations/")
    try:
        yield function
    finally:
        function.notify()


def _below(prefix: str) -> dict[str, Any]:
    return {"Filter": {"Key": {"FilterRules": [{"Name": "prefix", "Value": prefix}]}}}

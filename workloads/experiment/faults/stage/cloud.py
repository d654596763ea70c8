"""S3, SNS and SQS on this machine, which refuse, are slow, or never answer when they are told to.

Needs moto, of the extra ``dev``; import this only in rows that say so where it is missing.

The function of the cloud, played: it answers observations with the plan that is ordered.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Collection
from pathlib import Path
from typing import Any, Self

import boto3
from moto import server as moto_server
from werkzeug.serving import WSGIRequestHandler, make_server

from solver_lambda.documents.keys import parse_observation_key, plan_key
from solver_lambda.documents.observation import Observation
from workloads.experiment.faults.stage.launcher import plan_of, plan_words
from workloads.experiment.faults.stage.orders import PLAN, STEPS
from workloads.experiment.signed_messages import (
    Message,
    new_key,
    notification,
    self_signed,
    signed,
    stored,
)

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
}
CERTIFICATE_PATH = "/SimpleNotificationService-00000001.pem"
SERVICES = ("s3", "sns", "sqs")
LONGEST_HOLD_SECONDS = 300.0


class _Silent(WSGIRequestHandler):
    def log_request(self, *_: Any, **__: Any) -> None:
        pass


class LocalCloud:
    """Plays the sidecar's cloud; a context manager.

    Attributes:
        trouble: what befalls each request of the sidecar: nothing, ``refuses`` (503), ``slow``
            (two seconds later), ``hole`` (no answer until ``heal``).
        asked: requests of the sidecar since the trouble began.
    """

    def __init__(self) -> None:
        self.trouble = ""
        self.asked = 0
        self._services: Collection[str] = SERVICES
        self._healed = threading.Event()
        self._key = new_key()
        self._certificate = self_signed(self._key)
        self._moto = moto_server.DomainDispatcherApplication(  # type: ignore[attr-defined]
            moto_server.create_backend_app  # type: ignore[attr-defined]
        )
        self._server = make_server(
            "127.0.0.1", 0, self._answer, threaded=True, request_handler=_Silent
        )
        # The sidecar's requests come by another address than ours, which nothing befalls.
        self.url = f"http://localhost:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        # What others have left in it, who had it before.
        address = f"http://127.0.0.1:{self._server.server_port}/moto-api/reset"
        urllib.request.urlopen(urllib.request.Request(address, method="POST")).close()
        self.s3, self.sqs, sns = (self._client(name) for name in ("s3", "sqs", "sns"))
        for bucket in ("observations", "plans"):
            self.s3.create_bucket(Bucket=bucket)
        self.topic_arn = str(sns.create_topic(Name="plans")["TopicArn"])
        self.queue_url = str(self.sqs.create_queue(QueueName="faults")["QueueUrl"])

    def _client(self, service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=f"http://127.0.0.1:{self._server.server_port}",
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",  # noqa: S106 as every emulator has it
        )

    def begin(self, trouble: str, services: Collection[str] = SERVICES) -> None:
        """Begin a trouble that befalls every request to these from now on."""
        self.asked, self.trouble, self._services = 0, trouble, services
        self._healed.clear()

    def heal(self) -> None:
        """End the trouble, also for those who wait."""
        self.trouble = ""
        self._healed.set()

    def controller(self, kind: str, plan_deadline: str = "2s") -> str:
        """Return the ``[controller]`` of a node that uses it."""
        return (
            f'[controller]\nkind = "{kind}"\nobservations_bucket = "observations"\n'
            f'plans_bucket = "plans"\ntopic_arn = "{self.topic_arn}"\nregion = "us-east-1"\n'
            f'endpoint_url = "{self.url}"\ndelivery = "sqs"\n'
            f'queue_url = "{self.queue_url.replace("127.0.0.1", "localhost")}"\n'
            f'plan_deadline = "{plan_deadline}"\n'
        )

    def message(self, key: str, **fields: str) -> Message:
        """SNS' message that a plan was stored, signed, with these fields before that."""
        text = stored("plans", key)
        message = notification(self.topic_arn, text, CERTIFICATE_PATH, **fields)
        return signed(message, self._key)

    def send(self, body: str) -> None:
        """Send a message into the node's queue."""
        self.sqs.send_message(QueueUrl=self.queue_url, MessageBody=body)

    def waiting(self) -> int:
        """Messages that the sidecar has not dealt with."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.sqs.get_queue_attributes(QueueUrl=self.queue_url, AttributeNames=names)
        return sum(int(number) for number in found["Attributes"].values())

    def _answer(self, environ: Any, start_response: Any) -> Any:
        is_sidecar = environ.get("HTTP_HOST", "").startswith("localhost")
        if is_sidecar and self.trouble and _service(environ["PATH_INFO"]) in self._services:
            self.asked += 1
            if self.trouble == "refuses":
                start_response("503 Slow Down", [("Content-Length", "0")])
                return [b""]
            self._healed.wait(2.0 if self.trouble == "slow" else LONGEST_HOLD_SECONDS)
        if environ["PATH_INFO"] == CERTIFICATE_PATH:
            start_response("200 OK", [("Content-Length", str(len(self._certificate)))])
            return [self._certificate]
        return self._moto(environ, start_response)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.heal()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _service(path: str) -> str:
    if path.startswith(("/observations", "/plans")):
        return "s3"
    return "sns" if path == CERTIFICATE_PATH else "sqs"


LOOK_SECONDS = 0.1


class PlayedFunction:
    """Looks into the bucket in a thread of its own; a context manager.

    Attributes:
        way: how it answers: ``well``, ``fails`` (not at all), ``late`` (after 3 s), ``twice``
            (and tells of it twice).
        told: the keys of plans that it has told of.
        folder: of the stage's orders; it begins when it is set.
    """

    def __init__(self, cloud: LocalCloud) -> None:
        self.way = "well"
        self.told: list[str] = []
        self.failed = 0
        self.folder: Path | None = None
        self._cloud = cloud
        self._seen: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def begin(self, folder: Path) -> None:
        """Begin with the orders of this folder."""
        self.folder = folder
        self._thread.start()

    def _work(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            listed = self._cloud.s3.list_objects_v2(Bucket="observations", Prefix="observations/")
            for key in sorted(item["Key"] for item in listed.get("Contents", [])):
                if key not in self._seen:
                    self._seen.add(key)
                    # Functions run side by side.
                    threading.Thread(target=self._answer, args=(key,), daemon=True).start()

    def _answer(self, key: str) -> None:
        if self.way == "fails":
            self.failed += 1
            return
        if self.way == "late":
            self._stop.wait(3.0)
        body = self._cloud.s3.get_object(Bucket="observations", Key=key)["Body"].read()
        observation = Observation.loads(body, key)
        assert self.folder is not None
        if not (self.folder / PLAN).exists():
            return  # the stage is gone
        order = json.loads((self.folder / PLAN).read_text())
        plan = plan_of(observation, order["shares"], time.time())
        with (self.folder / STEPS).open("a") as steps:
            steps.write(
                f"{time.monotonic():.6f} {plan_words(order['number'], observation, plan)}\n"
            )
        answer = plan_key(*parse_observation_key(key))
        self._cloud.s3.put_object(Bucket="plans", Key=answer, Body=plan.dumps())
        message = json.dumps(self._cloud.message(answer))
        for _ in range(2 if self.way == "twice" else 1):
            self._cloud.send(message)
        self.told.append(answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

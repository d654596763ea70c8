"""Makes the controller that a configuration asks for."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from sidecar.base.metrics import Metrics
from sidecar.base.private_files import make_own_folder
from sidecar.config.addresses import shown_url
from sidecar.config.controller_config import CloudConfig, ControllerConfig
from sidecar.config.node import SidecarConfig
from sidecar.controllers.controller import Controller, Delivery, Failed
from sidecar.controllers.embedded import EmbeddedController
from sidecar.controllers.kept_folder import KeptFolder
from sidecar.controllers.remote_with_fallback import RemoteWithFallback
from sidecar.controllers.solver_service import SolverService, SolverServiceController
from sidecar.plans.plan_check import TakePlan
from sidecar.storage.configured_stores import make_bucket
from solver_lambda.documents.reader import DocumentError

if TYPE_CHECKING:  # only who gets plans from elsewhere needs what checks signatures
    from sidecar.delivery.plan_inbox import PlanInbox
from sidecar.base.worker import Worker
from sidecar.controllers.controller import log_failure
from sidecar.controllers.planner_outage import PlannerOutage
from sidecar.storage.store import Store, StoreError
from solver_lambda.documents.keys import observation_key, plan_key
from solver_lambda.documents.observation import Observation

log = logging.getLogger(__name__)


class CloudController:
    """Puts observations into S3; plans come by notification.

    ``failed`` is told of an observation that could not be put, and why.
    """

    silence: PlannerOutage | None = None  # ``failed`` is told of each, and counts them
    problem: str | None = None

    def __init__(
        self,
        observations: Store,
        delivery: Delivery,
        metrics: Metrics,
        failed: Failed,
    ) -> None:
        self.delivery: Delivery = delivery
        self._observations = observations
        self._metrics = metrics
        self._failed = failed
        self._worker = Worker("observations")

    def start(self) -> None:
        self.delivery.start()

    def ask(self, observation: Observation) -> None:
        self.delivery.expect(plan_key(observation.node, observation.cycle))
        self._worker.submit(lambda: self._put(observation)).add_done_callback(log_failure)

    def overdue(self, observation: Observation) -> None:
        pass

    def close(self) -> None:
        self.delivery.close()
        self._worker.close()

    def _put(self, observation: Observation) -> None:
        key = observation_key(observation.node, observation.cycle)
        try:
            self._observations.put(key, observation.dumps())
        except StoreError as error:
            self._metrics.observations_failed.inc()
            log.warning("observation of cycle %d not stored: %s", observation.cycle, error)
            self._failed(observation, str(error))


# The share of the plan's deadline that is left when a long poll or a service has had its time.
SPARE_SHARE = 0.2


def make_controller(
    config: SidecarConfig,
    take_plan: TakePlan,
    metrics: Metrics,
    instead_of: Controller | None = None,
) -> Controller:
    """Return the controller of ``config.controller.kind``, to be started.

    ``instead_of`` is the one whose place it will take; that goes on until it is closed.

    Raises:
        DocumentError: there is no such cloud, the address to listen on cannot be bound, or the
            folder of documents is not the sidecar's own.
    """
    chosen = config.controller
    kind, cloud, service = chosen.kind, chosen.cloud, chosen.service
    documents = _documents(chosen, metrics)
    embedded = EmbeddedController(take_plan, metrics, documents)
    deadline_seconds = chosen.plan_deadline_seconds
    common = (take_plan, embedded, kind == "auto", deadline_seconds, metrics)
    if kind != "embedded" and service is not None:
        log.info("controller %s: observations go to %s", kind, shown_url(service.url))
        # Thus it fails early enough for another one to stand in before the plan is overdue.
        asked = SolverService(service, (1 - SPARE_SHARE) * deadline_seconds)

        def make_service(take: TakePlan, failed: Failed) -> SolverServiceController:
            return SolverServiceController(asked, take, metrics, documents, failed)

        return RemoteWithFallback("the service", make_service, *common)
    if kind == "embedded" or cloud is None:
        log.info("controller %s: plans are made here, no cloud is asked", kind)
        return embedded
    log.info("controller %s: observations go to s3://%s", kind, cloud.observations_bucket)

    def make_cloud(take: TakePlan, failed: Failed) -> CloudController:
        observations = make_bucket(
            cloud.observations_bucket,
            cloud.region,
            cloud.endpoint_url,
            deadline_seconds,
            cloud.account_id,
        )
        before = instead_of.delivery if instead_of else None
        delivery = _delivery(config, cloud, take, metrics, before)
        return CloudController(observations, delivery, metrics, failed)

    return RemoteWithFallback("the cloud", make_cloud, *common)


def _documents(chosen: ControllerConfig, metrics: Metrics) -> KeptFolder:
    """Keep documents in a folder of the sidecar's own: the settings there decide as well. Raises
    DocumentError."""
    if chosen.folder is not None:
        try:
            make_own_folder(chosen.folder)
        except OSError as error:
            why = f"{chosen.folder} cannot be made: {error.strerror}" if error.strerror else error
            raise DocumentError(f"controller.folder: {why}") from error
    return KeptFolder(chosen.folder, chosen.kept, metrics)


def queue_client(region: str, endpoint_url: str | None, deadline_seconds: float) -> Any:
    """Return a client for long polls, which are silent until their end."""
    from sidecar.delivery.sqs_delivery import long_poll_seconds
    from sidecar.storage.aws import client

    return client(
        "sqs",
        region,
        endpoint_url,
        limit_seconds=deadline_seconds,
        answer_seconds=long_poll_seconds(deadline_seconds) + SPARE_SHARE * deadline_seconds,
    )


def _delivery(
    config: SidecarConfig,
    cloud: CloudConfig,
    take_plan: TakePlan,
    metrics: Metrics,
    before: Delivery | None,
) -> Delivery:
    from sidecar.delivery.http_delivery import HttpDelivery
    from sidecar.delivery.sqs_delivery import SqsDelivery
    from sidecar.storage.aws import aws_errors

    deadline = config.controller.plan_deadline_seconds
    inbox = _inbox(config, cloud, take_plan, metrics)
    if cloud.queue_url is not None:
        sqs = queue_client(cloud.region, cloud.endpoint_url, deadline)
        return SqsDelivery(sqs, cloud.queue_url, inbox, metrics, aws_errors(), deadline)
    assert cloud.listen is not None
    try:
        heir_of = before if isinstance(before, HttpDelivery) else None
        return HttpDelivery(cloud.listen, inbox, metrics, heir_of)
    except OSError as error:
        raise DocumentError(f"controller.listen: {error.strerror}") from error


def _inbox(
    config: SidecarConfig, cloud: CloudConfig, take_plan: TakePlan, metrics: Metrics
) -> PlanInbox:
    from sidecar.delivery.message_signature import SignatureCheck
    from sidecar.delivery.notification import NotificationCheck
    from sidecar.delivery.plan_inbox import PlanInbox, confirmer
    from sidecar.storage.aws import aws_errors, client

    deadline = config.controller.plan_deadline_seconds
    check = NotificationCheck(
        topic_arn=cloud.topic_arn,
        plans_bucket=cloud.plans_bucket,
        node=config.node,
        signature=SignatureCheck(cloud.topic_arn, cloud.emulator_url),
        maximum_age_seconds=config.controller.maximum_plan_age_seconds,
        now=time.time,
    )
    sns = client("sns", cloud.region, cloud.endpoint_url, limit_seconds=deadline)
    return PlanInbox(
        check,
        make_bucket(
            cloud.plans_bucket, cloud.region, cloud.endpoint_url, deadline, cloud.account_id
        ),
        take_plan,
        confirmer(sns, cloud.topic_arn, aws_errors()),
        metrics,
    )

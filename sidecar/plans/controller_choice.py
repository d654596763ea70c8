"""The controller and the store of settings that a configuration asks for."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from sidecar.config.controller import CloudConfig, ControllerConfig
from sidecar.config.node import SidecarConfig
from sidecar.metrics import Metrics
from sidecar.plans.controller import (
    AutoController,
    CloudController,
    Controller,
    Delivery,
    EmbeddedController,
)
from sidecar.plans.delivery_sqs import long_poll_seconds
from sidecar.plans.plan_inbox import PlanInbox, TakePlan, confirmer
from sidecar.storage.aws import USUAL_SECONDS
from sidecar.storage.store import FolderStore, Store
from solver_lambda.documents.observation import Observation
from solver_lambda.documents.reader import DocumentError

log = logging.getLogger(__name__)

# Of the plan's deadline, for the answer to a long poll to arrive.
SPARE_SHARE = 0.2


def make_controller(
    config: SidecarConfig,
    take_plan: TakePlan,
    metrics: Metrics,
    instead_of: Controller | None = None,
) -> Controller:
    """The controller of ``config.controller.kind``, to be started.

    ``instead_of`` is the one whose place it will take; that goes on until it is closed.

    Raises:
        DocumentError: there is no such cloud, or the address to listen on cannot be bound.
    """
    kind, cloud = config.controller.kind, config.controller.cloud
    folder = config.controller.folder
    embedded = EmbeddedController(take_plan, metrics, FolderStore(folder) if folder else None)
    if kind == "embedded" or cloud is None:
        log.info("controller %s: plans are made here, no cloud is asked", kind)
        return embedded
    log.info("controller %s: observations go to s3://%s", kind, cloud.observations_bucket)

    def make_cloud(failed: Callable[[Observation], None]) -> CloudController:
        observations = make_bucket(
            cloud.observations_bucket,
            cloud.region,
            cloud.endpoint_url,
            config.controller.plan_deadline_seconds,
        )
        before = instead_of.delivery if instead_of is not None else None
        delivery = _delivery(config, cloud, take_plan, metrics, before)
        return CloudController(observations, delivery, metrics, failed)

    if kind == "auto":
        return AutoController(make_cloud, embedded, metrics)
    return make_cloud(lambda _: None)


def make_settings_store(controller: ControllerConfig) -> Store | None:
    """Where teams' settings lie: beside the observations; ``None`` without a store.

    An embedded controller without a folder goes on reading them from the bucket, if one is named.
    """
    folder, cloud = controller.folder, controller.cloud
    if cloud is None or (controller.kind == "embedded" and folder):
        return FolderStore(folder) if folder else None
    return make_bucket(
        cloud.observations_bucket,
        cloud.region,
        cloud.endpoint_url,
        controller.plan_deadline_seconds,
    )


def make_bucket(
    name: str, region: str, endpoint_url: str | None, limit_seconds: float = USUAL_SECONDS
) -> Store:
    """A bucket as a store; a call fails within ``limit_seconds`` if nobody answers."""
    # Imported only where a cloud is asked for: embedded works without boto3.
    from sidecar.storage.store_s3 import S3Store

    return S3Store(name, region, endpoint_url, limit_seconds)


def queue_client(region: str, endpoint_url: str | None, deadline_seconds: float) -> Any:
    """A client for long polls, which are silent until their end."""
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
    from sidecar.plans.delivery_http import HttpDelivery
    from sidecar.plans.delivery_sqs import SqsDelivery
    from sidecar.plans.notification import NotificationCheck
    from sidecar.plans.signature import SignatureCheck
    from sidecar.storage.aws import aws_errors, client

    deadline = config.controller.plan_deadline_seconds
    check = NotificationCheck(
        topic_arn=cloud.topic_arn,
        plans_bucket=cloud.plans_bucket,
        node=config.node,
        signature=SignatureCheck(cloud.endpoint_url),
        maximum_age_seconds=config.controller.maximum_plan_age_seconds,
        now=time.time,
    )
    errors = aws_errors()
    inbox = PlanInbox(
        check,
        make_bucket(cloud.plans_bucket, cloud.region, cloud.endpoint_url, deadline),
        take_plan,
        confirmer(
            client("sns", cloud.region, cloud.endpoint_url, limit_seconds=deadline),
            cloud.topic_arn,
            errors,
        ),
        metrics,
    )
    if cloud.queue_url is not None:
        sqs = queue_client(cloud.region, cloud.endpoint_url, deadline)
        return SqsDelivery(
            sqs,
            cloud.queue_url,
            inbox,
            metrics,
            errors,
            deadline,
        )
    assert cloud.listen is not None
    try:
        heir_of = before if isinstance(before, HttpDelivery) else None
        return HttpDelivery(cloud.listen, inbox, metrics, heir_of)
    except OSError as error:
        host, port = cloud.listen
        raise DocumentError(
            f"controller.listen: {host}:{port} cannot be bound: {error.strerror}"
        ) from error

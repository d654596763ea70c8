"""Makes the stores that a configuration asks for."""

from __future__ import annotations

from sidecar.config.controller_config import ControllerConfig
from sidecar.storage.aws import USUAL_SECONDS
from sidecar.storage.emulator_listeners import believe_listeners
from sidecar.storage.store import BucketStore, FolderStore


def make_settings_store(
    controller: ControllerConfig, *, stays: bool = False
) -> FolderStore | BucketStore | None:
    """Return where teams' settings lie: beside the observations; ``None`` without a store.

    An embedded controller without a folder goes on reading them from the bucket, if one is named.
    ``stays``: this process is a sidecar, which believes who has an emulator's port now.
    """
    folder, cloud = controller.folder, controller.cloud
    if cloud is None or (controller.kind == "embedded" and folder):
        return FolderStore(folder) if folder else None
    if stays and cloud.endpoint_url:
        believe_listeners(cloud.endpoint_url)
    return make_bucket(
        cloud.observations_bucket,
        cloud.region,
        cloud.endpoint_url,
        controller.plan_deadline_seconds,
        cloud.account_id,
    )


def make_bucket(
    name: str,
    region: str,
    endpoint_url: str | None,
    limit_seconds: float = USUAL_SECONDS,
    owner: str | None = None,
) -> BucketStore:
    """Return a bucket as a store. A call fails within ``limit_seconds`` if nobody answers, and at
    once if the bucket is not of the account ``owner``."""
    # Imported only where a cloud is asked for: embedded works without boto3.
    from sidecar.storage.store_s3 import S3Store

    return S3Store(name, region, endpoint_url, limit_seconds, owner)

"""The controller that needs no cloud: the sidecar plans itself."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import NamedTuple

from sidecar.base.metrics import Metrics
from sidecar.base.worker import Worker
from sidecar.config.controller_config import KeptDocuments
from sidecar.controllers.controller import Delivery, log_failure
from sidecar.delivery.plan_inbox import TakePlan
from sidecar.storage.document_pruning import prune
from sidecar.storage.store import FolderStore, StoreError
from solver_lambda.documents.keys import observation_key, plan_key
from solver_lambda.documents.observation import Observation
from solver_lambda.planning.planner import make_plan

log = logging.getLogger(__name__)


class KeptFolder(NamedTuple):
    """Where documents are kept, and which of them."""

    folder: Path
    kept: KeptDocuments


class EmbeddedController:
    """The solver of the function, in the sidecar's process: no cloud, no account, no boto3.

    With a folder, observation and plan are kept there under the same keys as in S3, until they are
    too old or too many.
    """

    delivery: Delivery | None = None

    def __init__(self, take_plan: TakePlan, metrics: Metrics, documents: KeptFolder | None) -> None:
        self._take_plan = take_plan
        self._metrics = metrics
        self._documents = documents
        self._store = FolderStore(documents.folder) if documents else None
        self._worker = Worker("solver")
        self._closed = False

    def start(self) -> None:
        pass

    def ask(self, observation: Observation) -> None:
        self._worker.submit(lambda: self._plan(observation)).add_done_callback(log_failure)

    def overdue(self, observation: Observation) -> None:
        pass

    def close(self) -> None:
        self._closed = True
        self._worker.close()

    def _plan(self, observation: Observation) -> None:
        # Through the document, so that the steps and checks are the same as in the cloud.
        self._keep(observation_key(observation.node, observation.cycle), observation.dumps())
        plan = make_plan(observation, now_seconds=time.time())
        document = plan.dumps()
        key = plan_key(observation.node, observation.cycle)
        self._keep(key, document)
        self._metrics.plans_embedded.inc()
        self._prune(observation.node)
        if not self._closed:
            self._take_plan(document, key)

    def _keep(self, key: str, document: bytes) -> None:
        if self._store is None:
            return
        try:
            self._store.put(key, document)
        except StoreError as error:
            self._metrics.store_errors.inc()
            log.warning("document not kept: %s", error)

    def _prune(self, node: str) -> None:
        if self._documents is None:
            return
        try:
            prune(self._documents.folder, node, self._documents.kept)
        except OSError as error:
            self._metrics.store_errors.inc()
            log.warning("old documents cannot be removed: %s", error)

"""Whether the service that makes the plans is there and believes the sidecar."""

from __future__ import annotations

from collections.abc import Iterator

from sidecar.config.addresses import shown_url
from sidecar.config.controller_config import ControllerConfig
from sidecar.controllers.solver_service import ServiceError, SolverService
from sidecar.preflight.finding import Finding

_KEY = "controller.url"


def check_service(controller: ControllerConfig) -> Iterator[Finding]:
    """Asks it once, if there is one."""
    config = controller.service
    if config is None or controller.kind == "embedded":
        return
    try:
        SolverService(config, controller.plan_deadline_seconds).look()
    except ServiceError as error:
        remedy = "start it (python -m solver_lambda serve), or mend the address"
        if error.status in (401, 403):
            verb = "mend" if config.token is not None else "set"
            remedy = f"{verb} controller.token_file or token_env: the service's SPREDS_TOKEN"
            if error.status == 403:
                verb = "mend" if config.key is not None else "set"
                remedy = f"{verb} controller.key_file or key_env: the service's SPREDS_KEY"
        yield Finding("problem", _KEY, str(error), remedy)
        return
    yield Finding("ok", _KEY, f"{shown_url(config.url)} answers")

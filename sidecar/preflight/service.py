"""Whether the service that makes the plans is there and believes the sidecar."""

from __future__ import annotations

from collections.abc import Iterator

from sidecar.config.controller_config import ControllerConfig
from sidecar.controllers.solver_service import ServiceError, SolverService
from sidecar.preflight.finding import Finding

_KEY = "controller.url"


def check_service(controller: ControllerConfig) -> Iterator[Finding]:
    """Asks it once, if there is one, and finds a token that would go unencrypted."""
    config = controller.service
    if config is None or controller.kind == "embedded":
        return
    try:
        SolverService(config, controller.plan_deadline_seconds).look()
    except ServiceError as error:
        remedy = "start it (python -m solver_lambda serve), or mend the address or the token"
        yield Finding("problem", _KEY, str(error), remedy)
        return
    yield Finding("ok", _KEY, f"{config.url} answers")
    if config.url.startswith("http:") and config.token is not None:
        what = f"{config.url} is not encrypted: whoever sees the traffic has the token"
        yield Finding("advice", _KEY, what, "take https where others see the traffic")

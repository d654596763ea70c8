"""Checks what a team may not set, whatever the limits say; the command and the sidecar ask."""

from __future__ import annotations

from sidecar.config.node import ServerConfig
from sidecar.settings.team_settings import TeamSettings
from solver_lambda.documents.reader import DocumentError
from solver_lambda.documents.units import format_size


def check_minimum(server: ServerConfig, settings: TeamSettings, key: str) -> None:
    """Check a team's minimum. Raises DocumentError if it is more than the operator allows."""
    least, most = settings.minimum_bytes, server.maximum_bytes
    if least is not None and most is not None and least > most:
        raise DocumentError(
            f"{key}: minimum_bytes {least} is more than the operator's maximum, {format_size(most)}"
        )

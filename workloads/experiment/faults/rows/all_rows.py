"""All rows of the table."""

from __future__ import annotations

from workloads.experiment.faults.rows import (
    cloud_rows,
    network_rows,
    plan_rows,
    role_rows,
    server_rows,
    sidecar_rows,
    state_rows,
)

ALL_ROWS = [
    *sidecar_rows.ROWS,
    *server_rows.ROWS,
    *role_rows.ROWS,
    *network_rows.ROWS,
    *state_rows.ROWS,
    *plan_rows.ROWS,
    *cloud_rows.ROWS,
]

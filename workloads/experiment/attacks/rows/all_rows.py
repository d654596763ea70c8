"""Every attack of the table."""

from __future__ import annotations

from workloads.experiment.attacks.rows import (
    byte_rows,
    claim_rows,
    creep_rows,
    file_rows,
    flood_rows,
    held_rows,
    listener_rows,
    name_rows,
    nonsense_rows,
    notification_rows,
    order_rows,
    plan_rows,
    port_rows,
    sample_crowd_rows,
    sample_rows,
)
from workloads.experiment.attacks.stage.attack import Attack

ALL_ATTACKS: list[Attack] = [
    *order_rows.ROWS,
    *flood_rows.ROWS,
    *listener_rows.ROWS,
    *port_rows.ROWS,
    *name_rows.ROWS,
    *file_rows.ROWS,
    *sample_rows.ROWS,
    *sample_crowd_rows.ROWS,
    *plan_rows.ROWS,
    *creep_rows.ROWS,
    *notification_rows.ROWS,
    *claim_rows.ROWS,
    *byte_rows.ROWS,
    *nonsense_rows.ROWS,
    *held_rows.ROWS,
]

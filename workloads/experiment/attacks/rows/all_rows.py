"""Every attack of the table."""

from __future__ import annotations

from workloads.experiment.attacks.attack import Attack
from workloads.experiment.attacks.rows import flood_rows, listener_rows, order_rows, port_rows

ALL_ATTACKS: list[Attack] = [
    *order_rows.ROWS,
    *flood_rows.ROWS,
    *listener_rows.ROWS,
    *port_rows.ROWS,
]

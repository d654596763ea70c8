"""Every attack of the table."""

from __future__ import annotations

from workloads.experiment.attacks.attack import Attack
from workloads.experiment.attacks.rows import listener_rows, order_rows

ALL_ATTACKS: list[Attack] = [*order_rows.ROWS, *listener_rows.ROWS]

"""Which controller makes the plans of the cells."""

from __future__ import annotations

from infra.costs.measured import read_measured
from infra.costs.model import cheapest, compare
from infra.costs.price_list import read_prices
from infra.costs.workload import DAY_SECONDS, Workload
from infra.stack_file.configuration import Configuration

IN_THE_CLOUD = ("lambda", "fargate")


def chosen_controller(configuration: Configuration) -> str:
    """The configured controller; for ``auto`` the cheapest one in the cloud that is fast enough.

    The nodes' own solver is not among the candidates: it costs nothing and would always be
    chosen, and an operator who wants it needs no stack. Fast enough means before the
    next observation.

    Raises:
        ValueError: neither is fast enough.
    """
    if configuration.controller != "auto":
        return configuration.controller
    workload = Workload(
        cycles_per_day=configuration.cycles_per_day,
        servers=configuration.servers_per_node,
        nodes=len(configuration.nodes),
        nodes_per_cell=configuration.nodes_per_cell,
        topics=configuration.topics,
        retention_days=configuration.retention_days,
        log_retention_days=configuration.log_retention_days,
    )
    bills = compare(workload, read_measured(), read_prices(), controllers=IN_THE_CLOUD)
    chosen = cheapest(bills, DAY_SECONDS / configuration.cycles_per_day, free_tier=False)
    if chosen is None:
        raise ValueError(
            f"no controller makes a plan before the next of {configuration.cycles_per_day} "
            'observations a day: use controller = "embedded"'
        )
    return chosen.controller

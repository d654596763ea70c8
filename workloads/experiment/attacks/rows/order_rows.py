"""Orders without the token."""

from __future__ import annotations

from workloads.experiment.attacks.attack import Attack, must
from workloads.experiment.attacks.target import Target

ODD_TARGETS = (
    "/api/orders#",
    "/api/orders#x",
    "/api/orders?#",
    "http://any.host/api/orders",
    "https:/api/orders",
    "//any.host/api/orders",
    "\x0b/api/orders",
    "/api/orders\t",
    "/api//orders",
    "/api/%6frders",
    "*",
)


def _odd_targets() -> None:
    with Target(token=False) as target:
        for odd in ODD_TARGETS:
            answer = target.order(odd)
            status = answer.split(b" ", 2)[1:2]
            must(status and status[0] in (b"400", b"403", b"404"), f"{odd!r}: {answer[:80]!r}")
        must(target.status()["pause"] is None, "a pause without a token")


ROWS = [
    Attack(
        "orders: odd request targets",
        "POSTs orders to targets that a guard and a router may read differently, where no token is "
        "configured: each is refused, and nothing changes",
        _odd_targets,
    ),
]

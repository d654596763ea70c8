"""Describes what people tell a running sidecar to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from solver_lambda.documents.reader import Fields

ORDERS = ("apply", "apply_from_now_on", "recommend", "pause", "resume", "rollback")
ROLLBACKS = ("last", "installation")
MOST_NAME, MOST_WHY = 200, 500
# Whoever means longer means until ``resume``.
LONGEST_PAUSE_SECONDS = 366 * 86_400.0
# Ends what is said of an order that was carried out, and that nothing on the disk tells.
NOT_ON_FILE = "(but it cannot be written to the state file, so a restart forgets it)"


class OrderRefusedError(Exception):
    """It was not done, and nothing has changed; one sentence."""


@dataclass(frozen=True)
class Order:
    """Says what somebody wants done.

    Attributes:
        what: ``apply``: carry out the last recommended plan, once; ``apply_from_now_on``: and each
            that follows; ``recommend``: no more plans, sizes stay; ``pause``: set nothing at all;
            ``resume``: end a pause, waits after a plan that failed, and holds of servers that
            somebody resized by hand; ``rollback``: back to former sizes, and to ``recommend``.
        by: who gives it.
        for_seconds: how long a pause lasts; ``None``: until ``resume``.
        server: whose hold and wait ``resume`` ends; ``None``: all.
        plan: the cycle of the plan that ``apply`` means, which its giver has read; ``None``: the
            last one, whichever that is.
        to: the sizes of a rollback: ``last``: before the last plan that was carried out;
            ``installation``: as found before SPREDS set any.
        node: whose sidecar is to do it; ``None``: whoever is asked.
        listener: the user, by name or number, who alone is believed to listen for ``server`` from
            now on; then nothing else is done.
        uid: of the user who gives it, as the kernel says; ``None``: that is not known.
    """

    what: str
    by: str
    why: str = ""
    for_seconds: float | None = None
    server: str | None = None
    plan: int | None = None
    to: str = "last"
    node: str | None = None
    listener: str | None = None
    uid: int | None = None

    @classmethod
    def from_json(cls, fields: Fields, known_by: str = "", uid: int | None = None) -> Order:
        """Read an order. ``known_by``: who gives it, as a guard says: then the name in ``fields``
        may be missing, and stands before it.

        Raises:
            DocumentError: also for what does not belong to this order.
        """
        what = fields.text("what", choices=ORDERS)
        for key, (owners, _) in _FIELDS_OF_ORDERS.items():
            if fields.has(key) and what not in owners:
                belongs = " or ".join(map(repr, owners))
                raise fields.refuse(key, f"belongs to the order {belongs}, not to {what!r}")
        by = known_by
        if not known_by or fields.has("by"):
            name = fields.text("by", most=MOST_NAME)
            by = f"{name}, as {known_by}" if known_by else name
        order = cls(
            what=what,
            by=by,
            why=fields.text("why", most=MOST_WHY) if fields.value("why", "") else "",
            node=fields.text("node", most=MOST_NAME) if fields.has("node") else None,
            uid=uid,
            **{
                key: read(fields) for key, (_, read) in _FIELDS_OF_ORDERS.items() if fields.has(key)
            },
        )
        fields.done()
        return order

    def to_json(self) -> dict[str, Any]:
        """Write it without the fields of other orders."""
        others = {key for key, (owners, _) in _FIELDS_OF_ORDERS.items() if self.what not in owners}
        others |= set() if self.node else {"node"}
        others |= {"plan"} if self.plan is None else set()
        others |= {"uid"} if self.listener else {"uid", "listener"}
        return {key: value for key, value in self.__dict__.items() if key not in others}


def _length(fields: Fields) -> float:
    seconds = fields.number("for_seconds", above=0)
    if seconds > LONGEST_PAUSE_SECONDS:
        raise fields.refuse(
            "for_seconds",
            f"must be a year ({LONGEST_PAUSE_SECONDS:.0f} s) at most, not "
            f"{fields.given('for_seconds')}: without it a pause lasts until resume",
        )
    return seconds


# Fields that not every order has: whose, and how it is read.
_FIELDS_OF_ORDERS: dict[str, tuple[tuple[str, ...], Callable[[Fields], Any]]] = {
    "for_seconds": (("pause",), _length),
    "server": (("resume",), lambda fields: fields.text("server")),
    "listener": (("resume",), lambda fields: fields.text("listener", most=MOST_NAME)),
    "plan": (("apply", "apply_from_now_on"), lambda fields: fields.integer("plan", low=0)),
    "to": (("rollback",), lambda fields: fields.text("to", choices=ROLLBACKS)),
}

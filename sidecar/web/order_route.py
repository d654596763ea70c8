"""Says what an order at the socket or the page's port needs to be taken: a proof of who gives it,
JSON of a bounded size, and patience after too many."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from sidecar.base.rate_limit import RateLimit
from sidecar.control.order import Order, OrderRefusedError
from sidecar.control.sidecar_view import SidecarView
from solver_lambda.documents.json_text import parse_json
from solver_lambda.documents.reader import DocumentError
from solver_lambda.http.guards import Authorised
from solver_lambda.http.message import Answer, RefusedError, Request, json_answer, malformed
from solver_lambda.http.router import Lane, Route

MOST_BODY_BYTES = 16 * 1024
ORDERS_PATH = "/api/orders"


def order_route(
    watched: SidecarView, guard: Callable[[Request], Authorised], rate: RateLimit
) -> Route[Authorised]:
    """Return the route of orders. A form on somebody else's page can post, but not JSON, and not
    under a name of this machine."""

    def order(request: Request, proof: Authorised) -> Answer:
        return _order(request, proof, watched)

    def charge(proof: Authorised) -> None:
        _charge(proof, rate)

    # Whoever holds many connections has one order carried out at a time.
    lane = Lane(most=4, most_waiting=32, most_of_one=1)
    kind = "application/json"
    return Route("POST", ORDERS_PATH, guard, order, lane, MOST_BODY_BYTES, kind, charge)


def _charge(proof: Authorised, rate: RateLimit) -> None:
    if wait_seconds := rate.wait_seconds(proof.party):
        raise RefusedError(
            HTTPStatus.TOO_MANY_REQUESTS,
            "rate",
            f"too many orders: {rate.burst} may come at once, and one each {rate.seconds:g} s "
            f"after that, so try again in {wait_seconds} s",
            {"Retry-After": str(wait_seconds)},
        )


def _order(request: Request, proof: Authorised, watched: SidecarView) -> Answer:
    try:
        fields = parse_json(request.body, "the order", MOST_BODY_BYTES, keys_once=True)
        order = Order.from_json(fields, known_by=proof.by, uid=proof.uid)
    except DocumentError as error:
        raise malformed(str(error)) from error
    try:
        return json_answer({"done": watched.order(order)})
    except OrderRefusedError as error:
        raise RefusedError(HTTPStatus.CONFLICT, "order", str(error)) from error

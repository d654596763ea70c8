"""All routes of all listeners: what changes something is behind a guard that makes a proof."""

from __future__ import annotations

import inspect
import typing
from pathlib import Path
from typing import Any

import pytest

from sidecar.config.operators import OperatorsConfig
from sidecar.delivery.http_delivery import delivery_router
from sidecar.web.operators_server import OperatorsServer
from solver_lambda.function.http_server import HEALTH_PATHS, solver_router
from solver_lambda.http import guards
from solver_lambda.http.guards import NobodyGuard, PeerGuard, TokenGuard, anybody
from solver_lambda.http.router import Route, Router
from tests.sidecar.example_sidecar import ExampleSidecar

TOKEN = "only-for-tests-0123456789"


def routers() -> dict[str, Router]:
    def operators(token: str | None) -> OperatorsServer:
        return OperatorsServer(OperatorsConfig(token=token), ExampleSidecar())

    inbox: Any = None
    return {
        "socket": operators(None).unix_router,
        "port with a token": operators(TOKEN).tcp_router,
        "port without one": operators(None).tcp_router,
        "solver with a token": solver_router(TOKEN),
        "solver without one": solver_router(""),
        "notifications": delivery_router(inbox),
    }


# What POST needs, and why it needs no more.
GUARDS: dict[str, object] = {
    "socket": PeerGuard,
    "port with a token": TokenGuard,
    "port without one": NobodyGuard,
    "solver with a token": TokenGuard,
    # It changes nothing, and the command wants --without-token, or a loopback address.
    "solver without one": anybody,
    # A message is signed, and the inbox checks that.
    "notifications": anybody,
}
ROUTES = [(door, route) for door, router in routers().items() for route in router.routes]


@pytest.mark.parametrize(
    ("door", "route"), ROUTES, ids=[f"{door} {r.method} {r.path}" for door, r in ROUTES]
)
def test_every_route_has_its_guard(door: str, route: Route[Any]) -> None:
    kind = route.guard if inspect.isfunction(route.guard) else type(route.guard)
    if route.method == "POST":
        assert kind is GUARDS[door]
    else:
        assert route.method == "GET"
        assert kind in (anybody, TokenGuard)
        assert kind is anybody or door == "solver with a token"
    # Health alone is answered at once.
    if route.lane is None:
        assert route.path in ("/livez", "/readyz", *HEALTH_PATHS)
    else:
        assert 0 < route.lane.most < 100


def test_every_listener_is_here() -> None:
    """Whoever makes another server has it looked at here."""
    root = Path(guards.__file__).parents[2]
    makers = [
        path.relative_to(root).as_posix()
        for top in ("sidecar", "solver_lambda")
        for path in sorted((root / top).rglob("*.py"))
        if "HttpServer(" in path.read_text()
        or "http.server" in path.read_text()
        or "socketserver" in path.read_text()
    ]
    assert makers == [
        "sidecar/delivery/http_delivery.py",
        "sidecar/web/operators_server.py",
        "solver_lambda/function/http_server.py",
    ]


def test_an_order_is_carried_out_with_a_proof_alone() -> None:
    from sidecar.web import order_route

    assert typing.get_type_hints(order_route._order)["proof"] is guards.Authorised
    for door in ("socket", "port with a token", "port without one"):
        (order,) = [route for route in routers()[door].routes if route.method == "POST"]
        hints = typing.get_type_hints(order.handle, vars(order_route))
        assert hints["proof"] is guards.Authorised

"""Tells how each of the sidecar's links is protected, and which ones are open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from sidecar.base.private_files import who_else_may_write, whose_alone
from sidecar.config.addresses import is_own
from sidecar.config.controller_config import CloudConfig, ControllerConfig, ServiceConfig
from sidecar.config.node import ServerConfig, SidecarConfig
from sidecar.config.operators import OperatorsConfig

# Links that stay within the machine are called so.
OWN = "this machine only"
_HERE = f"{OWN}, by its loopback address"
_SOCKET = f"{OWN}, by a Unix socket"


@dataclass(frozen=True)
class Link:
    """Describes the way to one place.

    Attributes:
        how: what protects it, or what does not, for people.
        is_open: it is plain text to another machine, or nothing proves who answers.
    """

    name: str
    how: str
    is_open: bool = False


def links(config: SidecarConfig) -> list[Link]:
    """Return all links."""
    return [
        *(_server(server) for server in config.servers),
        _samples(config.sampling.endpoint),
        *_planner(config.controller),
        _page(config.operators),
    ]


def _server(server: ServerConfig) -> Link:
    name = f"server {server.name}"
    if server.url.startswith("unix:"):
        folder = Path(server.url.removeprefix("unix://").partition("?")[0]).parent
        if folder.is_dir() and who_else_may_write(folder) and whose_alone(folder) is None:
            how = (
                f"a Unix socket, whose place in {folder} another local user may take, or may have "
                "made"
            )
            return Link(name, f"{how}: take a folder of the server's own", True)
        return Link(name, _SOCKET)
    if server.tls is not None:
        if server.tls.ssl_check_hostname:
            return Link(name, "TLS")
        return Link(name, "TLS, but its certificate may be of any host (ssl_check_hostname)", True)
    if is_own(server.url):
        return Link(name, _HERE)
    secret = ", the password, too" if server.password is not None else ""
    return Link(name, f"plain text to another machine{secret}: take rediss://", True)


def _samples(endpoint: str) -> Link:
    if endpoint.startswith("ipc://@"):
        how = "this machine only, by an abstract socket: every local user may send samples"
        return Link("samples", how, True)
    if endpoint.startswith("ipc:"):
        return Link("samples", _SOCKET)
    if is_own(endpoint):
        how = "this machine only, but every local user may send samples"
    else:
        how = "plain text from other machines, and whoever reaches it may send samples"
    return Link("samples", f"{how}: take ipc:// and a path", True)


def _planner(controller: ControllerConfig) -> Iterator[Link]:
    if controller.kind != "embedded" and controller.service is not None:
        yield _solver(controller.service)
    elif controller.kind != "embedded" and controller.cloud is not None:
        yield from _cloud(controller.cloud)
    else:
        yield Link("solver", "none: the sidecar plans itself")


def _solver(service: ServiceConfig) -> Link:
    if service.is_open:
        sees = "sees the token, and can make plans" if service.token else "can make plans"
        how = f"plain text to another machine, and whoever is on the way {sees}"
        return Link("solver", f"{how}: take https, or give key_file", True)
    if service.url.startswith("https:"):
        signed = " and the node's key" if service.key is not None else ""
        return Link("solver", f"TLS{signed}")
    if is_own(service.url):
        return Link("solver", _HERE)
    how = "signed with the node's key, but others on the way can read it"
    if service.token is not None:
        return Link("solver", f"{how}, the token, too: take https", True)
    return Link("solver", how)


def _cloud(cloud: CloudConfig) -> Iterator[Link]:
    if cloud.emulator_url is not None:
        how = "an emulator, whose signatures nobody vouches for"
        yield Link("solver", f"{how}: remove endpoint_url for AWS", True)
    elif (cloud.endpoint_url or "").startswith("http:"):
        yield Link("solver", "plain text to AWS: take https in endpoint_url", True)
    else:
        yield Link("solver", "TLS to AWS, whose roles say who may write plans")
    if cloud.listen is not None:
        yield Link("notifications", "plain text, but SNS signs each of them")


def _page(operators: OperatorsConfig) -> Link:
    if operators.listen is None:
        return Link("page", "none")
    host = operators.listen[0]
    if host == "localhost" or ip_address(host).is_loopback:
        return Link("page", _HERE)
    secret = ", and sees the token" if operators.token is not None else ""
    how = f"plain text to other machines: who sees the traffic sees loads and sizes{secret}"
    return Link("page", f"{how}: listen at 127.0.0.1, or put TLS before it", True)

"""Whoever holds an address that anybody can take does not keep the sidecar from running."""

from __future__ import annotations

import errno
import os
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from sidecar.base.metrics import Metrics
from sidecar.delivery import http_delivery
from sidecar.delivery.http_delivery import HttpDelivery
from sidecar.preflight import listeners
from sidecar.preflight.listeners import Listener
from sidecar.samples import endpoint as endpoint_module
from sidecar.samples import late_endpoint
from sidecar.samples.late_endpoint import LateEndpoint
from sidecar.samples.sampler_key import SamplerKey
from workloads.local_node import wait_until


class Inbox:
    """Has no problem of its own."""

    def problem(self) -> None:
        return None


@pytest.mark.parametrize(("is_abstract", "listens"), [(False, True), (True, True), (False, False)])
def test_an_endpoint_of_samples_is_bound_when_it_can_be(
    monkeypatch: pytest.MonkeyPatch, *, is_abstract: bool, listens: bool
) -> None:
    monkeypatch.setattr(late_endpoint, "LOOK_SECONDS", 0.0)
    keys, metrics = [SamplerKey()], Metrics()
    with socket.socket(socket.AF_UNIX if is_abstract else socket.AF_INET) as stranger:
        # Bound, he need not listen to have connections that are for us.
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        stranger.bind("" if is_abstract else ("127.0.0.1", 0))
        if listens:
            stranger.listen()
        name = stranger.getsockname()
        where = f"ipc://@{name[1:].decode()}" if is_abstract else f"tcp://127.0.0.1:{name[1]}"
        endpoint = LateEndpoint(where, None, keys, metrics, tuple).__enter__()
        endpoint.look()
        assert endpoint.receiver is None
        assert "Address already in use, so no server is sampled" in (endpoint.problem or "")
        assert not keys[0].is_awaited
        assert metrics.value("listeners_not_bound", key="sampling.endpoint") == 2
    with endpoint:
        assert endpoint.receiver is not None
        assert endpoint.problem is None
        assert keys[0].is_awaited


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_file_system_that_others_filled_keeps_nobody_from_running(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int
) -> None:
    monkeypatch.setattr(late_endpoint, "LOOK_SECONDS", 0.0)
    where = f"ipc://{tmp_path}/own/samples"
    with pytest.MonkeyPatch.context() as full:

        def fails(*_: object) -> None:
            raise OSError(number, os.strerror(number))

        full.setattr(endpoint_module, "_bound", fails)
        endpoint = LateEndpoint(where, None, [], Metrics(), tuple).__enter__()
        assert f"{os.strerror(number)}, so no server is sampled" in (endpoint.problem or "")
    with endpoint:
        endpoint.look()
        assert endpoint.receiver is not None
        assert endpoint.problem is None


def test_an_endpoint_that_is_no_address_of_ours_is_refused() -> None:
    endpoint = LateEndpoint("tcp://192.0.2.1:5", None, [], Metrics(), tuple)
    with pytest.raises(OSError, match="cannot be bound"):
        endpoint.__enter__()


def test_notifications_are_taken_when_their_port_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_delivery, "LOOK_SECONDS", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        listen = stranger.getsockname()
        delivery = HttpDelivery(listen, Inbox(), Metrics())  # type: ignore[arg-type]
        delivery.start()
        assert "Address already in use, so no notification comes" in (delivery.problem() or "")
    wait_until(lambda: delivery.problem() is None, delivery.problem)
    with socket.create_connection(listen):
        delivery.close()


@pytest.mark.parametrize("is_abstract", [True, False])
def test_who_listens_and_takes_nobody_holds_up_no_look(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, is_abstract: bool
) -> None:
    monkeypatch.setattr(listeners, "_PATIENCE_SECONDS", 0.05)
    path = tmp_path / "samples"
    with ExitStack() as held:
        stranger = held.enter_context(socket.socket(socket.AF_UNIX))
        stranger.bind("" if is_abstract else str(path))
        address = stranger.getsockname()
        name = "\0" + address[1:].decode() if is_abstract else address
        stranger.listen(0)
        waiting = [held.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
        assert [one.connect_ex(name) for one in waiting][-1] == errno.EAGAIN
        assert listeners.unix_listener(name, os.getpid()) is Listener.UNKNOWN
        if not is_abstract:
            with pytest.raises(OSError, match="another program listens at"):
                LateEndpoint(f"ipc://{path}", None, [], Metrics(), tuple).__enter__()

"""The emulator runs any code as a function, so nobody but its user may ask it for anything."""

from __future__ import annotations

import http.client
import os

import pytest

from infra.emulator.process import Emulator


def status_of(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/_ministack/health")
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.skipif(os.getuid() != 0, reason="to be another user takes root")
def test_another_user_of_the_machine_is_refused() -> None:
    with Emulator() as emulator:
        port = int(emulator.endpoint_url.rpartition(":")[2])
        assert status_of(port) == 200
        os.seteuid(65534)
        try:
            assert status_of(port) == 403
        finally:
            os.seteuid(0)
        assert status_of(port) == 200

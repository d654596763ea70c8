"""A server that takes no more connections is not told as down while the sidecar is connected."""

from __future__ import annotations

import json

import pytest

from sidecar.cli import main
from tests.sidecar.fixtures import StartServer, WriteNode
from workloads.local_node import sidecar_in_thread, wait_until


def test_a_server_whose_connections_others_have_is_as_the_sidecar_has_it(
    start_server: StartServer, write_node: WriteNode, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody who reaches its port can have them all, and a cache that is told as down might be
    restarted."""
    server = start_server("16mb")
    node = write_node({"a": server.url})
    with sidecar_in_thread(node) as sidecar:
        wait_until(lambda: sidecar._actuator.readings, sidecar.status)
        connected = len(server.client.client_list())
        server.client.config_set("maxclients", connected)
        main(["status", str(node)])
        assert "a 16 MiB" in " ".join(capsys.readouterr().out.split())
        main(["status", str(node), "--json"])
        status = json.loads(capsys.readouterr().out)
        assert status["within_budget"]
        assert status["total_maxmemory_bytes"] == 16 << 20

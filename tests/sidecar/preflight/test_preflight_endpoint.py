"""``spreds check --connect`` on the samples' endpoint: as the servers and the running sidecar see
it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import redis

from sidecar.config.node import load_config
from sidecar.preflight.finding import Finding
from sidecar.preflight.preflight import preflight
from tests.sidecar.fixtures import StartServer, WriteNode
from tests.sidecar.sidecar_process import sidecar_process
from workloads.local_server import BUILD

_KEY = "sampling.endpoint"
MODULE = BUILD / "lib" / "spreds.so"


def _found(path: Path, where: str) -> list[Finding]:
    return [f for f in preflight(load_config(path)) if f.where == where and f.level != "ok"]


def test_an_endpoint_that_was_edited_since_is_not_what_the_sidecar_has_bound(
    write_node: WriteNode, start_server: StartServer
) -> None:
    path = write_node({"a": start_server("12mb").url}, budget="24mb")
    text = path.read_text()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with sidecar_process(path) as process:
        process.read_until("samples to")
        for same in (f"ipc://{path.parent}/others", "ipc://@others", f"tcp://127.0.0.1:{port}"):
            assert _found(path, _KEY) == []
            path.write_text(
                text.replace(f"ipc://{path.parent}/samples", same).replace(
                    "[sampling]", "[sampling]\nopen_endpoint = true"
                )
            )
            found = _found(path, _KEY)[-1]
            assert found.what.startswith(f"nothing listens at {same}, though the sidecar runs")
            assert "restart" in found.remedy
            path.write_text(text)
        assert process.end() == 0


@pytest.mark.parametrize("way", ["patch", "module"])
@pytest.mark.parametrize(
    ("endpoint", "protected", "is_taken"),
    [
        ("tcp://0.0.0.0:9999", "no", False),
        ("tcp://192.0.2.2:9999", "yes", True),
        ("tcp://192.0.2.2:9999", "local", None),  # by the patch alone
        ("tcp://127.0.0.2:9999", "no", True),
        ("tcp://localhost:9999", "no", True),
        ("tcp://[::1]:9999", "no", True),
        ("ipc://@name", "no", True),
    ],
)
def test_an_endpoint_is_good_if_the_server_takes_it(
    endpoint: str,
    protected: str,
    is_taken: bool | None,
    way: str,
    write_node: WriteNode,
    start_server: StartServer,
) -> None:
    if way == "module" and not MODULE.exists():
        pytest.skip("build/lib/spreds.so is not built")
    binary, prefix, more = None, "spreds-", {}
    if way == "module":
        binary, prefix = BUILD / "bin" / "redis-server-stock", "spreds."
        more = {"loadmodule": MODULE}
    server = start_server("12mb", binary, **{"enable-protected-configs": protected}, **more)
    path = write_node({"a": server.url}, budget="24mb")
    path.write_text(
        path.read_text()
        .replace(f"ipc://{path.parent}/samples", endpoint)
        .replace("[sampling]", "[sampling]\nopen_endpoint = true")
    )
    if is_taken is None:
        is_taken = way == "patch"
    found = _found(path, "a")
    assert len(found) == int(not is_taken)
    for one in found:
        assert one.level == "problem"
        assert f"does not take sampling.endpoint {endpoint} while it runs" in one.what
    # As the server sees it.
    try:
        server.client.config_set(f"{prefix}endpoint", endpoint)
    except redis.ResponseError:
        assert not is_taken
    else:
        assert is_taken


def test_an_endpoint_that_the_server_has_from_its_own_file_is_good(
    write_node: WriteNode, start_server: StartServer
) -> None:
    endpoint = "tcp://192.0.2.2:9999"
    server = start_server("12mb", **{"spreds-endpoint": endpoint})
    path = write_node({"a": server.url}, budget="24mb")
    path.write_text(
        path.read_text()
        .replace(f"ipc://{path.parent}/samples", endpoint)
        .replace("[sampling]", "[sampling]\nopen_endpoint = true")
    )
    assert _found(path, "a") == []

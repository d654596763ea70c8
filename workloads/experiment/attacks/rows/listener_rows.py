"""Connections that are slow, silent or many, and requests that two may read differently."""

from __future__ import annotations

import socket
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from sidecar.control.order import Order
from workloads.experiment.attacks.stage.attack import Rows, must
from workloads.experiment.attacks.stage.connections import (
    HEALTH,
    MOST_DESCRIPTORS,
    besieged,
    slow_connections,
    status_of,
)
from workloads.experiment.attacks.stage.target import Target
from workloads.local_server import free_port
from workloads.node_programs import running_service

ROWS = Rows()

TOKEN = "only-for-tests-0123456789"  # noqa: S105
SNS = """kind = "lambda"
observations_bucket = "observations"
plans_bucket = "plans"
topic_arn = "arn:aws:sns:us-east-1:123456789012:plans"
endpoint_url = "http://127.0.0.1:9"
delivery = "http"
listen = "127.0.0.1:{port}"
"""


@ROWS.add(
    "listeners: slow headers at the operators' port",
    "1,050 connections that never end their header: status, pause and health are answered, "
    "descriptors stay few, no traceback",
    held=True,
)
def _slow_at_the_operators() -> None:
    with Target() as target:
        besieged(target, target.port, b"GET / HTTP/1.1\r\nHost: loc", b"a", 2)


@ROWS.add(
    "listeners: silent connections at the socket",
    "400 connections of a local user that may connect: the operator's orders are taken",
    held=True,
)
def _slow_at_the_socket() -> None:
    with Target() as target:
        path = str(target.folder / "state.json.sock")
        with ExitStack() as stack:
            for _ in range(400):
                one = stack.enter_context(socket.socket(socket.AF_UNIX))
                one.connect(path)
                one.send(b"GET /api/status HTTP/1.1\r\n")
            target.ask().order(Order("pause", "ann"))
            must(target.status()["pause"] is not None, "no pause")
            must(target.descriptors() < MOST_DESCRIPTORS, f"{target.descriptors()} descriptors")


@ROWS.add(
    "listeners: slow headers and bodies at the SNS receiver",
    "1,050 connections that send a byte now and then: the sidecar sees its servers, answers "
    "and takes orders",
    quick=False,
)
def _slow_at_the_receiver() -> None:
    port = free_port()
    sections = {"controller": SNS.format(port=port)}
    with Target(sections=sections) as target:
        besieged(target, port, b"POST / HTTP/1.1\r\nContent-Length: 9", b"", 4)
        body = b"POST / HTTP/1.1\r\nContent-Length: 100000\r\n\r\n"
        besieged(target, port, body, b"x", 2)


@ROWS.add(
    "listeners: slow headers and bodies at the solver",
    "1,050 connections without a token: observations and health are answered",
    quick=False,
)
def _slow_at_the_solver() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="spreds-attack-") as folder,
        running_service(Path(folder) / "log", {"SPREDS_TOKEN": TOKEN}) as solver,
    ):
        descriptors = Path(f"/proc/{solver.process_id}/fd")
        for first in (
            b"POST / HTTP/1.1\r\nX: ",
            b"POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n{",
        ):
            with slow_connections(solver.port, first, b"a") as slow:
                for _ in range(4):
                    slow.turn()
                    for request, expected in (
                        (b"GET /healthz HTTP/1.1\r\n\r\n", b"200"),
                        (_observation("{}"), b"422"),
                    ):
                        answer = _say(solver.port, request)
                        must(status_of(answer) == expected, f"{request[:30]!r}: {answer[:80]!r}")
                    open_now = len(list(descriptors.iterdir()))
                    must(open_now < 300, f"{open_now} descriptors")
                    time.sleep(0.3)
        must("Traceback" not in (Path(folder) / "log").read_text(), "a traceback in the log")


def _observation(text: str) -> bytes:
    head = f"POST / HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {len(text)}"
    return f"{head}\r\n\r\n{text}".encode()


def _say(port: int, request: bytes) -> bytes:
    answer = b""
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(request)
        with suppress(ConnectionResetError):
            while part := connection.recv(65536):
                answer += part
    return answer


@ROWS.add(
    "listeners: readers that do not take their answers",
    "300 clients ask for every page and read nothing: health and orders are answered",
    held=True,
)
def _slow_readers() -> None:
    with Target() as target, ExitStack() as stack:
        before, memory = target.descriptors(), target.resident_bytes()
        for place in range(300):
            one = stack.enter_context(socket.socket())
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            one.settimeout(5)
            one.connect(("127.0.0.1", target.port))
            page = ("/", "/metrics", "/api/status", "/api/series", "/api/history")[place % 5]
            one.sendall(f"GET {page} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        health = target.raw(HEALTH)
        must(status_of(health) == b"200", f"health: {health[:80]!r}")
        more = target.descriptors() - before
        must(more < MOST_DESCRIPTORS, f"{more} descriptors more")
        grown = (target.resident_bytes() - memory) >> 20
        must(grown < 64, f"{grown} MiB more")
        target.ask().order(Order("pause", "ann"))


@ROWS.add(
    "listeners: framing that a proxy may read another way",
    "sends orders with two lengths, chunks, folded headers, bare line ends and odd versions: "
    "each is refused",
)
def _odd_framing() -> None:
    with Target() as target:
        right = f"Authorization: Bearer {target.token}\r\nContent-Type: application/json"
        body = '{"what": "pause"}'
        length = f"Content-Length: {len(body)}"
        for framing in (
            f"{length}\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked",
            f"{length}\r\nTransfer-Encoding : identity",
            f"{length}\r\nContent-Length: 3",
            f"{length}\r\n{length}",
            f"{length}, {len(body)}",
            f"Content-Length: +{len(body)}",
            f"Content-Length: 0x{len(body):x}",
            f"Content-Length : {len(body)}",
            f"X: y\r\n {length}",
            f"X: y\n{length}",
            f"{length}\rX: y",
            f"{length}\r\nHost: localhost",
            f"{length}\r\nX: a\x00b",
        ):
            head = f"POST /api/orders HTTP/1.1\r\nHost: localhost\r\n{right}\r\n{framing}"
            answer = target.raw(f"{head}\r\n\r\n{body}".encode("latin-1"))
            refused = (b"400", b"411", b"501", b"413")
            must(status_of(answer) in refused, f"{framing!r}: {answer[:80]!r}")
        for version in ("HTTP/0.9", "HTTP/1.2", "HTTP/2.0", "HTTP/11", "http/1.1", ""):
            head = f"POST /api/orders {version}\r\nHost: localhost\r\n{right}\r\n{length}"
            answer = target.raw(f"{head}\r\n\r\n{body}".encode())
            must(status_of(answer) in (b"400", b"505"), f"{version}: {answer[:80]!r}")
        must(target.status()["pause"] is None, "a pause by an odd request")
        must("Traceback" not in target.log_text(), "there is a traceback in the log")


@ROWS.add(
    "listeners: 12,000 abandoned connections",
    "connects, says a little or nothing, and goes: no descriptor and no memory stays",
    held=True,
    quick=False,
)
def _abandoned() -> None:
    with Target() as target:
        before, memory = target.descriptors(), target.resident_bytes()
        for place in range(12_000):
            with socket.socket() as one:
                one.settimeout(5)
                one.connect(("127.0.0.1", target.port))
                one.send((b"", b"GET /api/st", b"GET /api/status HTTP/1.1\r\n\r\n")[place % 3])
        target.until(lambda: target.descriptors() < before + 10, "their descriptors stay open")
        grown = (target.resident_bytes() - memory) >> 20
        must(grown < 40, f"{grown} MiB more")
        must("Traceback" not in target.log_text(), "there is a traceback in the log")

"""Connections that are slow, silent or many, and addresses that somebody else has taken."""

from __future__ import annotations

import resource
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from sidecar.control.order import Order
from workloads.experiment.attacks.attack import Attack, CannotPlayError, must
from workloads.experiment.attacks.rows.order_rows import status_of
from workloads.experiment.attacks.target import Target
from workloads.local_server import free_port
from workloads.solver_service import running_service

SLOW = 1050
# Of one listener, and what else is opened meanwhile.
MOST_DESCRIPTORS = 300
HEALTH = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
TOKEN = "only-for-tests-0123456789"  # noqa: S105
SNS = """kind = "lambda"
observations_bucket = "observations"
plans_bucket = "plans"
topic_arn = "arn:aws:sns:us-east-1:123456789012:plans"
endpoint_url = "http://127.0.0.1:9"
delivery = "http"
listen = "127.0.0.1:{port}"
"""


@contextmanager
def slow_connections(
    port: int, first: bytes, drip: bytes, count: int = SLOW
) -> Iterator[SlowConnections]:
    """Hold so many for as long as they are let, and make anew what is hung up on.

    Raises:
        CannotPlayError: we may not open so many.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count + 200:
        if hard < count + 200:
            raise CannotPlayError(f"{count} connections cannot be opened here")
        resource.setrlimit(resource.RLIMIT_NOFILE, (count + 200, hard))
    with SlowConnections(port, first, drip, count) as held:
        yield held


class SlowConnections:
    """Each says ``first`` at once and ``drip`` at each ``turn``."""

    def __init__(self, port: int, first: bytes, drip: bytes, count: int) -> None:
        self._address = ("127.0.0.1", port)
        self._first, self._drip, self._count = first, drip, count
        self._open: dict[int, socket.socket] = {}

    def __enter__(self) -> SlowConnections:
        self.turn()
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._open.values():
            one.close()

    def turn(self) -> None:
        """Send a little, and open others for those that are gone."""
        with selectors.DefaultSelector() as selector:
            for one in self._open.values():
                selector.register(one, selectors.EVENT_READ)
            gone = [key.fd for key, _ in selector.select(0)] if self._open else []
        for number in gone:
            self._open.pop(number).close()
        for one in self._open.values():
            with suppress(OSError):
                one.send(self._drip)
        while len(self._open) < self._count:
            one = socket.socket()
            one.settimeout(2)
            try:
                one.connect(self._address)
                one.send(self._first)
            except OSError:
                one.close()
                return
            self._open[one.fileno()] = one


def _besieged(target: Target, port: int, first: bytes, drip: bytes, seconds: float) -> None:
    before = target.descriptors()
    answers = {"status": 0, "health": 0}
    with slow_connections(port, first, drip) as slow:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            slow.turn()
            status = target.status()
            answers["status"] += 1
            late = status["now_seconds"] - status["loop_at_seconds"]
            must(late < 10, f"the main loop is {late:.0f} s late")
            more = target.descriptors() - before
            must(more < MOST_DESCRIPTORS, f"{more} descriptors more")
            health = target.raw(HEALTH)
            must(status_of(health) == b"200", f"health: {health[:80]!r}")
            target.ask().order(Order("pause", "ann"))
            target.ask().order(Order("resume", "ann"))
            time.sleep(0.5)
        problems = [one for one in target.status()["problems"] if "cannot be read" in one]
        must(not problems, f"servers are out of reach: {problems}")
    must("Traceback" not in target.log_text(), "there is a traceback in the log")
    target.until(lambda: target.descriptors() < before + 20, "descriptors of who is gone stay open")


def _slow_at_the_operators() -> None:
    with Target() as target:
        _besieged(target, target.port, b"GET / HTTP/1.1\r\nHost: loc", b"a", 2)


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


def _slow_at_the_receiver() -> None:
    port = free_port()
    sections = {"controller": SNS.format(port=port)}
    with Target(sections=sections) as target:
        _besieged(target, port, b"POST / HTTP/1.1\r\nContent-Length: 9", b"", 4)
        body = b"POST / HTTP/1.1\r\nContent-Length: 100000\r\n\r\n"
        _besieged(target, port, body, b"x", 2)


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


def _odd_framing() -> None:
    """Headers that a proxy before the sidecar may understand another way."""
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


def _port_is_taken() -> None:
    _taken("127.0.0.1", "127.0.0.1")
    _taken("localhost", "::1")


def _taken(listen: str, host: str) -> None:
    """Somebody listens at ``host`` before a sidecar that is to listen at ``listen``."""
    target = Target()
    lines = f'listen = "{listen}:{target.port}"\ntoken_file = "token"\n'
    target.sections["operators"] = lines
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with ExitStack() as stack:
        stack.callback(target.__exit__, None, None, None)
        with socket.create_server((host, target.port), family=family):
            target.prepare()
            target.start(ready=False)
            runs = "it does not run without a port"
            target.until(lambda: target.status()["actuator_at_seconds"], runs)
            said = target.status()["problems"]
            must(any("cannot be bound" in one for one in said), f"no problem: {said}")
            told = target.command("status", str(target.file))
            must(told.returncode == 1, f"status says {told.returncode}")
            must("cannot be bound" in told.stdout, "status does not say it")
            target.ask().order(Order("pause", "ann"))
            with suppress(ConnectionRefusedError):
                if listen == "localhost":
                    must(not target.raw(HEALTH), "127.0.0.1 is served, [::1] somebody else's")
        late = "a free port is not taken up"
        target.until(lambda: status_of(target.raw(HEALTH)) == b"200", late, 15)
        if listen == "localhost":
            health = target.raw(HEALTH, host="::1")
            must(status_of(health) == b"200", "[::1] is left to whoever takes it")
        must(not target.status()["problems"], "the problem is still told")


def _no_descriptors_left() -> None:
    """The sidecar may open few files from its start on: strangers must not take the last ones."""
    with Target() as target:
        assert target.process is not None
        for _ in range(3):
            target.raw(HEALTH)
        hard = resource.prlimit(target.process.pid, resource.RLIMIT_NOFILE)
        must(hard[0] >= 512, f"it may open {hard[0]} files")
        limit = target.descriptors() + 40
        resource.prlimit(target.process.pid, resource.RLIMIT_NOFILE, (limit, hard[1]))
        used = _cpu_seconds(target.process.pid)
        with slow_connections(target.port, b"GET / HTTP/1.1\r\n", b"", 300):
            time.sleep(1)
            must(target.is_alive(), "it has ended")
        used = _cpu_seconds(target.process.pid) - used
        must(used < 0.9, f"it spins: {used:.1f} s of a core in a second")
        target.until(lambda: target.status()["pid"], "it is mute after that", 10)
        must("Traceback" not in target.log_text(), "there is a traceback in the log")


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def _few_files_allowed() -> None:
    """Started with a limit of 256 open files, which may be raised: it is."""
    with Target() as target:
        target.end()
        code = (
            "import resource, sys; from sidecar.cli import main; "
            "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]; "
            "resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard)); sys.exit(main(sys.argv[1:]))"
        )
        with target.log.open("ab") as log:
            target.process = subprocess.Popen(
                [sys.executable, "-c", code, "run", str(target.file)],
                cwd=target.folder,
                stdout=log,
                stderr=log,
            )
        target.until(lambda: target.status()["actuator_at_seconds"], "it does not begin")
        _besieged(target, target.port, b"GET / HTTP/1.1\r\n", b"", 2)


ROWS = [
    Attack(
        "listeners: slow headers at the operators' port",
        "1,050 connections that never end their header: status, pause and health are answered, "
        "descriptors stay few, no traceback",
        _slow_at_the_operators,
        held=True,
    ),
    Attack(
        "listeners: silent connections at the socket",
        "400 connections of a local user that may connect: the operator's orders are taken",
        _slow_at_the_socket,
        held=True,
    ),
    Attack(
        "listeners: slow headers and bodies at the SNS receiver",
        "1,050 connections that send a byte now and then: the sidecar sees its servers, answers "
        "and takes orders",
        _slow_at_the_receiver,
        quick=False,
    ),
    Attack(
        "listeners: slow headers and bodies at the solver",
        "1,050 connections without a token: observations and health are answered",
        _slow_at_the_solver,
        quick=False,
    ),
    Attack(
        "listeners: readers that do not take their answers",
        "300 clients ask for every page and read nothing: health and orders are answered",
        _slow_readers,
        held=True,
    ),
    Attack(
        "listeners: framing that a proxy may read another way",
        "sends orders with two lengths, chunks, folded headers, bare line ends and odd versions: "
        "each is refused",
        _odd_framing,
    ),
    Attack(
        "listeners: 12,000 abandoned connections",
        "connects, says a little or nothing, and goes: no descriptor and no memory stays",
        _abandoned,
        held=True,
        quick=False,
    ),
    Attack(
        "listeners: the port is somebody else's",
        "listens at the operators' port, or at [::1] of localhost, before the sidecar starts: it "
        "runs, says so, serves neither family alone, and takes the port up when it is free",
        _port_is_taken,
        quick=False,
    ),
    Attack(
        "listeners: no descriptors left",
        "opens connections until the sidecar may open no more files: it neither ends nor spins",
        _no_descriptors_left,
    ),
    Attack(
        "listeners: started with a low limit of files",
        "a limit of 256 files and 1,050 slow connections: the limit is raised, all is answered",
        _few_files_allowed,
    ),
]

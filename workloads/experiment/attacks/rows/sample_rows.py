"""Samples that somebody else sends, and connections that take what others need."""

from __future__ import annotations

import json
import random
import socket
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np

from sidecar.control.order import Order
from workloads.experiment.attacks.stage.attack import CannotPlayError, Rows, must
from workloads.experiment.attacks.stage.connections import ZmtpPeer, connected, endless
from workloads.experiment.attacks.stage.target import MIB, Target
from workloads.local_server import free_port
from workloads.sample_batches import SampledServer, number_hashes

ROWS = Rows()

FORGED_SECONDS = 2.0
FORGED_READS = 600
MOST_GROWTH_BYTES = 24 * MIB
IDLE_CONNECTIONS = 1100
MOST_DESCRIPTORS = 100
_OWN = "ipc://{folder}/samples"
_HEAD = b"SPRD\x03\x00\x78\x00"
_SECRET_AT, _SECRET_END = 104, 120


def _open(endpoint: str) -> dict[str, str]:
    return {"sampling": f'endpoint = "{endpoint}"\nopen_endpoint = true\nrate = 1.0\n'}


def _tcp() -> str:
    """Find a port below those that the kernel gives to connections, one of which could take it."""
    for port in random.SystemRandom().sample(range(10_000, 17_000), 100):
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return f"tcp://127.0.0.1:{port}"
    raise CannotPlayError("no port is free")


def _received(target: Target) -> int:
    return int(target.status()["samples"]["received"])


def _made(target: Target) -> int:
    """Records that the servers themselves have sent."""
    infos = [server.client.info("spreds") for server in target.servers.values()]
    return sum(int(info["spreds_sampled"]) - int(info["spreds_dropped"]) for info in infos)


def hear(target: Target, name: str, otherwise: str = "samples do not come") -> None:
    """Read keys until their samples come."""
    before = _received(target)

    def heard() -> bool:
        target.servers[name].client.mget([f"key:{number}" for number in range(200)])
        return _received(target) > before + 200

    target.until(heard, otherwise)


def _settle(target: Target) -> None:
    """Wait until all is here that the servers have sent."""
    target.until(lambda: _received(target) == _made(target), "samples are missing")


def _forge(target: Target, endpoint: str, name: str, secret: bytes, seconds: float) -> int:
    """A server's batches, from somebody else; how many reads they tell of."""
    run_id = str(target.servers[name].client.info("server")["run_id"])
    forger = SampledServer(instance=int(run_id[:16], 16), salt=99, secret=secret)
    end, sent, number = time.monotonic() + seconds, 0, 0
    peer: ZmtpPeer | None = None
    while time.monotonic() < end:
        hashes = number_hashes(np.arange(number, number + FORGED_READS), 99)
        number += FORGED_READS
        message = next(forger.batches(hashes, 1, 100))
        try:
            if peer is None or peer.is_hung_up():
                peer = ZmtpPeer(endpoint)
            peer.send(message)
            sent += FORGED_READS
        except OSError:
            peer = None
        time.sleep(0.002)
    if peer is not None:
        peer.close()
    return sent


def _observed_rate(target: Target, name: str) -> float:
    """Return a server's request rate a second in the last observation."""
    paths = target.folder.glob("documents/observations/**/*.json")
    document = json.loads(max(paths, key=lambda path: path.stat().st_mtime).read_text())
    servers = {one["name"]: one for one in document["servers"]}
    return float(servers[name]["request_rate_per_second"])


@ROWS.add(
    "samples: forged over an abstract socket",
    "the same at ipc://@name, which is open to everybody on the machine",
    f"ipc://@spreds-attack-{free_port()}",
    quick=False,
)
@ROWS.add(
    "samples: forged over tcp",
    "a stranger sends batches as an idle server and as a busy one, with their public run ids: "
    "none is taken, the idle one stays idle, the curve stays, the log tells",
    "",
)
def _forged_by_a_stranger(endpoint: str) -> None:
    endpoint = endpoint or _tcp()
    with Target(sections=_open(endpoint)) as target:
        # A server keeps no samples for a sidecar that it has not reached yet.
        hear(target, "pages")
        target.fill("pages")
        target.until(lambda: target.server("pages")["curve"], "there is no curve")
        _settle(target)
        before, cycle = _received(target), target.status()["last_observation"]["cycle"]
        for name in ("sessions", "pages"):
            _forge(target, endpoint, name, bytes(16), FORGED_SECONDS / 2)
        target.until(
            lambda: target.status()["last_observation"]["cycle"] > cycle, "no observation", 15
        )
        taken = _received(target) - before
        must(taken == 0, f"{taken:,} forged samples were taken")
        rate = _observed_rate(target, "sessions")
        must(rate < 100, f"an idle server has {rate:,.0f} reads a second")
        must("another salt" not in target.log_text(), "the real curve was thrown away")
        must(
            "a batch without its secret is dropped" in target.log_text(),
            "the log does not tell of it",
        )
        # A curve that nobody reads for fades, however long the rest took.
        target.fill("pages")
        target.until(lambda: target.server("pages")["curve"], "the real curve is gone")


def _secret_of(target: Target, name: str) -> bytes:
    """Read the secret from the server's memory, as one who has broken into it."""
    process = target.servers[name].process.pid
    try:
        with Path(f"/proc/{process}/mem").open("rb", buffering=0) as memory:
            for line in Path(f"/proc/{process}/maps").read_text().splitlines():
                limits, rights = line.split()[:2]
                if not rights.startswith("rw"):
                    continue
                begin, end = (int(limit, 16) for limit in limits.split("-"))
                memory.seek(begin)
                with suppress(OSError):
                    held = memory.read(end - begin)
                    at = held.find(_HEAD)
                    secret = held[at + _SECRET_AT : at + _SECRET_END]
                    if at >= 0 and any(secret):
                        return secret
    except PermissionError as error:
        raise CannotPlayError("the memory of a server cannot be read here") from error
    return bytes(16)


@ROWS.add(
    "samples: forged with another server's secret",
    "who has broken into one server sends batches as another one: they are not taken, and the "
    "other one is still heard",
)
def _forged_with_anothers_secret() -> None:
    with Target() as target:
        endpoint = _OWN.replace("{folder}", str(target.folder))
        hear(target, "pages")
        _settle(target)
        secret, before = _secret_of(target, "pages"), _received(target)
        must(any(secret), "pages has no secret that tells it from others")
        _forge(target, endpoint, "sessions", secret, 1.0)
        must(_received(target) == before, "pages' secret counts for sessions")
        _forge(target, endpoint, "pages", secret, 0.5)
        must(_received(target) > before, "this row forges nothing")
        hear(target, "sessions", "the other server is not heard any more")


@ROWS.add("samples: a message that never ends, over tcp", "the same by a stranger", "", quick=False)
@ROWS.add(
    "samples: a message that never ends, by a member of the group",
    "frames of 16 KB with the flag MORE for three seconds: memory grows by less than 24 MiB, "
    "the log tells, servers are heard",
    _OWN,
)
def _endless(endpoint: str) -> None:
    sections = {} if endpoint else _open(endpoint := _tcp())
    with Target(sections=sections) as target:
        hear(target, "pages")
        before = target.resident_bytes()
        sent = endless(endpoint.replace("{folder}", str(target.folder)), 3.0)
        grown = target.resident_bytes() - before
        must(
            grown < MOST_GROWTH_BYTES,
            f"grew by {grown / MIB:.0f} MiB, {sent / MIB:.0f} MiB were sent",
        )
        must("a message of several frames" in target.log_text(), "the log does not tell of it")
        for name in target.servers:
            hear(target, name, "servers are not heard any more")


@ROWS.add(
    "samples: 1,100 idle connections",
    "to a tcp endpoint: descriptors stay few, servers connect and are heard, orders are taken",
)
def _idle_connections() -> None:
    endpoint = _tcp()
    with Target(sections=_open(endpoint)) as target, ExitStack() as held:
        hear(target, "pages")
        before = target.descriptors()
        for _ in range(IDLE_CONNECTIONS):
            held.enter_context(connected(endpoint, 0))
        time.sleep(2.0)  # for those that wait to be taken
        grown = target.descriptors() - before
        must(grown < MOST_DESCRIPTORS, f"{grown} descriptors more")
        hear(target, "pages", "a server that was connected is not heard")
        target.servers["sessions"].restart()
        hear(target, "sessions", "a server that connects is not heard")
        must(target.ask().order(Order("pause", "a row")), "no pause")
        must(target.status()["pause"] is not None, "no pause")
        must(target.is_alive(), "the sidecar has ended")


@ROWS.add("samples: databases above 65,535", "SWAPDB: no batch is refused")
def _swapped() -> None:
    settings = {"databases": 100_000, "maxmemory": 64 * MIB}
    memory = {"memory": f'budget = "{64 * MIB}"\n'}
    with Target(["pages"], memory, server_settings=settings) as target:
        hear(target, "pages")
        with target.client("pages") as client:
            for first, second in ((70_000, 1), (0, 99_999), (65_535, 65_536), (3, 70_001)):
                client.set("key:0", "x" * 100)
                client.swapdb(first, second)
                client.mget([f"key:{number}" for number in range(200)])
        _settle(target)
        answer = target.raw(b"GET /metrics HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n").decode()
        refused = [line for line in answer.splitlines() if "batches_malformed_total{" in line]
        must(not refused, f"batches are refused: {refused}")
        hear(target, "pages")


@ROWS.add(
    "samples: a umask of 000",
    "the sidecar starts with it: its own user alone may connect all the same",
)
def _modes() -> None:
    lines = 'endpoint = "ipc://{folder}/run/samples"\nrate = 1.0\n'
    with Target(sections={"sampling": lines}, umask=0) as target:
        path = target.folder / "run" / "samples"
        modes = [one.stat().st_mode & 0o777 for one in (path, path.parent)]
        must(modes == [0o600, 0o700], f"socket and folder have the modes {list(map(oct, modes))}")
        hear(target, "pages")


@ROWS.add(
    "samples: a link in the socket's place",
    "shows at a socket that nobody listens at: neither is removed",
)
def _link_in_its_place() -> None:
    target = Target()
    with ExitStack() as held:
        held.callback(target.__exit__)
        target.prepare()
        others = target.folder / "others"
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(others))
        (target.folder / "samples").symlink_to(others)
        target.start(ready=False)
        target.until(lambda: "is not a socket" in target.log_text(), "no word of the link")
        must((target.folder / "samples").is_symlink(), "the link was removed")
        must(others.is_socket(), "what it shows at was removed")


@ROWS.add(
    "samples: an endpoint that nobody owns",
    "tcp and abstract endpoints without a line that says so: they are refused",
)
def _unasked_endpoints() -> None:
    target = Target()
    with ExitStack() as held:
        held.callback(target.__exit__)
        target.prepare()
        own = f"ipc://{target.folder}/samples"
        text = target.file.read_text()
        for endpoint in ("tcp://127.0.0.1:5555", "tcp://192.0.2.1:5555", "ipc://@spreds"):
            target.file.write_text(text.replace(own, endpoint))
            done = target.command("check", str(target.file))
            words = done.stdout + done.stderr
            must(done.returncode != 0 and "everybody" in words, f"{endpoint} is taken: {words}")

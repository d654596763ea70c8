"""Each server's samples are known by a secret that the sidecar has given to it."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from threading import Event

import numpy as np
import pytest
import zmq

from sidecar.base.metrics import Metrics
from sidecar.config.node import load_config
from sidecar.config.sampling import SamplingConfig
from sidecar.control.problems import problems_of
from sidecar.control.server_status import _reading_part
from sidecar.curves.monitor import ServerMonitor
from sidecar.daemon import Sidecar
from sidecar.preflight.servers import _check_reading
from sidecar.sample_intake import SampleIntake
from sidecar.samples import late_endpoint, sampler_key
from sidecar.samples.endpoint import bind_endpoint
from sidecar.samples.sampler_key import SamplerKey
from sidecar.samples.zmtp import GREETING
from sidecar.servers import server_sampler
from sidecar.servers.connection.redis_server import RedisServer
from sidecar.servers.server_sampler import ServerSampler
from sidecar.state.sidecar_state import SidecarState
from tests.sidecar.daemon.test_closed_loop import wait_for
from tests.sidecar.fixtures import StartServer, WriteNode
from workloads.local_node import sidecar_in_thread, wait_until
from workloads.local_server import BUILD, LocalServer, free_port
from workloads.sample_batches import SampledServer, number_hashes

WAYS = ["patch", "module"]
PULL = b"\x05READY\x0bSocket-Type\0\0\0\x04PULL"

SAMPLING = SamplingConfig("", is_automatic=False)


def started(way: str, start_server: StartServer) -> tuple[LocalServer, str]:
    """A server, and what its knobs begin with."""
    if way == "patch":
        return start_server("12mb"), "spreds-"
    module = BUILD / "lib" / "spreds.so"
    if not module.exists():
        pytest.skip("build/lib/spreds.so is not built")
    return start_server("12mb", BUILD / "bin" / "redis-server-stock", loadmodule=module), "spreds."


def taken(sidecar: Sidecar, server: LocalServer | None = None) -> int:
    """So far; of a server that is asked for some keys more."""
    if server is not None:
        server.client.mget([f"key:{number}" for number in range(100)])
    return sidecar.metrics.value("samples")


@pytest.mark.parametrize("way", WAYS)
def test_a_server_that_samples_already_gets_the_secret_of_this_sidecar(
    way: str, start_server: StartServer, write_node: WriteNode, caplog: pytest.LogCaptureFixture
) -> None:
    """The one before it was killed. What its sampler still sends of then is no forgery."""
    server, knob = started(way, start_server)
    node = write_node({"s0": server.url})
    sampling = load_config(node).sampling
    server.client.config_set(
        f"{knob}secret", "ab" * 16, f"{knob}endpoint", sampling.endpoint,
        f"{knob}threshold", sampling.threshold, f"{knob}modulus", sampling.modulus,
    )  # fmt: skip
    with sidecar_in_thread(node) as sidecar:
        wait_for(lambda: taken(sidecar, server) > 100, sidecar)
    # It is counted, and the counts are told at the end.
    warned = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert not [line for line in warned if "secret" in line]


def test_the_secret_of_before_is_no_forgery_until_the_new_one_was_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As of a server that is busy when the sidecar comes back. Later somebody is named."""
    key, metrics, sampler = SamplerKey(), Metrics(), ServerMonitor("a")
    run_ids: dict[str, str] = {}  # it has not answered yet
    intake = SampleIntake(SAMPLING, {"a": sampler}, {"a": key}, lambda: run_ids, metrics)
    endpoint = f"ipc://{tmp_path}/samples"

    def send(secret: bytes, counted: Callable[[], int]) -> None:
        before = counted()
        with zmq.Context() as context, context.socket(zmq.PUSH) as pushing:
            pushing.connect(endpoint)
            made = SampledServer(instance=7, secret=secret)
            pushing.send(next(made.batches(number_hashes(np.arange(5), 0), 1)))

            def has_come() -> bool:
                intake.take_now(receiver, Event())
                return counted() > before

            wait_until(has_come, metrics.snapshot)

    def refused() -> int:
        return metrics.value("batches_malformed", reason="secret")

    with bind_endpoint(endpoint, metrics) as receiver:
        send(bytes(16), refused)
        run_ids["a"] = "0" * 15 + "7" + "0" * 24
        send(bytes(16), refused)
        assert caplog.messages == []
        send(key.secret, lambda: metrics.value("samples"))
        send(bytes(16), refused)
    of_server, of_process = sorted(caplog.messages, reverse=True)
    assert of_server.startswith("server a: a batch without its secret is dropped")
    assert "sends what does not carry the secret of a server of this node" in of_process


def test_the_secret_of_before_is_expected_for_a_minute_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    key = SamplerKey()
    assert key.expects_former
    now += 61
    assert not key.expects_former


@pytest.mark.parametrize("is_held", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_a_stranger_who_has_a_samplers_connection_is_shown_no_secret(
    way: str, is_held: bool, start_server: StartServer, write_node: WriteNode,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """He was bound to the open endpoint while no sidecar was, and may be still."""
    monkeypatch.setattr(late_endpoint, "LOOK_SECONDS", 0.1)
    server, knob = started(way, start_server)
    node = write_node({"s0": server.url})
    name = f"spreds-{free_port()}"
    own = f'endpoint = "ipc://{node.parent}/samples"'
    node.write_text(
        node.read_text().replace(own, f'endpoint = "ipc://@{name}"\nopen_endpoint = true')
    )
    seen = bytearray()
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(f"\0{name}")
        bound.listen()
        bound.settimeout(20)
        server.client.config_set(f"{knob}endpoint", f"ipc://@{name}")
        stranger = bound.accept()[0]
        stranger.sendall(GREETING + bytes([4, len(PULL)]) + PULL)
        stranger.settimeout(0)

        def come() -> bytearray:
            with suppress(BlockingIOError):
                while part := stranger.recv(1 << 16):
                    seen.extend(part)
            return seen

        wait_until(lambda: b"SPRD" in come(), lambda: bytes(seen))
        if not is_held:
            bound.close()
        with stranger, sidecar_in_thread(node) as sidecar:
            if is_held:
                shown = f"{knob}endpoint"
                wait_for(lambda: server.client.config_get(shown)[shown] == "", sidecar)
                bound.close()
            secret = sidecar._sampler_keys["s0"].secret
            wait_for(lambda: taken(sidecar, server) > 100 or secret in come(), sidecar)
            assert secret not in come()


@pytest.mark.parametrize("way", WAYS)
def test_a_secret_that_somebody_changed_is_set_again(
    way: str, start_server: StartServer, write_node: WriteNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_sampler, "SILENT_SECONDS", 1.5)
    server, knob = started(way, start_server)
    with sidecar_in_thread(write_node({"s0": server.url})) as sidecar:
        wait_for(lambda: taken(sidecar, server) > 0, sidecar)
        server.client.config_set(f"{knob}secret", "ab" * 16)
        wait_for(lambda: sidecar.metrics.value("batches_malformed", reason="secret"), sidecar)
        before = taken(sidecar)
        wait_for(lambda: taken(sidecar, server) > before + 100, sidecar)


def test_what_is_forged_is_counted_and_not_taken(
    start_server: StartServer, write_node: WriteNode, caplog: pytest.LogCaptureFixture
) -> None:
    """Also with the secret of another server: who has broken into one spoils its own curve only."""
    servers = [start_server("12mb") for _ in range(2)]
    node = write_node({f"s{place}": server.url for place, server in enumerate(servers)})
    with sidecar_in_thread(node) as sidecar:
        wait_for(lambda: len(sidecar._samples.by_instance) == 2, sidecar)
        keys = sidecar._sampler_keys
        wait_for(lambda: not any(key.expects_former for key in keys.values()), sidecar)
        (instance,) = [
            one for one, names in sidecar._samples.by_instance.items() if names == ["s0"]
        ]
        other = keys["s1"].secret
        for secret in (bytes(16), other):
            with zmq.Context() as context, context.socket(zmq.PUSH) as pushing:
                pushing.set(zmq.LINGER, 0)
                pushing.connect(f"ipc://{node.parent}/samples")
                before = sidecar.metrics.value("batches_malformed", reason="secret")
                forger = SampledServer(instance=instance, secret=secret)
                pushing.send(next(forger.batches(number_hashes(np.arange(5), 0), 1)))
                wait_for(
                    lambda before=before: (
                        sidecar.metrics.value("batches_malformed", reason="secret") > before
                    ),
                    sidecar,
                )
        assert taken(sidecar) == 0
    told = [one for one in caplog.messages if one.startswith("server s0: a batch")]
    assert len(told) == 1
    assert "a batch without its secret is dropped" in told[0]


def test_a_server_that_says_it_is_anothers_process_takes_no_samples_from_it(
    tmp_path: Path,
) -> None:
    """Each has its own, whichever of them stands first in the file."""
    keys = {name: SamplerKey() for name in ("before", "honest", "after")}
    run_ids = {name: "0" * 15 + "7" + f"{place:024x}" for place, name in enumerate(keys)}
    monitors = {name: ServerMonitor(name) for name in keys}
    intake = SampleIntake(SAMPLING, monitors, keys, lambda: run_ids, Metrics())
    endpoint, stop = f"ipc://{tmp_path}/samples", Event()
    with ExitStack() as held:
        receiver = held.enter_context(bind_endpoint(endpoint, Metrics()))
        context = held.enter_context(zmq.Context())
        for name, count in (("honest", 5), ("after", 9)):
            socket = held.enter_context(context.socket(zmq.PUSH))
            socket.connect(endpoint)
            sampler = SampledServer(instance=7, secret=keys[name].secret)
            socket.send(next(sampler.batches(number_hashes(np.arange(count), 0), 1)))

        def have_come() -> bool:
            intake.take_now(receiver, stop)
            return len(receiver._senders) == 2

        wait_until(have_come, lambda: receiver.metrics.snapshot())
        intake.take_now(receiver, stop)
        assert len(receiver._connections._turn) == 2  # neither has the other's place
    counts = {name: len(monitor.shards.stack) for name, monitor in monitors.items()}
    assert counts == {"before": 0, "honest": 5, "after": 9}


def test_samples_at_another_rate_are_dropped_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few of them would stand for very many reads."""
    monkeypatch.setattr(sampler_key, "_ON_THEIR_WAY_SECONDS", 0.0)
    key, metrics, monitor = SamplerKey(), Metrics(), ServerMonitor("a")
    key.give(1 << 24, 1 << 24)
    run_ids = {"a": "0" * 15 + "7" + "0" * 24}
    intake = SampleIntake(SAMPLING, {"a": monitor}, {"a": key}, lambda: run_ids, metrics)
    with ExitStack() as held:
        receiver = held.enter_context(bind_endpoint(f"ipc://{tmp_path}/samples", metrics))
        socket = held.enter_context(zmq.Context()).socket(zmq.PUSH)
        held.callback(socket.close, linger=0)
        socket.connect(f"ipc://{tmp_path}/samples")
        for threshold in (1 << 24, 1 << 23, 1 << 22, 1 << 10):
            sampler = SampledServer(instance=7, threshold=threshold, secret=key.secret)
            hashes = np.arange(5, dtype=np.uint64)
            socket.send(next(sampler.batches(hashes, 1)))

        def have_come() -> bool:
            intake.take_now(receiver, Event())
            refused = metrics.snapshot().get("batches_malformed[reason=other_rate]")
            return refused == 3 and metrics.value("samples") == 5

        wait_until(have_come, metrics.snapshot)
    assert len([one for one in caplog.messages if "which the sidecar does not set" in one]) == 1


def test_a_batch_that_was_on_its_way_is_taken_and_the_same_settings_again_open_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key, now = SamplerKey(), 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert key.fits(5, 1 << 24)  # nothing was given yet
    key.give(5, 1 << 24)
    assert not key.fits(6, 1 << 24)  # and it was on no way
    now += 10
    key.give(1 << 20, 1 << 24)
    assert key.fits(5, 1 << 24)
    assert not key.fits(1, 1 << 32)
    now += 3
    key.give(1 << 20, 1 << 24)
    assert not key.fits(5, 1 << 24)
    assert key.fits(1 << 20, 1 << 24)


def test_each_sidecar_makes_another_one() -> None:
    keys = [SamplerKey() for _ in range(10)]
    assert len({key.secret for key in keys}) == 10
    assert [keys[0].opens(key.secret) for key in keys] == [True, *[False] * 9]
    assert not keys[0].opens(b"")


def test_a_sampler_that_is_too_old_is_told_of_and_gets_nothing(
    start_server: StartServer, write_node: WriteNode, caplog: pytest.LogCaptureFixture
) -> None:
    """It would send batches without a secret."""
    server = start_server("12mb")
    config = load_config(write_node({"s0": server.url}))
    connection = RedisServer(config.servers[0])
    reading = connection.read()
    old = replace(reading, config={k: v for k, v in reading.config.items() if k != "spreds-secret"})
    assert (reading.has_old_sampler, old.has_old_sampler) == (False, True)
    sampler = ServerSampler(connection, SamplingConfig("ipc:///nowhere"), Metrics())
    sampler.follow(old, is_new=True)
    sampler.turn_off()
    connection.close()
    remedy = "load the new module, or start the server with the new patch"
    assert remedy in caplog.text
    assert server.client.config_get("spreds-endpoint")["spreds-endpoint"] == ""
    found = [one.what for one in _check_reading(config.servers[0], old)]
    assert any(remedy in what for what in found)
    told = {"name": "s0", "up": True, "keep_reason": None, "target_bytes": 1, **_reading_part(old)}
    budget = {"bytes": 1 << 30, "maxmemory_bytes": 0, "rss_budget_bytes": None}
    budget["used_bytes"] = 0
    (problem,) = problems_of([told], budget, SidecarState(), "recommend", None, {}, lambda _: 0)
    assert problem.startswith("s0 is not sampled, for its sampler is older than this sidecar")
    assert remedy in problem

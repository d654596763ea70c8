"""Processes come and go; the sidecar keeps nothing of those that have ended or are not its own."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack

import numpy as np
import zmq

from sidecar.config.node import load_config
from sidecar.daemon import Sidecar
from tests.sidecar.fixtures import StartServer, WriteNode
from workloads.sample_batches import SampledServer, number_hashes

FIRST_STRANGER = 1 << 20
STRANGERS = 50


def test_batches_of_strangers_leave_no_trace(
    start_server: StartServer, write_node: WriteNode
) -> None:
    server = start_server("12mb")
    config = load_config(write_node({"one": server.url}))
    sidecar = Sidecar(config)
    thread = threading.Thread(target=sidecar.run)
    thread.start()
    try:
        with zmq.Context() as context, ExitStack() as held:
            for stranger in range(STRANGERS):
                socket = held.enter_context(context.socket(zmq.PUSH))
                socket.connect(config.sampling.endpoint)
                batches = SampledServer(instance=FIRST_STRANGER + stranger).batches
                for message in batches(number_hashes(np.arange(5), 0), 1):
                    socket.send(message)

            def settled() -> bool:
                # In this order: before the first batch there is no receiver.
                return (
                    sidecar.metrics.value("batches_of_unknown_instance") >= STRANGERS
                    and bool(sidecar._samples.by_instance)
                    and {instance for instance, _ in sidecar._endpoint.receiver._next_sequence}
                    <= set(sidecar._samples.by_instance)
                )

            deadline = time.monotonic() + 30
            while not settled():
                assert time.monotonic() < deadline, sidecar.metrics.snapshot()
                server.client.get("key")  # the server's own batches go on
                time.sleep(0.01)
            run_id = str(server.client.info("server")["run_id"])
            assert set(sidecar._samples.by_instance) == {int(run_id[:16], 16)}
    finally:
        sidecar.stop()
        thread.join()

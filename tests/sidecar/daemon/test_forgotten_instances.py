"""Processes come and go; the sidecar keeps nothing of those that have ended or are not its own."""

from __future__ import annotations

import contextlib
import threading
from contextlib import ExitStack

import numpy as np
import zmq

from sidecar.config.node import load_config
from sidecar.daemon import Sidecar
from tests.sidecar.fixtures import StartServer, WriteNode
from workloads.local_node import wait_until
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
            strangers = []
            for stranger in range(STRANGERS):
                socket = held.enter_context(context.socket(zmq.PUSH))
                socket.connect(config.sampling.endpoint)
                batches = SampledServer(instance=FIRST_STRANGER + stranger).batches
                strangers += [(socket, one) for one in batches(number_hashes(np.arange(5), 0), 1)]

            def settled() -> bool:
                # What was on its way to a connection that was hung up on, as one too many, is lost.
                for socket, message in strangers:
                    with contextlib.suppress(zmq.Again):
                        socket.send(message, zmq.NOBLOCK)
                server.client.get("key")  # the server's own batches go on
                # In this order: before the first batch there is no receiver.
                return (
                    sidecar.metrics.value("batches_of_unknown_instance") >= STRANGERS
                    and bool(sidecar._samples.by_instance)
                    and {instance for instance, _ in sidecar._endpoint.receiver._next_sequence}
                    <= set(sidecar._samples.by_instance)
                )

            wait_until(settled, sidecar.metrics.snapshot)
            run_id = str(server.client.info("server")["run_id"])
            assert set(sidecar._samples.by_instance) == {int(run_id[:16], 16)}
    finally:
        sidecar.stop()
        thread.join()

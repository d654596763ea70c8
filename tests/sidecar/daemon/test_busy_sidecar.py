"""However many samples wait, the sidecar hears that it is to stop, and looks at the budget."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import zmq

from sidecar import sample_intake
from sidecar.config.node import load_config
from sidecar.curves.monitor import ServerMonitor
from sidecar.daemon import Sidecar
from sidecar.samples.batch import Batch
from sidecar.samples.wire_format import MAX_BATCH_RECORDS
from sidecar.servers.budget_keeper import BudgetKeeper
from tests.sidecar.fixtures import WriteNode
from workloads.sample_batches import SampledServer, number_hashes

WAITING = 20
INSTANCE = 7


class Loaded:
    """A sidecar before ``run``, a full queue for it, and what its monitor takes."""

    def __init__(self, path: Path) -> None:
        self.sidecar = Sidecar(load_config(path))
        self.taken: list[int] = []
        self.on_take: Callable[[], None] = lambda: None
        self.sender = threading.Thread(target=self.send)
        self.sidecar._samples.by_instance = {INSTANCE: ["a"]}

    def take(self, batch: Batch) -> None:
        self.taken.append(batch.sequence)
        self.on_take()

    def begin(self) -> None:
        """Instead of the servers' part: samples come when the loop starts."""
        self.sender.start()

    def send(self) -> None:
        with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
            # Who closes the socket waits until all is sent, if the sidecar does not end before.
            socket.set(zmq.LINGER, 5000)
            socket.connect(self.sidecar.config.sampling.endpoint)
            (key,) = self.sidecar._samples._keys.values()
            server = SampledServer(instance=INSTANCE, secret=key.secret)
            # So many that each batch is taken at once.
            hashes = number_hashes(np.arange(WAITING * MAX_BATCH_RECORDS), 0)
            for message in server.batches(hashes, 1):
                socket.send(message)


@pytest.fixture
def loaded(write_node: WriteNode, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loaded]:
    made = Loaded(write_node({"a": "redis://127.0.0.1:1"}))
    monkeypatch.setattr(made.sidecar, "_begin", made.begin)
    monkeypatch.setattr(ServerMonitor, "take", lambda _, batch: made.take(batch))
    yield made
    made.sender.join()


def test_a_stop_is_heard_after_the_batch_that_is_under_way(loaded: Loaded) -> None:
    loaded.on_take = loaded.sidecar.stop
    loaded.sidecar.run()
    assert loaded.taken == [0]


def test_the_budget_is_looked_at_between_slices_and_no_batch_is_lost(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch takes longer than a slice."""
    monkeypatch.setattr(sample_intake, "SLICE_SECONDS", 0.0)
    taken_when_looked: list[int] = []

    def keep(*_: object) -> None:
        taken_when_looked.append(len(loaded.taken))
        if len(loaded.taken) == WAITING:
            loaded.sidecar.stop()

    monkeypatch.setattr(BudgetKeeper, "keep", keep)
    loaded.sidecar.run()
    assert loaded.taken == list(range(WAITING))
    assert set(taken_when_looked) >= set(range(1, WAITING + 1))
    assert loaded.sidecar.metrics.value("sample_slices_used_up") == WAITING
    assert loaded.sidecar._endpoint.receiver.metrics.value("batches_lost") == 0

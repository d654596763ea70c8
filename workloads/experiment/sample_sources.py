"""Where an experiment's server has its samples from: a sampler in it, or a look from outside."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Protocol

from sidecar.config.node import ServerConfig
from sidecar.config.sampling import SamplingConfig
from sidecar.curves.shards import Shards
from sidecar.look.idle_time_sampler import IdleTimeSampler
from sidecar.look.looked_server import LookedServer
from sidecar.look.question_cost import QuestionCost, pause_seconds
from sidecar.samples.batch import Batch
from sidecar.samples.receiver import SampleReceiver
from sidecar.servers.server_reading import ServerReading
from workloads.experiment.fast_replay import FastServer


class SampleSource(Protocol):
    """Of one server."""

    def wait_for_connection(self) -> None:
        """Return when nothing is dropped any more."""

    def batches(self, shards: Shards) -> Iterator[Batch]:
        """What there is to take now; ``shards`` has taken what came before."""

    def lost(self) -> int:
        """Samples that were made and are not here (yet)."""

    def left_out(self, reading: ServerReading) -> ServerReading:
        """The server's figures without our own questions."""

    def close(self) -> None:
        """Hang up."""


class SentSamples:
    """That the patch or the module sends."""

    def __init__(self, server: FastServer, receiver: SampleReceiver) -> None:
        self._server, self._receiver, self._received = server, receiver, 0

    def wait_for_connection(self) -> None:
        """Return when the server's first batch is here: earlier ones are dropped."""
        deadline = time.monotonic() + 5
        while not self._receiver.receive(0.01) and time.monotonic() < deadline:
            self._server.advance(1.0)  # its next heartbeat

    def batches(self, shards: Shards) -> Iterator[Batch]:  # noqa: ARG002
        while found := self._receiver.receive(0.0):
            for batch in found:
                self._received += len(batch.records)
                yield batch

    def lost(self) -> int:
        counters = self._server.client.info("spreds")
        return int(counters["spreds_sampled"]) - self._received

    def left_out(self, reading: ServerReading) -> ServerReading:
        return reading

    def close(self) -> None:
        """The receiver is its maker's."""


class LookedSamples:
    """Of idle times, as ``LookSampler`` has them, by the server's own clock. What the questions
    cost is not known: for the server no time passes meanwhile."""

    def __init__(self, server: FastServer, live_objects: int) -> None:
        self._server, self._live_objects = server, live_objects
        self._asking = LookedServer(ServerConfig("experiment", server.url))
        told = self._asking.begin(may_be_empty=True)
        self._sampler = IdleTimeSampler(
            self._asking, told, most_keys=live_objects, scans_after_seconds=math.inf
        )
        self._cost = QuestionCost(self._asking, told)
        self._due_seconds = 0.0

    def wait_for_connection(self) -> None:
        """It asks by itself."""

    def batches(self, shards: Shards) -> Iterator[Batch]:
        if self._server.passed_seconds < self._due_seconds:
            return
        keys = self._sampler.keys
        absent = {key.identity for key in keys if key.identity not in shards.stack}
        keys.thin_out(shards.threshold, absent, self._live_objects)
        batch, told = self._sampler.round(self._asking.tell)
        self._due_seconds = self._server.passed_seconds + pause_seconds(
            self._sampler.oldest_seconds, self._cost.add(told), SamplingConfig.look_cost_ratio
        )
        yield batch

    def lost(self) -> int:
        return 0

    def left_out(self, reading: ServerReading) -> ServerReading:
        with self._asking.own.alone:
            return self._asking.own.left_out(reading)

    def close(self) -> None:
        self._asking.close()

"""Tells what is seen of servers from second to second, for the history and for ``status``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sidecar.control.buffer_watch import BufferWatch
from sidecar.control.refusal_watch import RefusalWatch
from sidecar.control.server_outages import ServerOutages
from sidecar.servers.connection.server_reading import ServerReading


class ServerEvents:
    """Notices what happens to one sidecar's servers. ``run_ids``: of the processes that the
    last one saw.

    Attributes:
        refusals, buffers: what problems come of.
    """

    def __init__(self, run_ids: Mapping[str, str]) -> None:
        self._outages = ServerOutages(run_ids)
        self.refusals, self.buffers = RefusalWatch(), BufferWatch()

    def events(
        self, now_seconds: float, readings: Mapping[str, ServerReading], errors: Mapping[str, str]
    ) -> Iterator[tuple[str, str]]:
        """Yield a server and what happened to it, for people. ``errors``: why servers do not
        answer."""
        yield from self._outages.take_readings(now_seconds, readings, errors)
        yield from self.buffers.take_readings(now_seconds, readings)
        yield from self.refusals.take_readings(now_seconds, readings)

"""What the sidecar remembers across its own restarts, in one small file."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sidecar.storage.store import write_whole
from solver_lambda.explanation import backend_latency_words
from solver_lambda.observation import ServerObservation

log = logging.getLogger(__name__)

# More are outstanding only if nobody answers.
ASKED_LIMIT = 16


@dataclass(frozen=True)
class Asked:
    """What an observation asked about, so that its answer can be checked.

    Attributes:
        bounds_bytes: least and greatest size (``None``: no bound) of each server.
    """

    cycle: int
    asked_at_seconds: float
    budget_bytes: int
    bounds_bytes: dict[str, tuple[int, int | None]]


@dataclass(frozen=True)
class Replaced:
    """What a shrink replaced in one process of a server, by knob: to be put back after it."""

    run_id: str
    settings: dict[str, str]


@dataclass(frozen=True)
class SeenLatency:
    """A server's backend latency in the last observation, in the observation's words."""

    backend_latency_seconds: float
    backend_latency_source: str
    measured_backend_latency_seconds: float | None
    fill_ratio: float | None

    @classmethod
    def of(cls, server: ServerObservation) -> SeenLatency:
        return cls(
            server.backend_latency_seconds,
            server.backend_latency_source,
            server.measured_backend_latency_seconds,
            server.fill_ratio,
        )

    def words(self) -> str:
        """For people."""
        return backend_latency_words(
            self.backend_latency_seconds,
            self.backend_latency_source,
            self.measured_backend_latency_seconds,
            self.fill_ratio,
        )


@dataclass
class SidecarState:
    """Everything in it may be lost: then only plans that are under way are refused.

    Attributes:
        targets_bytes: the sizes last planned, by server.
        settled: the servers have reached them.
        changed_at_seconds: Unix time of a server's last change by a plan.
        replaced: of each server that is being shrunk, what ``redis_server.GENTLE`` replaced.
        latencies: of the servers of the last observation, for ``spreds status``.
    """

    last_cycle: int = 0
    applied_cycle: int = 0
    asked: dict[int, Asked] = field(default_factory=dict)
    targets_bytes: dict[str, int] = field(default_factory=dict)
    settled: bool = True
    changed_at_seconds: dict[str, float] = field(default_factory=dict)
    replaced: dict[str, Replaced] = field(default_factory=dict)
    latencies: dict[str, SeenLatency] = field(default_factory=dict)

    def ask(self, asked: Asked) -> None:
        """Remember an observation; forget the oldest."""
        self.last_cycle = asked.cycle
        self.asked = {
            cycle: self.asked[cycle] for cycle in sorted(self.asked)[-(ASKED_LIMIT - 1) :]
        } | {asked.cycle: asked}

    def applied(self, cycle: int) -> None:
        """Remember that a plan was carried out: it and older ones are no longer waited for."""
        self.applied_cycle = cycle
        self.asked = {key: value for key, value in self.asked.items() if key > cycle}

    def to_json(self) -> dict[str, Any]:
        asked = [dict(item.__dict__) for item in self.asked.values()]
        replaced = {name: item.__dict__ for name, item in self.replaced.items()}
        latencies = {name: item.__dict__ for name, item in self.latencies.items()}
        return {**self.__dict__, "asked": asked, "replaced": replaced, "latencies": latencies}

    @classmethod
    def from_json(cls, table: dict[str, Any]) -> SidecarState:
        """Raises KeyError, TypeError or ValueError for anything but ``to_json``'s output."""
        asked = [
            Asked(
                int(item["cycle"]),
                float(item["asked_at_seconds"]),
                int(item["budget_bytes"]),
                {
                    str(name): (int(low), None if high is None else int(high))
                    for name, (low, high) in item["bounds_bytes"].items()
                },
            )
            for item in table["asked"]
        ]
        return cls(
            last_cycle=int(table["last_cycle"]),
            applied_cycle=int(table["applied_cycle"]),
            asked={item.cycle: item for item in asked},
            targets_bytes={str(k): int(v) for k, v in table["targets_bytes"].items()},
            settled=bool(table["settled"]),
            changed_at_seconds={str(k): float(v) for k, v in table["changed_at_seconds"].items()},
            replaced={
                str(name): Replaced(
                    str(item["run_id"]), {str(k): str(v) for k, v in item["settings"].items()}
                )
                for name, item in table["replaced"].items()
            },
            latencies={
                str(name): SeenLatency(
                    float(item["backend_latency_seconds"]),
                    str(item["backend_latency_source"]),
                    _optional_number(item["measured_backend_latency_seconds"]),
                    _optional_number(item["fill_ratio"]),
                )
                for name, item in table.get("latencies", {}).items()
            },
        )


def _optional_number(value: Any) -> float | None:
    return None if value is None else float(value)


def load_state(path: Path | None) -> SidecarState:
    """The state in a file; a new one if there is no file or it cannot be read, which is logged."""
    if path is None:
        log.info("no state_file: a plan that is under way when the sidecar stops will be refused")
        return SidecarState()
    try:
        return SidecarState.from_json(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return SidecarState()
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        log.warning("state file %s is unusable, starting without it: %s", path, error)
        return SidecarState()


def save_state(path: Path | None, state: SidecarState) -> None:
    """Write the state, if there is a file for it; a failure is logged."""
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(state.to_json(), indent=1).encode())
    except OSError as error:
        log.warning("state file %s cannot be written: %s", path, error)

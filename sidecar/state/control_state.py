"""Says who decides over the sizes now; kept across restarts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from sidecar.config.node import MODES
from solver_lambda.documents.reader import MOST_BYTES, Fields, shown

_One = TypeVar("_One", str, int)


@dataclass(frozen=True)
class OrderOrigin:
    """Says who gave an order, when (Unix time) and why."""

    by: str
    at_seconds: float
    why: str = ""


@dataclass(frozen=True)
class Pause(OrderOrigin):
    """Says until when nothing is set; ``None``: until ``resume``."""

    until_seconds: float | None = None


@dataclass(frozen=True)
class Wait:
    """No plan is carried out until then, for so many in a row did not keep their promise; or none
    that changes one server, whose part alone failed so often."""

    until_seconds: float
    why: str
    failures: int


@dataclass(frozen=True)
class Hold:
    """Says which size somebody gave a server by hand, and when (Unix time)."""

    bytes: int
    at_seconds: float


@dataclass(frozen=True)
class ControlState:
    """Says what was ordered, and what else keeps plans from being carried out.

    Attributes:
        mode: that was ordered, ``None``: as the file says. It holds as long as the file says
            ``file_mode``: whoever edits that line means it.
        mode_by: who ordered it.
        engaged: sizes are ours to keep: at least one plan was carried out, or the mode is
            ``apply``.
        wait: also when it is over, for the count of failures.
        server_waits: of servers whose part of a plan failed alone; also when they are over.
        held: servers that somebody resized by hand.
        installed_bytes: ``maxmemory`` as found when the sidecar came first; 0 is no limit.
        before_plan_bytes: sizes that were planned before the last plan that was carried out.
        restoring_bytes: of servers that are to be given back, and have not taken their size yet.
    """

    mode: str | None = None
    mode_by: OrderOrigin | None = None
    file_mode: str | None = None
    engaged: bool = False
    pause: Pause | None = None
    wait: Wait | None = None
    server_waits: dict[str, Wait] = field(default_factory=dict)
    held: dict[str, Hold] = field(default_factory=dict)
    installed_bytes: dict[str, int] = field(default_factory=dict)
    before_plan_bytes: dict[str, int] = field(default_factory=dict)
    restoring_bytes: dict[str, int] = field(default_factory=dict)

    def mode_with(self, file_mode: str | None) -> str:
        """Return the one in force. ``file_mode``: the configuration's, ``None`` if it has none."""
        if self.mode is not None and self.file_mode == file_mode:
            return self.mode
        return file_mode or MODES[0]

    @property
    def sets_sizes(self) -> bool:
        """Whether servers may be given sizes at all."""
        return self.engaged and self.pause is None

    def holds(self, server: str, size_bytes: float | None) -> bool:
        """Whether this is the size that somebody gave the server by hand."""
        return server in self.held and self.held[server].bytes == size_bytes

    def server_wait(self, server: str, now_seconds: float) -> Wait | None:
        """Say until when it keeps its size, as its part of a plan failed; ``None`` if that is
        over."""
        wait = self.server_waits.get(server)
        return wait if wait is not None and now_seconds < wait.until_seconds else None

    def objection(
        self, file_mode: str | None, now_seconds: float, *, must: bool = False
    ) -> str | None:
        """Say why no plan is carried out now, for people; ``None``: one is. ``must``: it is not
        made for a gain, but because sizes break a bound, and does not wait after one that
        failed."""
        if self.pause is not None:
            return f"paused by {self.pause.by}"
        if self.mode_with(file_mode) == "recommend":
            return "the mode is recommend"
        if self.wait is not None and now_seconds < self.wait.until_seconds and not must:
            return self.wait.why
        return None

    def ordered(self, mode: str, file_mode: str | None, told: OrderOrigin) -> ControlState:
        """Return the same with another mode."""
        return replace(self, mode=mode, mode_by=told, file_mode=file_mode)

    def to_json(self) -> dict[str, Any]:
        nested = {
            name: value.__dict__ if value is not None else None
            for name, value in (
                ("mode_by", self.mode_by),
                ("pause", self.pause),
                ("wait", self.wait),
            )
        }
        held = {name: dict(hold.__dict__) for name, hold in self.held.items()}
        waits = {name: dict(wait.__dict__) for name, wait in self.server_waits.items()}
        return {**self.__dict__, **nested, "held": held, "server_waits": waits}

    @classmethod
    def from_json(cls, fields: Fields) -> ControlState:
        """Read it. Raises DocumentError for anything but ``to_json``'s output; ignores other
        keys."""
        held, waits = fields.table("held", {}), fields.table("server_waits", {})
        return cls(
            mode=fields.text("mode", choices=MODES) if fields.has("mode") else None,
            mode_by=_told(fields.table("mode_by")) if fields.has("mode_by") else None,
            file_mode=fields.text("file_mode", choices=MODES) if fields.has("file_mode") else None,
            engaged=fields.boolean("engaged", False),
            pause=_pause(fields.table("pause")) if fields.has("pause") else None,
            wait=_wait(fields.table("wait")) if fields.has("wait") else None,
            server_waits={name: _wait(waits.table(name)) for name in waits.names()},
            held={name: _hold(held.table(name)) for name in held.names()},
            installed_bytes=read_sizes(fields.table("installed_bytes", {})),
            before_plan_bytes=read_sizes(fields.table("before_plan_bytes", {})),
            restoring_bytes=read_sizes(fields.table("restoring_bytes", {})),
        )


def _told(fields: Fields) -> OrderOrigin:
    return OrderOrigin(fields.text("by"), fields.number("at_seconds", low=0), _why(fields))


def _pause(fields: Fields) -> Pause:
    until = fields.number("until_seconds", low=0) if fields.has("until_seconds") else None
    return Pause(fields.text("by"), fields.number("at_seconds", low=0), _why(fields), until)


def _wait(fields: Fields) -> Wait:
    return Wait(
        fields.number("until_seconds", low=0),
        fields.text("why"),
        fields.integer("failures", low=0, high=1000),
    )


def _hold(fields: Fields) -> Hold:
    return Hold(fields.integer("bytes", low=0, high=MOST_BYTES), fields.number("at_seconds", low=0))


def read_sizes(fields: Fields) -> dict[str, int]:
    """Read a table of sizes in bytes, by server. Raises DocumentError."""
    return {name: fields.integer(name, low=0, high=MOST_BYTES) for name in fields.names()}


def _why(fields: Fields) -> str:
    return fields.text("why") if fields.value("why", "") else ""


def read_list(fields: Fields, key: str, kind: type[_One], what: str) -> tuple[_One, ...]:
    """Return the values of a list. Raises DocumentError for one of another kind."""
    values = fields.value(key, [])
    if not isinstance(values, list | tuple) or not all(type(one) is kind for one in values):
        raise fields.refuse(key, f"must be a list of {what}, not {shown(values)}")
    return tuple(values)


def read_lists(
    fields: Fields, key: str, kind: type[_One], what: str
) -> dict[str, tuple[_One, ...]]:
    """Return lists by name; none where the table is missing. Raises as ``read_list``."""
    named = fields.table(key, {})
    return {name: read_list(named, name, kind, what) for name in named.names()}

"""Holds what the sidecar remembers across its own restarts, in one small file."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sidecar.state.control_state import (
    ControlState,
    OrderOrigin,
    read_list,
    read_lists,
    read_sizes,
)
from sidecar.state.gain_since_installation import GainSinceInstallation
from sidecar.state.room_made import RoomMade
from solver_lambda.documents.keys import MOST_CYCLE
from solver_lambda.documents.reader import MOST_BYTES, Fields, shown
from solver_lambda.documents.words import backend_latency_words

if TYPE_CHECKING:
    from solver_lambda.documents.observation import ServerObservation

# More are outstanding only if nobody answers.
ASKED_LIMIT = 16


@dataclass(frozen=True)
class PendingRequest:
    """Says what an observation asked about, so that its answer can be checked.

    Attributes:
        bounds_bytes: least and greatest size (``None``: no bound) of each server.
    """

    cycle: int
    asked_at_seconds: float
    budget_bytes: int
    bounds_bytes: dict[str, tuple[int, int | None]]


@dataclass(frozen=True)
class SavedSettings:
    """Keeps what a shrink replaced in one process of a server, by knob: to be put back after it."""

    run_id: str
    settings: dict[str, str]


@dataclass(frozen=True)
class ObservedLatency:
    """Has a server's backend latency in the last observation, in the observation's words."""

    backend_latency_seconds: float
    backend_latency_source: str
    measured_backend_latency_seconds: float | None
    fill_ratio: float | None

    @classmethod
    def of(cls, server: ServerObservation) -> ObservedLatency:
        return cls(
            server.backend_latency_seconds,
            server.backend_latency_source,
            server.measured_backend_latency_seconds,
            server.fill_ratio,
        )

    def words(self) -> str:
        """Say it for people."""
        return backend_latency_words(
            self.backend_latency_seconds,
            self.backend_latency_source,
            self.measured_backend_latency_seconds,
            self.fill_ratio,
        )


@dataclass(frozen=True)
class SizeChange:
    """Describes the last change of a server's size by SPREDS; ``cycle``: of the plan, ``None``: by
    none; ``words``: why, as in a plan."""

    at_seconds: float
    from_bytes: int
    to_bytes: int
    cycle: int | None
    words: str


@dataclass
class SidecarState:
    """Everything in it may be lost: then only plans that are under way are refused.

    Its tables are replaced and never changed, so that a copy of it stays as it was.

    Attributes:
        targets_bytes: the sizes last planned, by server.
        settled: the servers have reached them.
        changed_at_seconds: Unix time of a server's last change by a plan.
        replaced: of each server that is being shrunk, what ``shrink_mode.SHRINK_MODE`` replaced.
        before_shrink: what each server's last shrink replaced, also when it is over.
        latencies: of the servers of the last observation, for ``spreds status``.
        first_bytes: the sizes from before there were plans, by server.
        control: who decides over the sizes.
        room: that was made and is to be given back; ``None``: none.
        own_bytes: of servers that others made room for, what was theirs before, until they are back
            there, whatever became of the room.
        last_changes: by server.
        taking_commands: of servers that are no caches, by which clients took work from them.
        caches: servers that were seen to evict keys, and not to be such.
        gain: against the sizes that were found; ``None``: SPREDS has kept none so far.
        run_ids: of the processes that were last seen with the planned size, by server.
        replicas: servers that were replicas when they were last seen.
        promoted_bytes: of those that were promoted since, until a plan goes by their curve, what
            was planned for them then.
        listeners: users that were first seen to listen, by a server's address.
        before_fall_bytes: what was planned before resident memory lowered the budget, or what of
            that later plans left, until it leaves room again.
        had_bytes, had_at_seconds: of that, what counts for the half that each server keeps, and
            since when (Unix time).
        plans_keep_to: a digest of what the node's file said of sizes when plans were asked for;
            ``None``: not known.
    """

    last_cycle: int = 0
    applied_cycle: int = 0
    asked: dict[int, PendingRequest] = field(default_factory=dict)
    targets_bytes: dict[str, int] = field(default_factory=dict)
    settled: bool = True
    changed_at_seconds: dict[str, float] = field(default_factory=dict)
    replaced: dict[str, SavedSettings] = field(default_factory=dict)
    before_shrink: dict[str, dict[str, str]] = field(default_factory=dict)
    latencies: dict[str, ObservedLatency] = field(default_factory=dict)
    first_bytes: dict[str, int] = field(default_factory=dict)
    control: ControlState = field(default_factory=ControlState)
    room: RoomMade | None = None
    own_bytes: dict[str, int] = field(default_factory=dict)
    last_changes: dict[str, SizeChange] = field(default_factory=dict)
    gain: GainSinceInstallation | None = None
    taking_commands: dict[str, tuple[str, ...]] = field(default_factory=dict)
    caches: tuple[str, ...] = ()
    listeners: dict[str, tuple[int, ...]] = field(default_factory=dict)
    run_ids: dict[str, str] = field(default_factory=dict)
    replicas: tuple[str, ...] = ()
    promoted_bytes: dict[str, int] = field(default_factory=dict)
    before_fall_bytes: dict[str, int] = field(default_factory=dict)
    had_bytes: dict[str, int] = field(default_factory=dict)
    had_at_seconds: float = 0.0
    plans_keep_to: str | None = None

    def ask(self, asked: PendingRequest) -> None:
        """Remember an observation; forget the oldest."""
        self.last_cycle = asked.cycle
        self.asked = {
            cycle: self.asked[cycle] for cycle in sorted(self.asked)[-(ASKED_LIMIT - 1) :]
        } | {asked.cycle: asked}

    def applied(self, cycle: int, planned: Collection[str] = ()) -> None:
        """Remember that a plan was taken: it and older ones are no longer waited for. The servers
        ``planned`` have by it what their own curves say, whatever they were before."""
        self.applied_cycle = cycle
        self.promoted_bytes = {n: s for n, s in self.promoted_bytes.items() if n not in planned}
        self.asked = {key: value for key, value in self.asked.items() if key > cycle}

    def keep_to(self, told: str) -> None:
        """Wait for no plan that was asked for by another digest of the node's file."""
        if self.plans_keep_to not in (None, told):
            self.overtake()
        self.plans_keep_to = told

    def overtake(self) -> None:
        """Wait for no plan any more: sizes or bounds are others than those that it was asked for,
        and whoever held one back could undo that by it."""
        self.applied(max(self.applied_cycle, self.last_cycle))

    @property
    def without_needs(self) -> dict[str, int]:
        """Return what would be planned now if nobody had needed anything for a while; empty where
        that is planned."""
        if self.room is None or self.room.made_bytes != self.targets_bytes:
            return {}
        return self.room.without_needs

    def engage(self, room: RoomMade | None) -> None:
        """Keep sizes from now on, of which this is room."""
        self.control = replace(self.control, engaged=True, restoring_bytes={})
        self.make_room(room)

    def make_room(self, room: RoomMade | None) -> None:
        """Remember it, in place of what was made before. Who was promoted as it was made keeps what
        was planned for it."""
        self.room = room and room.keeping(self.promoted_bytes)
        if room is not None:
            self.own_bytes = room.before_of_needs() | self.own_bytes

    def to_json(self) -> dict[str, Any]:
        asked = [dict(item.__dict__) for item in self.asked.values()]
        replaced = {name: item.__dict__ for name, item in self.replaced.items()}
        latencies = {name: item.__dict__ for name, item in self.latencies.items()}
        changes = {name: item.__dict__ for name, item in self.last_changes.items()}
        nested: dict[str, Any] = {"asked": asked, "replaced": replaced, "latencies": latencies}
        nested["last_changes"] = changes
        room = self.room.to_json() if self.room is not None else None
        gain = dict(self.gain.__dict__) if self.gain is not None else None
        nested |= {"control": self.control.to_json(), "room": room, "gain": gain}
        return {**self.__dict__, **nested}

    @classmethod
    def from_json(cls, fields: Fields) -> SidecarState:
        """Read it. Raises DocumentError for anything but ``to_json``'s output; ignores other
        keys."""
        asked = [_asked(item) for item in fields.tables("asked", least=0, most=ASKED_LIMIT)]
        changed = fields.table("changed_at_seconds")
        replaced, latencies = fields.table("replaced"), fields.table("latencies", {})
        before, changes = fields.table("before_shrink", {}), fields.table("last_changes", {})
        room = RoomMade.from_json(fields.table("room")) if fields.has("room") else None
        return cls(
            last_cycle=fields.integer("last_cycle", low=0, high=MOST_CYCLE),
            applied_cycle=fields.integer("applied_cycle", low=0, high=MOST_CYCLE),
            asked={item.cycle: item for item in asked},
            targets_bytes=read_sizes(fields.table("targets_bytes")),
            settled=fields.boolean("settled"),
            changed_at_seconds={name: changed.number(name, low=0) for name in changed.names()},
            replaced={name: _replaced(replaced.table(name)) for name in replaced.names()},
            before_shrink={name: _texts(before.table(name)) for name in before.names()},
            latencies={name: _latency(latencies.table(name)) for name in latencies.names()},
            first_bytes=read_sizes(fields.table("first_bytes", {})),
            control=(
                ControlState.from_json(fields.table("control"))
                if fields.has("control")
                else _CONTROL_BEFORE_MODES
            ),
            room=room,
            plans_keep_to=fields.text("plans_keep_to") if fields.has("plans_keep_to") else None,
            own_bytes=(
                read_sizes(fields.table("own_bytes"))
                if fields.has("own_bytes")
                else room.before_of_needs()
                if room is not None
                else {}
            ),
            last_changes={name: _change(changes.table(name)) for name in changes.names()},
            taking_commands=read_lists(fields, "taking_commands", str, "commands"),
            caches=read_list(fields, "caches", str, "servers"),
            listeners=read_lists(fields, "listeners", int, "users' numbers"),
            run_ids=_texts(fields.table("run_ids", {})),
            replicas=read_list(fields, "replicas", str, "servers"),
            promoted_bytes=read_sizes(fields.table("promoted_bytes", {})),
            before_fall_bytes=read_sizes(fields.table("before_fall_bytes", {})),
            had_bytes=read_sizes(fields.table("had_bytes", {})),
            had_at_seconds=fields.number("had_at_seconds", 0.0, low=0),
            gain=(
                GainSinceInstallation.from_json(fields.table("gain"))
                if fields.has("gain")
                else None
            ),
        )


# A sidecar that knew no modes carried out every plan, and goes on with that.
_CONTROL_BEFORE_MODES = ControlState(
    mode="apply",
    mode_by=OrderOrigin("spreds", 0.0, "it carried out plans before modes existed"),
    engaged=True,
)


def _asked(fields: Fields) -> PendingRequest:
    bounds = fields.table("bounds_bytes")
    return PendingRequest(
        fields.integer("cycle", low=0, high=MOST_CYCLE),
        fields.number("asked_at_seconds", low=0),
        fields.integer("budget_bytes", low=1, high=MOST_BYTES),
        {name: _bounds(bounds, name) for name in bounds.names()},
    )


def _bounds(fields: Fields, name: str) -> tuple[int, int | None]:
    pair = fields.value(name)
    if not isinstance(pair, list) or len(pair) != 2:
        raise fields.refuse(name, f"must be two sizes, not {shown(pair)}")
    sizes = Fields({"least": pair[0], "most": pair[1]}, fields.source, fields.where(name))
    most = sizes.integer("most", low=0) if sizes.has("most") else None
    return sizes.integer("least", low=0), most


def _replaced(fields: Fields) -> SavedSettings:
    return SavedSettings(fields.text("run_id"), _texts(fields.table("settings")))


def _change(fields: Fields) -> SizeChange:
    return SizeChange(
        fields.number("at_seconds", low=0),
        fields.integer("from_bytes", low=0),
        fields.integer("to_bytes", low=0),
        fields.integer("cycle", low=0, high=MOST_CYCLE) if fields.has("cycle") else None,
        fields.text("words"),
    )


def _texts(fields: Fields) -> dict[str, str]:
    return {name: fields.text(name) for name in fields.names()}


def _latency(fields: Fields) -> ObservedLatency:
    return ObservedLatency(
        fields.number("backend_latency_seconds", low=0),
        fields.text("backend_latency_source"),
        fields.optional_number("measured_backend_latency_seconds", low=0),
        fields.optional_number("fill_ratio", low=0),
    )

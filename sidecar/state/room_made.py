"""What servers gave so that there is room beside others, which could not be given another size, or
for others, which would have refused writes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sidecar.state.control_state import read_list, read_sizes
from solver_lambda.documents.reader import Fields

CLEARLY_LESS = 3 / 4


@dataclass(frozen=True)
class RoomMade:
    """Sizes by server, in bytes.

    Attributes:
        before_bytes: planned before room was made.
        made_bytes: planned since.
        beside_bytes: of those beside which it was made, what they have, as far as that counts.
        needed_bytes: of those for which it was made, the least that they worked with.
        promoted: of these, who was a replica then and is none any more: they need what they hold.
    """

    before_bytes: dict[str, int]
    made_bytes: dict[str, int]
    beside_bytes: dict[str, int]
    needed_bytes: dict[str, int] = field(default_factory=dict)
    promoted: tuple[str, ...] = ()

    @classmethod
    def for_needs(
        cls,
        without_bytes: Mapping[str, int],
        sizes_bytes: Mapping[str, int],
        least_bytes: Mapping[str, int],
    ) -> RoomMade | None:
        """Of sizes that are others than they would be if nobody needed anything at once."""
        needed = {
            name: least
            for name, least in least_bytes.items()
            if sizes_bytes.get(name, 0) > without_bytes.get(name, 0)
        }
        return cls(dict(without_bytes), dict(sizes_bytes), {}, needed) if needed else None

    @property
    def is_returned(self) -> bool:
        """Whether it is planned to go back, to be done as the others fill."""
        return self.made_bytes == self.before_bytes

    def returned(self, sizes_bytes: Mapping[str, int]) -> RoomMade | None:
        """From now on these sizes are planned; ``None`` where there was no need, but another that
        could not be given another size."""
        sizes = dict(sizes_bytes)
        made = replace(self, before_bytes=sizes, made_bytes=sizes, beside_bytes={})
        return made if self.needed_bytes else None

    def shifted(self, sizes_bytes: Mapping[str, int]) -> RoomMade:
        """These are planned from now on, for another reason: whatever each gets or gives by that,
        it would have also when the room is given back."""
        before = {
            name: size + sizes_bytes[name] - self.made_bytes[name]
            for name, size in self.before_bytes.items()
        }
        return replace(self, before_bytes=before, made_bytes=dict(sizes_bytes))

    def with_promoted(self, held_bytes: Mapping[str, int]) -> RoomMade | None:
        """These were promoted, and hold so much: the room that they got is theirs as long as they
        do. ``None``: they got none, and what was made for others is forgotten."""
        got = {
            name: held
            for name, held in held_bytes.items()
            if self.made_bytes.get(name, 0) > self.before_bytes.get(name, 0)
        }
        promoted = tuple(sorted({*self.promoted, *got}))
        needed = self.needed_bytes | got
        return replace(self, needed_bytes=needed, promoted=promoted) if got else None

    def for_those(
        self,
        made_bytes: Mapping[str, int],
        beside_bytes: Mapping[str, int],
        needed_bytes: Mapping[str, int],
    ) -> RoomMade:
        """Other room is made from now on, from the same sizes before."""
        promoted = tuple(name for name in self.promoted if name in needed_bytes)
        made, beside, needed = dict(made_bytes), dict(beside_bytes), dict(needed_bytes)
        return RoomMade(self.before_bytes, made, beside, needed, promoted)

    def is_needed_less(
        self, beside_bytes: Mapping[str, int], least_bytes: Mapping[str, int]
    ) -> bool:
        """Whether one of them takes less by now, or works with clearly less, or with what it had;
        ``beside_bytes`` as they are now, without those that can be given another size again, and
        ``least_bytes`` of servers that answer."""
        needed = self.still_needed(least_bytes)
        return any(
            beside_bytes.get(name, 0) < size for name, size in self.beside_bytes.items()
        ) or any(
            needed.get(name, 0) < CLEARLY_LESS * size for name, size in self.needed_bytes.items()
        )

    def after(
        self, planned_bytes: Mapping[str, int], unread: Collection[str] = ()
    ) -> RoomMade | None:
        """What a plan leaves of it, that gave nobody more than he needs: when he needs less, it
        goes back to those who gave it; likewise beside those that could not be read (``unread``)
        when it was made."""
        needed = {
            name: size
            for name, size in self.needed_bytes.items()
            if self.before_bytes[name] < planned_bytes.get(name, 0) <= self.made_bytes[name]
        }
        beside = {name: size for name, size in self.beside_bytes.items() if name in unread}
        left = sum(planned_bytes[name] - self.before_bytes[name] for name in needed)
        left += sum(max(0, size - self.before_bytes[name]) for name, size in beside.items())
        gave = {
            name: max(0, self.before_bytes[name] - self.made_bytes[name])
            for name in planned_bytes.keys() & self.made_bytes.keys() - needed.keys()
        }
        before = dict(planned_bytes) | {name: self.before_bytes[name] for name in needed}
        for name, size in gave.items():
            before[name] += left * size // max(1, sum(gave.values()))
        after = replace(self, before_bytes=before).for_those(planned_bytes, beside, needed)
        return after if beside or needed else None

    def is_for(self, names: Collection[str]) -> bool:
        """Whether it was made for one of them, or beside one, and is not given back yet."""
        made_for = self.beside_bytes.keys() | self.needed_bytes.keys()
        return not self.is_returned and not made_for.isdisjoint(names)

    def still_needed(self, least_bytes: Mapping[str, int]) -> dict[str, int]:
        """Of those for which it was made, who does not work with what it had before."""
        least = {name: least_bytes.get(name, size) for name, size in self.needed_bytes.items()}
        return {name: size for name, size in least.items() if size > self.before_bytes[name]}

    def before_of_needs(self) -> dict[str, int]:
        """What those had for which it was made."""
        return {name: self.before_bytes[name] for name in self.needed_bytes}

    def lasting_needs(self, replicas: Collection[str]) -> set[str]:
        """Whose needs are keys that they hold: replicas, and who was one when it got room."""
        return self.needed_bytes.keys() & {*replicas, *self.promoted}

    def passes(self, replicas: Collection[str]) -> bool:
        """Whether some of it was made for a while only."""
        return bool(self.beside_bytes or self.needed_bytes.keys() - self.lasting_needs(replicas))

    def without_passing_needs(
        self, targets_bytes: Mapping[str, int], replicas: Collection[str]
    ) -> dict[str, int]:
        """The sizes before, where some of it was made for needs that pass, and is what is planned
        now: most of them are clients' buffers, and no plan is to go by them. What was made for
        others, all have given in proportion: what those have that cannot be given another size, and
        what replicas hold, stays planned."""
        stay = {*self.beside_bytes, *self.lasting_needs(replicas)}
        if not self.needed_bytes.keys() - stay or self.made_bytes != targets_bytes:
            return {}
        others = {name: size for name, size in self.before_bytes.items() if name not in stay}
        kept = {name: self.made_bytes[name] for name in stay & self.made_bytes.keys()}
        taken = sum(kept.values()) - sum(self.before_bytes[name] for name in kept)
        total = max(1, sum(others.values()))
        # Rounded down, so that they fit.
        return kept | {name: size - -(-taken * size // total) for name, size in others.items()}

    def to_json(self) -> dict[str, Any]:
        return dict(self.__dict__)

    @classmethod
    def from_json(cls, fields: Fields) -> RoomMade:
        """Raises DocumentError for anything but ``to_json``'s output; other keys are ignored."""
        keys = ("before_bytes", "made_bytes", "beside_bytes")
        before, made, beside = (read_sizes(fields.table(key)) for key in keys)
        needed = read_sizes(fields.table("needed_bytes", {}))
        promoted = read_list(fields, "promoted", str, "servers")
        for name in (*needed, *promoted):
            if name not in before:
                raise fields.refuse("before_bytes", f"must have {name!r}, which needs room")
        return cls(before, made, beside, needed, promoted)

"""Keeps what servers gave as room for others. Some could not be given another size, and others
would have refused writes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sidecar.state.control_state import read_sizes
from solver_lambda.documents.reader import Fields

CLEARLY_LESS = 3 / 4


@dataclass(frozen=True)
class RoomMade:
    """Has sizes by server, in bytes.

    Attributes:
        before_bytes: planned before room was made.
        made_bytes: planned since.
        beside_bytes: of those beside which it was made, what they have, as far as that counts.
        needed_bytes: of those for which it was made, the least that they worked with. What a
            replica's keys need is planned for it, and is no need.
    """

    before_bytes: dict[str, int]
    made_bytes: dict[str, int]
    beside_bytes: dict[str, int]
    needed_bytes: dict[str, int] = field(default_factory=dict)

    @classmethod
    def for_needs(
        cls,
        without_bytes: Mapping[str, int],
        sizes_bytes: Mapping[str, int],
        least_bytes: Mapping[str, int],
        hanging: Collection[str] = (),
    ) -> RoomMade | None:
        """Return the room in sizes that are larger than if nobody needed anything at once, or hung;
        ``None`` if there is none."""
        more = {n: size for n, size in sizes_bytes.items() if size > without_bytes.get(n, 0)}
        beside = {name: size for name, size in more.items() if name in hanging}
        needed = {n: size for n, size in least_bytes.items() if n in more.keys() - beside.keys()}
        made = cls(dict(without_bytes), dict(sizes_bytes), beside, needed)
        return made if beside or needed else None

    @property
    def is_returned(self) -> bool:
        """Whether it is planned to go back, to be done as the others fill."""
        return self.made_bytes == self.before_bytes

    def returned(self, sizes_bytes: Mapping[str, int]) -> RoomMade | None:
        """Return the room once these sizes are planned. ``None`` where there was no need, but
        another that could not be given another size."""
        sizes = dict(sizes_bytes)
        made = replace(self, before_bytes=sizes, made_bytes=sizes, beside_bytes={})
        return made if self.needed_bytes else None

    def begun_again(
        self, planned_bytes: Mapping[str, int], sizes_bytes: Mapping[str, int]
    ) -> RoomMade:
        """Return the room after a restart of the sidecar. If that is what was planned until then,
        what is planned now instead is room as well, and goes back to the same sizes."""
        if self.is_returned or self.made_bytes != planned_bytes:
            return self
        return replace(self, made_bytes=dict(sizes_bytes))

    def shifted(self, sizes_bytes: Mapping[str, int]) -> RoomMade:
        """Return the room once these are planned, for another reason. Whatever each gets or gives
        by that, it would have also when the room is given back."""
        before = {
            name: max(0, size + sizes_bytes[name] - self.made_bytes[name])
            for name, size in self.before_bytes.items()
        }
        return replace(self, before_bytes=before, made_bytes=dict(sizes_bytes))

    def keeping(self, held_bytes: Mapping[str, int]) -> RoomMade | None:
        """Return the room if these keep so much of what they got, whoever needs less: they hold it.
        ``None``: nobody needs more than that. What is going back already is planned."""
        if self.is_returned:
            return self
        before, made = self.before_bytes, self.made_bytes
        kept = {
            name: max(before[name], min(made[name], size))
            for name, size in held_bytes.items()
            if name in self.needed_bytes
        }
        needed = {n: size for n, size in self.needed_bytes.items() if size > kept.get(n, 0)}
        room = replace(self, before_bytes=self._before_with(kept), needed_bytes=needed)
        return room if needed or self.beside_bytes else None

    def _before_with(self, kept_bytes: Mapping[str, int]) -> dict[str, int]:
        """Return the sizes before, had these been ``kept_bytes`` already. The others gave in
        proportion what these got then, less the memory that nobody had. Where that can be, each of
        them keeps half of an equal share."""
        before, made = self.before_bytes, self.made_bytes
        others = {name: size for name, size in before.items() if name not in kept_bytes}
        free = max(0, sum(made.values()) - sum(before.values()))
        taken = sum(size - before[name] for name, size in kept_bytes.items()) - free
        taken = max(0, min(taken, sum(others.values())))
        half_bytes = max(sum(made.values()), sum(before.values())) // len(before) // 2
        above = {name: max(0, size - half_bytes) for name, size in others.items()}
        gives = above if sum(above.values()) >= taken else others
        total = max(1, sum(gives.values()))
        # Rounded so that they fit.
        left = {name: size - -(-taken * gives[name] // total) for name, size in others.items()}
        return left | dict(kept_bytes)

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
        """Return what a plan leaves of it that gave nobody more than he needs. When he needs less,
        it goes back to those who gave it. The same is true beside those that could not be read
        (``unread``) when it was made."""
        needed = {
            name: size
            for name, size in self.needed_bytes.items()
            # A little more than that is a plan's rounding, and no gift.
            if self.before_bytes[name] < planned_bytes.get(name, 0) <= 9 * self.made_bytes[name] / 8
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
        return RoomMade(before, dict(planned_bytes), beside, needed) if beside or needed else None

    def still_needed(self, least_bytes: Mapping[str, int]) -> dict[str, int]:
        """Return those for which it was made and who do not work with what they had before."""
        least = {name: least_bytes.get(name, size) for name, size in self.needed_bytes.items()}
        return {name: size for name, size in least.items() if size > self.before_bytes[name]}

    def before_of_needs(self) -> dict[str, int]:
        """Return what those had for which it was made."""
        return {name: self.before_bytes[name] for name in self.needed_bytes}

    @property
    def without_needs(self) -> dict[str, int]:
        """Return the sizes before, where some of it was made for needs; empty where it was made
        beside others alone. Needs pass, as most of them are clients' buffers: no plan is to go by
        them. Those that cannot be given another size have what they have."""
        if not self.needed_bytes:
            return {}
        kept = {n: size for n, size in self.made_bytes.items() if n in self.beside_bytes}
        return self._before_with(kept)

    def to_json(self) -> dict[str, Any]:
        return dict(self.__dict__)

    @classmethod
    def from_json(cls, fields: Fields) -> RoomMade:
        """Read it. Raises DocumentError for anything but ``to_json``'s output; ignores other
        keys."""
        keys = ("before_bytes", "made_bytes", "beside_bytes")
        before, made, beside = (read_sizes(fields.table(key)) for key in keys)
        needed = read_sizes(fields.table("needed_bytes", {}))
        for name in needed:
            if name not in before:
                raise fields.refuse("before_bytes", f"must have {name!r}, which needs room")
        return cls(before, made, beside, needed)

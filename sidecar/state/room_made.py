"""What servers gave so that there is room beside others, which could not be given another size, or
for others, which would have refused writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sidecar.state.control_state import read_sizes
from solver_lambda.documents.reader import Fields


@dataclass(frozen=True)
class RoomMade:
    """Sizes by server, in bytes.

    Attributes:
        before_bytes: planned before room was made.
        made_bytes: planned since.
        beside_bytes: of those beside which it was made, what they have, as far as that counts.
        needed_bytes: of those for which it was made, the least that they worked with.
    """

    before_bytes: dict[str, int]
    made_bytes: dict[str, int]
    beside_bytes: dict[str, int]
    needed_bytes: dict[str, int] = field(default_factory=dict)

    @property
    def is_returned(self) -> bool:
        """Whether it is planned to go back, to be done as the others fill."""
        return self.made_bytes == self.before_bytes

    def returned(self, sizes_bytes: Mapping[str, int]) -> RoomMade | None:
        """From now on these sizes are planned; ``None`` where there was no need, but another that
        could not be given another size."""
        sizes = dict(sizes_bytes)
        return RoomMade(sizes, sizes, {}, self.needed_bytes) if self.needed_bytes else None

    def is_needed_less(
        self, beside_bytes: Mapping[str, int], least_bytes: Mapping[str, int]
    ) -> bool:
        """Whether one of them takes less by now, or works with what it had; ``beside_bytes`` as
        they are now, without those that can be given another size again, and ``least_bytes`` of
        servers that answer."""
        return (
            any(beside_bytes.get(name, 0) < size for name, size in self.beside_bytes.items())
            or self.still_needed(least_bytes).keys() < self.needed_bytes.keys()
        )

    def still_needed(self, least_bytes: Mapping[str, int]) -> dict[str, int]:
        """Of those for which it was made, who does not work with what it had before."""
        least = {name: least_bytes.get(name, size) for name, size in self.needed_bytes.items()}
        return {name: size for name, size in least.items() if size > self.before_bytes[name]}

    def is_left_by(self, name: str, least_bytes: int) -> bool:
        """Whether it was made for this server, which worked before with what it needs now."""
        return name in self.needed_bytes and least_bytes <= self.before_bytes[name]

    def own_bytes(self, targets_bytes: Mapping[str, int]) -> dict[str, int]:
        """The sizes before, where it was made for needs alone, and is what is planned now. Such
        needs pass, as most of them are clients' buffers: no plan is to go by them."""
        passes = self.needed_bytes and not self.beside_bytes and self.made_bytes == targets_bytes
        return dict(self.before_bytes) if passes else {}

    def to_json(self) -> dict[str, Any]:
        return dict(self.__dict__)

    @classmethod
    def from_json(cls, fields: Fields) -> RoomMade:
        """Raises DocumentError for anything but ``to_json``'s output; other keys are ignored."""
        keys = ("before_bytes", "made_bytes", "beside_bytes")
        before, made, beside = (read_sizes(fields.table(key)) for key in keys)
        return cls(before, made, beside, read_sizes(fields.table("needed_bytes", {})))

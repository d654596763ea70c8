"""What servers gave so that there is room beside others, which could not be given another size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sidecar.state.control_state import read_sizes
from solver_lambda.documents.reader import Fields


@dataclass(frozen=True)
class RoomMade:
    """Sizes by server, in bytes.

    Attributes:
        before_bytes: planned before room was made.
        made_bytes: planned since.
        beside_bytes: of those for which it was made, what they have, as far as that counts.
    """

    before_bytes: dict[str, int]
    made_bytes: dict[str, int]
    beside_bytes: dict[str, int]

    def is_needed_less(self, beside_bytes: Mapping[str, int]) -> bool:
        """Whether one of them takes less by now; ``beside_bytes`` as they are now, without those
        that can be given another size again."""
        return any(beside_bytes.get(name, 0) < size for name, size in self.beside_bytes.items())

    def to_json(self) -> dict[str, Any]:
        return dict(self.__dict__)

    @classmethod
    def from_json(cls, fields: Fields) -> RoomMade:
        """Raises DocumentError for anything but ``to_json``'s output; other keys are ignored."""
        keys = ("before_bytes", "made_bytes", "beside_bytes")
        return cls(*(read_sizes(fields.table(key)) for key in keys))

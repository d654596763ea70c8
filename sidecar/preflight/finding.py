"""Says what a look at the machine or a server has found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# ``problem`` keeps SPREDS from working, ``advice`` makes it work worse.
Level = Literal["ok", "advice", "problem"]


@dataclass(frozen=True)
class Finding:
    """Tells one thing that was found.

    Attributes:
        where: a server's name, a key of the node's file, or ``machine``.
        what: for people, with the value that was found.
        remedy: what to do, ``""`` if all is well.
    """

    level: Level
    where: str
    what: str
    remedy: str = ""
